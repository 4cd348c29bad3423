from __future__ import annotations

import math

import pytest
import torch

from andrea_engine.model.flat import DecayRange, FlatParameters
from andrea_engine.model.gpt import GPT
from andrea_engine.model.shape import ModelShape

SHAPE = ModelShape(d_model=8, layers=2, heads=2, context=6, vocab=11)
EMBEDDINGS = (11 + 6) * 8
LAYER = 12 * 8 * 8


def counting(shape: ModelShape = SHAPE) -> FlatParameters:
    """Every weight holds its own index, so a view shows where it lies."""
    flat = FlatParameters(shape)
    flat.w.copy_(torch.arange(shape.n_params))
    return flat


def test_buffers_are_flat_float32_and_start_at_zero() -> None:
    flat = FlatParameters(SHAPE)
    for buffer in (flat.w, flat.g, flat.m, flat.v):
        assert buffer.shape == (SHAPE.n_params,)
        assert buffer.dtype == torch.float32
        assert not buffer.requires_grad
    assert not any(buffer.any() for buffer in (flat.g, flat.m, flat.v))


def test_weights_follow_the_file_order_row_major() -> None:
    flat, offset = counting(), 0
    for name, (rows, columns) in SHAPE.parameters():
        expected = torch.arange(offset, offset + rows * columns, dtype=torch.float32).reshape(rows, columns)
        assert torch.equal(flat.weight(name), expected), name
        offset += rows * columns


def test_leaves_cover_the_buffer_once_and_qkv_is_one_matrix() -> None:
    flat = counting()
    leaves = dict(flat.leaves())
    assert torch.equal(torch.cat([leaf.detach().flatten() for leaf in leaves.values()]), flat.w)
    for layer in range(2):
        parts = [flat.weight(f"layers.{layer}.{name}") for name in ("wq", "wk", "wv")]
        assert torch.equal(leaves[f"layers.{layer}.qkv"].detach(), torch.cat(parts))
        assert leaves[f"layers.{layer}.qkv"] is flat.layers[layer].qkv
    assert all(leaf.is_leaf and leaf.requires_grad for leaf in leaves.values())


def test_leaves_and_flat_buffers_share_memory() -> None:
    flat = counting()
    flat.w.mul_(2)
    assert flat.layers[1].wo[0, 0].item() == 2 * (EMBEDDINGS + LAYER + 3 * 64)
    with torch.no_grad():
        flat.head[-1, -1] = -1.0
    assert flat.w[-1].item() == -1.0


def test_backward_fills_the_flat_gradients_in_place() -> None:
    flat = FlatParameters(SHAPE)
    flat.init_weights(0)
    torch.autograd.backward(GPT(flat).loss(torch.tensor([[1, 2, 3]]), torch.tensor([[2, 3, 4]])))
    flat.check_views()
    # Only tokens 1, 2, 3 and positions 0, 1, 2 took part.
    assert flat.gradient("token_embedding").any(dim=1).tolist() == [row in (1, 2, 3) for row in range(11)]
    assert flat.gradient("position_embedding").any(dim=1).tolist() == [row < 3 for row in range(6)]
    for name, _ in SHAPE.parameters():
        assert flat.gradient(name).any(), name


def test_decay_leaves_the_embeddings_out() -> None:
    assert FlatParameters(SHAPE).decay_ranges == (
        DecayRange(0, EMBEDDINGS, decay=False),
        DecayRange(EMBEDDINGS, SHAPE.n_params, decay=True),
    )


def test_check_views_sees_a_dropped_gradient() -> None:
    flat = FlatParameters(SHAPE)
    flat.check_views()
    flat.layers[1].fc1.grad = None
    with pytest.raises(RuntimeError, match=r"gradient of layers\.1\.fc1"):
        flat.check_views()


def test_check_views_sees_a_replaced_gradient() -> None:
    flat = FlatParameters(SHAPE)
    flat.head.grad = torch.zeros_like(flat.head)
    with pytest.raises(RuntimeError, match="gradient of head"):
        flat.check_views()


def test_check_views_sees_replaced_weights() -> None:
    flat = FlatParameters(SHAPE)
    flat.token_embedding.data = flat.token_embedding.data.clone()
    with pytest.raises(RuntimeError, match="token_embedding no longer points"):
        flat.check_views()


def test_initial_weights_have_the_documented_spread() -> None:
    shape = ModelShape(d_model=64, layers=8, heads=4, context=64, vocab=257)
    flat = FlatParameters(shape)
    flat.init_weights(3)
    for name, (rows, columns) in shape.parameters():
        expected = 0.02 / 4 if name.endswith(("wo", "fc2")) else 0.02  # sqrt(2 * 8) = 4
        # The standard error of a standard deviation is std / sqrt(2n); six of them never happen.
        tolerance = 6 * expected / math.sqrt(2 * rows * columns)
        assert flat.weight(name).std().item() == pytest.approx(expected, abs=tolerance), name
        assert abs(flat.weight(name).mean().item()) < 6 * expected / math.sqrt(rows * columns), name
    assert not any(buffer.any() for buffer in (flat.g, flat.m, flat.v))


def test_initial_weights_depend_on_the_seed_alone() -> None:
    first, again, other = (FlatParameters(SHAPE) for _ in range(3))
    state = torch.get_rng_state()
    first.init_weights(5)
    torch.rand(7)
    again.init_weights(5)
    other.init_weights(6)
    assert torch.equal(first.w, again.w)
    assert not torch.equal(first.w, other.w)
    torch.set_rng_state(state)
    first.init_weights(7)
    assert torch.equal(torch.get_rng_state(), state)


def test_without_training_only_the_weights_take_memory() -> None:
    flat = FlatParameters(SHAPE, training=False)
    assert flat.w.numel() == SHAPE.n_params
    assert flat.g.numel() == flat.m.numel() == flat.v.numel() == 0
    assert not any(leaf.requires_grad for _, leaf in flat.leaves())
    flat.check_views()


def test_device_is_honoured() -> None:
    flat = FlatParameters(ModelShape(d_model=1536, layers=16, heads=24, context=1024, vocab=8449), "meta")
    assert flat.w.device.type == "meta"
    assert flat.w.numel() == 480_513_024
