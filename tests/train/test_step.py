"""The training step: the same bits as spelled out, micro-batches, bf16, and a device that is never waited for."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.gpt import GPT
from andrea_engine.model.operations import EagerOperations
from andrea_engine.model.shape import ModelShape
from andrea_engine.run.errors import ConfigError, RunError
from andrea_engine.train import step as step_module
from andrea_engine.train.optimizer import AdamW, norm_on_device
from andrea_engine.train.step import StepResult, TrainingStep

SHAPE = ModelShape(d_model=32, layers=2, heads=4, context=16, vocab=101)
LR = 1e-3


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


def batch(seed: int, size: int = 4) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, SHAPE.vocab, (size, SHAPE.context + 1))


class Kept(AdamW):
    """Keeps the gradients of a step and changes no weight."""

    def step(self, step: int, lr: float) -> float:
        return float(self.step_on_device(step, lr))

    def step_on_device(self, step: int, lr: float) -> Tensor:
        self.gradient = self.flat.g.clone()
        self.flat.g.zero_()
        return norm_on_device(self.gradient)


def gradient(ids: NDArray[np.int64], **options: Any) -> tuple[float, Tensor]:
    optimizer = Kept(fresh())
    result = TrainingStep(optimizer.flat, optimizer, **options).run(ids, 1, LR)
    return result.loss, optimizer.gradient


def same(one: FlatParameters, other: FlatParameters) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("w", "m", "v"))


def assert_close(here: StepResult, there: StepResult, host: FlatParameters, device: FlatParameters) -> None:
    """Equal up to the rounding of different operations: the host has some of its own."""
    assert there.loss == pytest.approx(here.loss, rel=1e-6)
    assert there.grad_norm == pytest.approx(here.grad_norm, rel=1e-5)
    torch.testing.assert_close(device.m, host.m, rtol=1e-4, atol=1e-8)
    torch.testing.assert_close(device.v, host.v, rtol=1e-4, atol=1e-12)


def test_the_plain_step_has_the_bits_of_the_spelled_out_one() -> None:
    flat, other = fresh(), fresh()
    other.overwrites_matrices = True
    step, optimizer, model = TrainingStep(flat, AdamW(flat)), AdamW(other), GPT(other, operations=EagerOperations())
    for number in (1, 2, 3):
        ids = torch.from_numpy(batch(number))
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        torch.autograd.backward(loss)
        norm = optimizer.step(number, LR)
        result = step.run(batch(number), number, LR)
        assert (result.loss, result.grad_norm) == (float(loss.detach()), norm)
        assert same(flat, other)


def test_arrays_and_tensors_are_the_same_batch() -> None:
    results = [TrainingStep(flat, AdamW(flat)).run(ids, 1, LR) for flat, ids in _pairs(batch(1))]
    assert results[0] == results[1]


def _pairs(ids: NDArray[np.int64]) -> Iterator[tuple[FlatParameters, NDArray[np.int64] | Tensor]]:
    yield fresh(), ids
    yield fresh(), torch.from_numpy(ids)


@pytest.mark.parametrize("micro_batch", [1, 2, 4])
@pytest.mark.parametrize("on_device", [False, True])
def test_micro_batches_average_to_the_whole_batch(micro_batch: int, on_device: bool) -> None:
    loss, expected = gradient(batch(1))
    parts_loss, parts = gradient(batch(1), micro_batch=micro_batch, on_device=on_device)
    assert parts_loss == pytest.approx(loss, rel=1e-6)
    torch.testing.assert_close(parts, expected, rtol=1e-4, atol=1e-7)


def test_a_micro_batch_of_the_whole_batch_changes_no_bit() -> None:
    one, other = gradient(batch(1)), gradient(batch(1), micro_batch=4)
    assert one[0] == other[0]
    assert torch.equal(one[1], other[1])


def test_bf16_gradients_are_added_up_in_float32() -> None:
    """Halving is exact, so the mean over two parts must have the bits of the float32 mean of their gradients."""
    _, first = gradient(batch(1)[:2], precision="bf16")
    _, second = gradient(batch(1)[2:], precision="bf16")
    _, both = gradient(batch(1), precision="bf16", micro_batch=2)
    assert torch.equal(both, (first + second) / 2)


def test_bf16_trains_as_float32_does() -> None:
    losses = []
    for precision in ("fp32", "bf16"):
        flat = fresh()
        step = TrainingStep(flat, AdamW(flat), precision=precision)  # type: ignore[arg-type]
        losses.append([step.run(batch(1), number, 1e-2).loss for number in range(1, 13)])
        assert flat.w.dtype == flat.g.dtype == flat.m.dtype == flat.v.dtype == torch.float32
        flat.check_views()
    assert losses[0][-1] < losses[0][0] - 1, "it learns"
    np.testing.assert_allclose(losses[1], losses[0], atol=0.05)


def test_the_working_copy_follows_weights_that_were_loaded() -> None:
    """A step starts with the cast, so that nothing older than the masters is ever computed with."""
    flat = fresh()
    step = TrainingStep(flat, AdamW(flat), precision="bf16")
    step.run(batch(1), 1, LR)
    other = fresh()
    for name in ("w", "m", "v"):
        getattr(other, name).copy_(getattr(flat, name))
    assert step.run(batch(2), 2, LR) == TrainingStep(other, AdamW(other), precision="bf16").run(batch(2), 2, LR)
    assert same(flat, other)


def test_on_device_and_on_host_agree() -> None:
    host, device = fresh(), fresh()
    steps = [TrainingStep(host, AdamW(host, clip=math.inf)), TrainingStep(device, AdamW(device), on_device=True)]
    results = [step.run(batch(1), 1, LR) for step in steps]
    assert results[0].grad_norm < 1, "nothing to clip"
    assert_close(*results, host, device)


def test_on_device_clips_as_on_host() -> None:
    host, device = fresh(), fresh()
    one, other = AdamW(host, clip=0.01), AdamW(device, clip=0.01)
    first = TrainingStep(host, one).run(batch(1), 1, LR)
    second = TrainingStep(device, other, on_device=True).run(batch(1), 1, LR)
    assert first.grad_norm > 0.02, "something to clip"
    assert_close(first, second, host, device)
    assert float(norm_on_device(device.m)) == pytest.approx(0.1 * 0.01, rel=1e-5)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_on_device_a_gradient_that_is_not_finite_changes_nothing(poison: float) -> None:
    flat = fresh()
    step = TrainingStep(flat, AdamW(flat), on_device=True)
    step.run(batch(1), 1, LR)
    before = [getattr(flat, name).clone() for name in ("w", "m", "v")]
    flat.g[SHAPE.n_params // 2] = poison
    result = step.run(batch(2), 2, LR)
    assert math.isfinite(result.loss)
    assert not math.isfinite(result.grad_norm)
    assert all(torch.equal(a, getattr(flat, name)) for a, name in zip(before, ("w", "m", "v"), strict=True))
    assert not flat.g.any()
    assert math.isfinite(step.run(batch(3), 3, LR).grad_norm), "and the next step is as if nothing had been"


def test_on_device_without_the_fused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "_fused_adamw_")
    host, device = fresh(), fresh()
    here = TrainingStep(host, AdamW(host)).run(batch(1), 1, LR)
    there = TrainingStep(device, AdamW(device), on_device=True).run(batch(1), 1, LR)
    assert_close(here, there, host, device)


def test_steps_count_from_one() -> None:
    with pytest.raises(ValueError, match="count from 1, got 0"):
        AdamW(fresh()).step_on_device(0, LR)


@pytest.mark.parametrize("on_device", [False, True])
def test_a_batch_that_cannot_be_divided(on_device: bool) -> None:
    flat = fresh()
    with pytest.raises(ConfigError, match="micro_batch 3 does not divide the batch of 4"):
        TrainingStep(flat, AdamW(flat), micro_batch=3, on_device=on_device).run(batch(1), 1, LR)


def test_on_device_batches_keep_their_shape() -> None:
    flat = fresh()
    step = TrainingStep(flat, AdamW(flat), on_device=True)
    step.run(batch(1), 1, LR)
    with pytest.raises(ValueError, match=r"were \[4, 17\], now one is \[2, 17\]"):
        step.run(batch(1, size=2), 2, LR)


def test_memory_that_does_not_suffice_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    flat = fresh()
    step = TrainingStep(flat, AdamW(flat))

    def too_much(*_: object) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(GPT, "loss", too_much)
    with pytest.raises(ConfigError, match=r"4 sequences of 16 tokens do not fit .* schedule.micro_batch to a smaller"):
        step.run(batch(1), 1, LR)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """torch.compile that traces but leaves the kernels to eager PyTorch; the options it was called with."""
    asked: list[dict[str, object]] = []
    compile_ = torch.compile

    def traced(function: Callable[..., Tensor], **options: Any) -> Callable[..., Tensor]:
        asked.append(options)
        return compile_(function, backend="aot_eager", **options)

    monkeypatch.setattr(torch, "compile", traced)
    return asked


def test_the_step_is_one_graph_of_fixed_shapes_for_the_compiler(compiler: list[dict[str, object]]) -> None:
    compiled, plain = fresh(), fresh()
    step = TrainingStep(compiled, AdamW(compiled), precision="bf16", micro_batch=2, compile=True)
    other = TrainingStep(plain, AdamW(plain), precision="bf16", micro_batch=2)
    assert compiler == [{"dynamic": False, "fullgraph": True}]
    assert step.preparing
    assert not other.preparing
    for number in (1, 2):
        ours, expected = step.run(batch(number), number, LR), other.run(batch(number), number, LR)
        assert not step.preparing
        assert ours.loss == pytest.approx(expected.loss, abs=1e-3)
        assert ours.grad_norm == pytest.approx(expected.grad_norm, rel=1e-2)
    compiled.check_views()


def test_a_compiler_that_fails_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Callable[[Tensor], Tensor]:
        def call(ids: Tensor) -> Tensor:
            raise OSError("no such file: cc\nand a long traceback")

        return call

    monkeypatch.setattr(torch, "compile", broken)
    flat = fresh()
    step = TrainingStep(flat, AdamW(flat), compile=True)
    with pytest.raises(RunError, match=r'\(no such file: cc\); set compile = "off", cuda_graphs = "off"'):
        step.run(batch(1), 1, LR)


def test_other_errors_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    flat = fresh()
    monkeypatch.setattr(GPT, "loss", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        TrainingStep(flat, AdamW(flat)).run(batch(1), 1, LR)


def test_graphs_need_cuda() -> None:
    flat = fresh()
    with pytest.raises(ValueError, match="need a CUDA device, not cpu"):
        TrainingStep(flat, AdamW(flat), cuda_graphs=True)


class _Recorder:
    """Stands in for CUDA graphs on the CPU. Recording runs nothing on CUDA, so here it is undone; a replay runs it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, flat: FlatParameters) -> None:
        self.flat = flat
        self.queue: step_module._Queue | None = None
        self.replays = 0

        class Stream:
            def __init__(self, device: object) -> None: ...
            def wait_stream(self, other: object) -> None: ...

        recorder = self

        class Graph:
            def replay(self) -> None:
                recorder.replays += 1
                assert recorder.queue is not None
                queue = recorder.queue
                queue._total.add_(queue._accumulate(queue._part, 2))

        @contextlib.contextmanager
        def record(graph: object, stream: object) -> Iterator[None]:
            assert not flat.g.any(), "what the warm-up added must be gone"
            assert recorder.queue is not None
            total = recorder.queue._total.clone()
            yield
            flat.g.zero_()
            recorder.queue._total.copy_(total)

        monkeypatch.setattr(torch.cuda, "Stream", Stream)
        monkeypatch.setattr(torch.cuda, "current_stream", Stream)
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
        monkeypatch.setattr(torch.cuda, "graph", record)


def test_replayed_graphs_add_up_to_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of warm-up, recording and replay, with stand-ins for CUDA; the kernels are a GPU's to check."""
    flat, plain = fresh(), fresh()
    step = TrainingStep(flat, AdamW(flat), precision="bf16", micro_batch=2, on_device=True)
    recorder = _Recorder(monkeypatch, flat)
    recorder.queue = step._queue = step_module._Queue(flat, step._accumulate, graphs=True)
    other = TrainingStep(plain, AdamW(plain), precision="bf16", micro_batch=2, on_device=True)
    for number in (1, 2):
        assert step.run(batch(number), number, LR) == other.run(batch(number), number, LR)
        assert recorder.replays == 2 * number
    assert same(flat, plain)
