"""The bf16 working copy: what it computes, what ends up in the float32 gradients, and the padding nobody sees."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.gpt import GPT
from andrea_engine.model.sampling import SamplerConfig, generate
from andrea_engine.model.shape import ModelShape
from andrea_engine.model.working_copy import WorkingCopy, padded_rows

SHAPE = ModelShape(d_model=32, layers=2, heads=4, context=16, vocab=101)
IDS = torch.randint(0, 101, (3, 16), generator=torch.Generator().manual_seed(3))
TARGETS = torch.randint(0, 101, (3, 16), generator=torch.Generator().manual_seed(4))


def build(shape: ModelShape = SHAPE) -> tuple[FlatParameters, WorkingCopy]:
    flat = FlatParameters(shape)
    flat.init_weights(0)
    flat.w.mul_(5)  # logits worth looking at: at the first initialisation they are all near zero
    copy = WorkingCopy(flat)
    copy.refresh()
    return flat, copy


def backward(flat: FlatParameters, copy: WorkingCopy | None) -> Tensor:
    """The flat gradient of the test batch."""
    torch.autograd.backward(GPT(flat, copy).loss(IDS, TARGETS))
    if copy is not None:
        copy.collect(first=True)
    return flat.g.clone()


@given(st.integers(1, 70_000))
def test_rows_are_padded_to_the_next_multiple_of_64(vocab: int) -> None:
    rows = padded_rows(vocab)
    assert rows % 64 == 0
    assert 0 <= rows - vocab < 64


def test_the_presets() -> None:
    assert [padded_rows(vocab) for vocab in (769, 2305, 8449)] == [832, 2368, 8512]


def test_matrices_are_rounded_masters_and_the_padding_is_zero() -> None:
    flat, copy = build()
    layer = flat.layers[1]
    assert torch.equal(copy.layers[1].qkv, layer.qkv.detach().bfloat16())
    assert torch.equal(copy.layers[1].fc2, layer.fc2.detach().bfloat16())
    assert copy.head.shape == (128, 32)
    assert torch.equal(copy.head[:101], flat.head.detach().bfloat16())
    assert not copy.head[101:].any()
    assert copy.token_embedding is flat.token_embedding
    assert copy.position_embedding is flat.position_embedding
    assert copy.w.dtype == copy.g.dtype == torch.bfloat16


def test_refresh_follows_the_masters() -> None:
    flat, copy = build()
    flat.w.add_(1.0)
    copy.refresh()
    assert torch.equal(copy.head[:101], flat.weight("head").bfloat16())
    assert torch.equal(copy.layers[0].wo, flat.weight("layers.0.wo").bfloat16())
    assert not copy.head[101:].any()


def test_padded_logits_equal_unpadded_ones() -> None:
    flat, copy = build()
    padded = GPT(flat, copy).logits(IDS)
    assert padded.shape == (3, 16, 101)
    copy.head = copy.head[:101]  # the same product without the padding
    torch.testing.assert_close(padded, GPT(flat, copy).logits(IDS), rtol=2**-7, atol=1e-3)


def test_loss_and_gradient_are_close_to_float32() -> None:
    flat, copy = build()
    reference = GPT(flat).loss(IDS, TARGETS)
    loss = GPT(flat, copy).loss(IDS, TARGETS)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(reference.item(), abs=0.02)
    gradient, other = backward(flat, copy), build()[0]
    expected = backward(other, None)
    assert gradient.dtype == torch.float32
    assert float((gradient - expected).norm() / expected.norm()) < 0.03


def test_every_parameter_gets_its_own_gradient() -> None:
    flat, copy = build()
    backward(flat, copy)
    other = build()[0]
    backward(other, None)
    for name, _ in SHAPE.parameters():
        ours, expected = flat.gradient(name), other.gradient(name)
        assert float((ours - expected).norm() / expected.norm()) < 0.06, name


def test_the_gradient_of_the_padding_is_nil() -> None:
    flat, copy = build()
    torch.autograd.backward(GPT(flat, copy).loss(IDS, TARGETS))
    assert copy.head.grad is not None
    assert copy.head.grad[:101].any()
    assert not copy.head.grad[101:].any()


def test_collected_gradients_add_up_and_are_cleared() -> None:
    flat, copy = build()
    once = backward(flat, copy)
    assert not copy.g.any()
    twice = backward(flat, copy)
    assert torch.equal(twice, once * 2)
    flat.check_views()


def test_the_embedding_of_a_frequent_token_keeps_its_whole_gradient() -> None:
    """Half of 4096 rows are one token: added up in bf16 their sum would stop growing on the way."""
    shape = ModelShape(d_model=16, layers=1, heads=2, context=64, vocab=70)
    ids = torch.randint(1, 70, (64, 64), generator=torch.Generator().manual_seed(1))
    ids[:, ::2] = 0
    rows = []
    for with_copy in (True, False):
        flat, copy = build(shape)
        torch.autograd.backward(GPT(flat, copy if with_copy else None).loss(ids, (ids + 1) % 70))
        rows.append(flat.gradient("token_embedding")[0])
    assert float((rows[0] - rows[1]).norm() / rows[1].norm()) < 0.02


def test_a_padded_id_is_never_drawn() -> None:
    """Every real logit far below zero: the padding, whose product is zero, would win every draw."""
    flat, copy = build()
    copy.w.zero_()  # layers of zero hand the normed embedding to the head, whose rows are its opposite
    flat.token_embedding.data.fill_(1.0)
    flat.position_embedding.data.zero_()
    copy.head.data[:101] = -5.0
    model = GPT(flat, copy)
    assert model.logits(IDS).max() < -100
    for temperature in (0.0, 1.0):
        drawn = generate(model, [1, 2], 14, SamplerConfig(temperature=temperature, seed=1)).ids
        assert len(drawn) == 14
        assert max(drawn) < 101


def test_the_cache_holds_the_precision_of_the_weights() -> None:
    flat, copy = build()
    model = GPT(flat, copy)
    cache = model.start_cache(3)
    assert cache.keys.dtype == torch.bfloat16
    steps = [model.prefill(IDS[:, :4], cache)] + [model.forward_token(IDS[:, at], cache) for at in range(4, 16)]
    torch.testing.assert_close(torch.stack(steps, 1), model.logits(IDS)[:, 3:].detach(), rtol=0.05, atol=0.05)


def test_weights_without_gradients_have_no_working_copy() -> None:
    with pytest.raises(ValueError, match="training=True"):
        WorkingCopy(FlatParameters(SHAPE, training=False))
