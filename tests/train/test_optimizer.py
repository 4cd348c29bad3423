from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.shape import ModelShape
from andrea_engine.train.optimizer import AdamW, global_norm

# Neither the count nor the range boundary is a multiple of a vector register.
SHAPE = ModelShape(d_model=15, layers=2, heads=3, context=7, vocab=101)
RATES = [1e-3, 3e-3, 2e-3, 5e-4, 1e-4, 7e-3]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def fresh() -> FlatParameters:
    flat = FlatParameters(SHAPE)
    flat.init_weights(0)
    return flat


def gradient(step: int, count: int = SHAPE.n_params, scale: float = 1e-3) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(step)) * scale


def adamw_by_hand(
    w: NDArray[np.float64],
    gradients: list[NDArray[np.float64]],
    rates: list[float],
    decay: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Algorithm 2 of Loshchilov and Hutter in float64, with the defaults of the engine."""
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, (g, lr) in enumerate(zip(gradients, rates, strict=True), start=1):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
        w = w - lr * decay * w - lr * m_hat / (np.sqrt(v_hat) + 1e-8)
    return w


def assert_bits_equal_torch_adamw(flat: FlatParameters, pieces: list[tuple[int, bool]]) -> None:
    """Step both optimizers; `pieces` are (elements, decay) of the tensors that torch's class gets."""
    sizes = [size for size, _ in pieces]
    tensors = [piece.clone().requires_grad_() for piece in torch.split(flat.w, sizes)]
    groups = [
        {"params": [tensor], "weight_decay": 0.1 if decay else 0.0}
        for tensor, (_, decay) in zip(tensors, pieces, strict=True)
    ]
    optimizer = AdamW(flat)
    theirs = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.999), eps=1e-8, fused=True)
    for step, lr in enumerate(RATES, start=1):
        flat.g.copy_(gradient(step, flat.g.numel()))
        for tensor, part in zip(tensors, torch.split(flat.g.clone(), sizes), strict=True):
            tensor.grad = part
        for group in theirs.param_groups:
            group["lr"] = lr
        assert optimizer.step(step, lr) < 1.0  # no clipping, torch's class has none
        theirs.step()
        assert torch.equal(flat.w, torch.cat([tensor.detach() for tensor in tensors]))
        assert torch.equal(flat.m, torch.cat([theirs.state[tensor]["exp_avg"] for tensor in tensors]))
        assert torch.equal(flat.v, torch.cat([theirs.state[tensor]["exp_avg_sq"] for tensor in tensors]))


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_equal_torch_adamw_with_one_tensor_per_decay_group(threads: int) -> None:
    torch.set_num_threads(threads)
    flat = fresh()
    assert_bits_equal_torch_adamw(flat, [((101 + 7) * 15, False), (2 * 12 * 225 + 101 * 15, True)])


def test_bits_equal_torch_adamw_with_one_tensor_per_parameter() -> None:
    """Sizes are multiples of a vector register, as in every preset: torch rounds odd tails differently."""
    shape = ModelShape(d_model=16, layers=2, heads=4, context=7, vocab=101)
    flat = FlatParameters(shape)
    flat.init_weights(0)
    pieces = [(math.prod(dims), not name.endswith("_embedding")) for name, dims in shape.parameters()]
    assert_bits_equal_torch_adamw(flat, pieces)


@pytest.mark.parametrize("fused", [True, False])
def test_update_matches_the_published_algorithm(fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fused:
        monkeypatch.delattr(torch, "_fused_adamw_")
    flat = fresh()
    optimizer = AdamW(flat)
    before = flat.w.numpy().astype(np.float64)
    for step, lr in enumerate(RATES, start=1):
        flat.g.copy_(gradient(step))
        optimizer.step(step, lr)
    decay = np.full(SHAPE.n_params, 0.1)
    decay[: (101 + 7) * 15] = 0.0
    gradients = [gradient(step).numpy().astype(np.float64) for step in range(1, 7)]
    expected = adamw_by_hand(before, gradients, RATES, decay)
    np.testing.assert_allclose(flat.w.numpy(), expected, rtol=2e-5, atol=2e-7)


def test_bias_correction_follows_from_the_step_argument_alone() -> None:
    """A new optimizer object in the middle, as after a resume, changes no bit."""
    straight, resumed = fresh(), fresh()
    optimizer = AdamW(straight)
    for step, lr in enumerate(RATES, start=1):
        straight.g.copy_(gradient(step))
        optimizer.step(step, lr)
        resumed.g.copy_(gradient(step))
        AdamW(resumed).step(step, lr)
    for name in ("w", "m", "v"):
        assert torch.equal(getattr(straight, name), getattr(resumed, name))


def test_gradients_above_the_clip_act_like_scaled_ones() -> None:
    clipped, scaled = fresh(), fresh()
    big = gradient(1, scale=1.0)
    clipped.g.copy_(big)
    norm = AdamW(clipped, clip=0.5).step(1, 1e-3)
    assert norm == pytest.approx(float(np.linalg.norm(big.numpy().astype(np.float64))), rel=1e-6)
    scaled.g.copy_(big * (0.5 / norm))
    assert AdamW(scaled, clip=math.inf).step(1, 1e-3) == pytest.approx(0.5, rel=1e-6)
    torch.testing.assert_close(clipped.m, scaled.m, rtol=1e-6, atol=1e-12)
    assert global_norm(clipped.m) == pytest.approx(0.1 * 0.5, rel=1e-5)


def test_gradients_below_the_clip_are_left_as_they_are() -> None:
    flat = fresh()
    flat.g.copy_(gradient(1))
    expected = torch.zeros(SHAPE.n_params).lerp(gradient(1), 1 - 0.9)
    norm = AdamW(flat).step(1, 1e-3)
    assert 0 < norm < 1
    torch.testing.assert_close(flat.m, expected, rtol=1e-6, atol=0)


def test_gradients_are_zero_after_a_step_and_views_hold() -> None:
    flat = fresh()
    flat.g.copy_(gradient(1))
    AdamW(flat).step(1, 1e-3)
    assert not flat.g.any()
    flat.check_views()


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("at", [0, SHAPE.n_params // 2, SHAPE.n_params - 1])
def test_non_finite_gradients_change_nothing(poison: float, at: int) -> None:
    flat = fresh()
    optimizer = AdamW(flat)
    flat.g.copy_(gradient(1))
    optimizer.step(1, 1e-3)
    before = [buffer.clone() for buffer in (flat.w, flat.m, flat.v)]
    flat.g.copy_(gradient(2))
    flat.g[at] = poison
    assert not math.isfinite(optimizer.step(2, 1e-3))
    assert all(torch.equal(old, new) for old, new in zip(before, (flat.w, flat.m, flat.v), strict=True))
    assert not flat.g.any()


@pytest.mark.parametrize("count", [0, 1, 4095, 4096, 4097, 10_000])
def test_norm_of_any_length(count: int) -> None:
    values = torch.randn(count, generator=torch.Generator().manual_seed(count))
    expected = float(np.linalg.norm(values.numpy().astype(np.float64)))
    assert global_norm(values) == pytest.approx(expected, rel=1e-6)


def test_norm_of_many_elements_stays_exact() -> None:
    """One float32 sum over the same 12.8 million elements is 0.6 % low."""
    norm = global_norm(torch.full((12_780_288,), 2.0**-10))
    assert norm == pytest.approx(2.0**-10 * math.sqrt(12_780_288), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"betas": (1.0, 0.999)}, "betas"),
        ({"betas": (0.9, -0.1)}, "betas"),
        ({"eps": 0.0}, "eps"),
        ({"weight_decay": -0.1}, "weight_decay"),
        ({"weight_decay": math.nan}, "weight_decay"),
        ({"clip": 0.0}, "clip"),
        ({"clip": math.nan}, "clip"),
    ],
)
def test_settings_out_of_range_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdamW(fresh(), **arguments)  # type: ignore[arg-type]


def test_steps_count_from_one() -> None:
    with pytest.raises(ValueError, match="count from 1, got 0"):
        AdamW(fresh()).step(0, 1e-3)


def test_weights_without_moments_are_refused() -> None:
    with pytest.raises(ValueError, match="training=True"):
        AdamW(FlatParameters(SHAPE, training=False))


def test_a_training_step_never_loads_dynamo() -> None:
    code = """
import sys, torch
from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.gpt import GPT
from andrea_engine.model.shape import ModelShape
from andrea_engine.train.optimizer import AdamW
flat = FlatParameters(ModelShape(8, 1, 2, 4, 5))
flat.init_weights(0)
ids = torch.tensor([[1, 2, 3]])
GPT(flat).loss(ids, ids).backward()
before = flat.w.clone()
norm = AdamW(flat).step(1, 1e-3)
print(norm > 0, not torch.equal(before, flat.w), "torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "False"]
