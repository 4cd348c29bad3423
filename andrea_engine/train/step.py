"""One optimizer step: forward and backward over the micro-batches, then clip and AdamW.

On the CPU the host runs every operation itself and looks at each loss as it comes.

On CUDA the host only queues work, and waits once per step, at its end, for one pair of numbers: loss and gradient norm.
It has to wait there, because the bandit chooses the next arm, and so the next batch, from this loss; a loss fetched one
step late would be cheaper by the launch gap and train another run. What can be avoided is every other wait: losses of
the micro-batches are added up on the device, the clip and the rule for non-finite gradients have no branch on the host
(`AdamW.step_on_device`), batches go through pinned memory, and for launch-bound sizes the forward and backward pass of
a micro-batch is one CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.gpt import GPT
from andrea_engine.model.operations import EagerOperations
from andrea_engine.model.working_copy import WorkingCopy
from andrea_engine.run.errors import ConfigError, RunError
from andrea_engine.train.environment import Precision
from andrea_engine.train.optimizer import AdamW
from andrea_engine.train.ranks import Ranks
from andrea_engine.train.torch_import import complete_torch

_GRAPH_WARMUP = 3  # passes before the capture: the first ones compile, choose algorithms and allocate


@dataclass(frozen=True, slots=True)
class StepResult:
    """Mean loss in nats, and the gradient norm before clipping; one that is not finite has changed no weight."""

    loss: float
    grad_norm: float


class TrainingStep:
    """Runs optimizer steps on the buffers of `flat`.

    `precision`: fp32 computes with the masters, bf16 with a `WorkingCopy`. `micro_batch`: sequences per forward pass, 0
    for the whole batch; the gradients of equal parts are averaged, in float32. `compile` and `cuda_graphs` make the
    first step slow and demand batches of one shape. `ranks`: the processes that share each batch. `on_device`: whether
    a step ends without a branch on the host; None leaves it to the device (see above).
    """

    def __init__(
        self,
        flat: FlatParameters,
        optimizer: AdamW,
        *,
        precision: Precision = "fp32",
        micro_batch: int = 0,
        compile: bool = False,  # noqa: A002  (its name in torch and in run.toml)
        cuda_graphs: bool = False,
        on_device: bool | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        is_cuda = flat.device.type == "cuda"
        if cuda_graphs and not is_cuda:
            raise ValueError(f"CUDA graphs need a CUDA device, not {flat.device}")
        self._flat = flat
        self._optimizer = optimizer
        self._copy = WorkingCopy(flat) if precision == "bf16" else None
        on_device = is_cuda if on_device is None else on_device
        # Compilers and CUDA have ways of their own to save passes over the memory.
        self._eager = None if is_cuda or on_device or compile else EagerOperations()
        flat.overwrites_matrices = self._eager is not None
        self._model = GPT(flat, self._copy, self._eager)
        self._micro_batch = micro_batch
        self._ranks = ranks
        self._processes = 1 if ranks is None else ranks.place.size
        if compile:
            complete_torch()
        self._loss = torch.compile(self._loss_of, dynamic=False, fullgraph=True) if compile else self._loss_of
        self._preparing = compile or cuda_graphs
        self._first = True  # the next micro-batch is the first of its step
        self._checked = False
        self._queue: _Queue | None = None
        if on_device:
            self._queue = _Queue(flat, self._accumulate, graphs=cuda_graphs)

    @property
    def preparing(self) -> bool:
        """Whether the next step compiles or captures: seconds to minutes, and no measure of the speed."""
        return self._preparing

    def run(self, batch: npt.NDArray[np.int64] | Tensor, step: int, lr: float) -> StepResult:
        """Train on `batch`, int64 [sequences, context + 1], as the 1-based step `step`.

        Raises ConfigError when `micro_batch` does not divide the batch or the device's memory is too small for it,
        RunError when PyTorch cannot compile or capture the step.
        """
        ids = torch.from_numpy(batch) if isinstance(batch, np.ndarray) else batch
        if self._ranks is not None:
            ids = self._ranks.part(ids)
        size = self._micro_batch or len(ids)
        if len(ids) % size:
            raise ConfigError(f"schedule.micro_batch {size} does not divide the batch of {len(ids)} sequences")
        try:
            result = self._run(ids, size, step, lr)
        except torch.OutOfMemoryError as error:
            raise ConfigError(
                f"{size} sequences of {ids.shape[1] - 1} tokens do not fit the memory of {self._flat.device}: "
                f"set schedule.micro_batch to a smaller divisor of {len(ids)}"
            ) from error
        except Exception as error:
            if not self._preparing:
                raise
            raise RunError(
                f"PyTorch could not compile the training step or capture it as a CUDA graph ({_first_line(error)}); "
                f'set compile = "off", cuda_graphs = "off" in the [device] table of run.toml'
            ) from error
        self._preparing = False
        if not self._checked:
            self._flat.check_views()
            self._checked = True
        return result

    def _run(self, ids: Tensor, size: int, step: int, lr: float) -> StepResult:
        self._first = True
        if self._copy is not None:
            self._copy.refresh()
        if self._queue is not None:
            loss = self._among_all(self._queue.run(ids, size))
            return StepResult(*self._queue.fetch(loss, self._optimizer.step_on_device(step, lr)))
        parts = torch.split(ids, size)
        total = sum(float(self._accumulate(part.to(self._flat.device), len(parts))) for part in parts)
        mean = self._among_all(torch.tensor(total / len(parts), dtype=torch.float64))
        return StepResult(float(mean), self._optimizer.step(step, lr))

    def _among_all(self, loss: Tensor) -> Tensor:
        """Gradients and mean loss of all processes that share the batch."""
        return loss if self._ranks is None else self._ranks.add_up(self._flat.g, loss)

    def _loss_of(self, ids: Tensor) -> Tensor:
        return self._model.loss(ids[:, :-1], ids[:, 1:])

    def _accumulate(self, ids: Tensor, count: int) -> Tensor:
        """Add the gradients of one of `count` micro-batches to the flat `g`; its mean loss (0-d)."""
        first, self._first = self._first, False
        if self._eager is not None:
            self._eager.overwrite = first or self._copy is not None  # a copy has the gradients of one pass only
        loss = self._loss(ids)
        share = count * self._processes
        (loss if share == 1 else loss / share).backward()  # type: ignore[no-untyped-call]
        if self._copy is not None:
            self._copy.collect(first=first)
        return loss.detach()


class _Queue:
    """Keeps the device fed without waiting for it: static buffers, and a CUDA graph of a micro-batch if asked for."""

    def __init__(self, flat: FlatParameters, accumulate: Callable[[Tensor, int], Tensor], *, graphs: bool) -> None:
        self._flat = flat
        self._accumulate = accumulate
        self._graphs = graphs
        self._graph: torch.cuda.CUDAGraph | None = None
        self._pinned = flat.device.type == "cuda"
        self._host_ids: Tensor | None = None
        self._total = torch.zeros((), dtype=torch.float64, device=flat.device)
        self._pair = torch.zeros(2, dtype=torch.float64, pin_memory=self._pinned)
        # A blocking event lets the waiting core sleep; the default one spins, for days.
        self._done = torch.cuda.Event(blocking=True) if self._pinned else None  # type: ignore[no-untyped-call]

    def run(self, ids: Tensor, size: int) -> Tensor:
        """Accumulate the parts of `size` sequences; the mean of their losses (0-d float64)."""
        count = len(ids) // size
        if self._host_ids is None:
            self._host_ids = torch.empty(ids.shape, dtype=torch.int64, pin_memory=self._pinned)
            self._ids = torch.empty(ids.shape, dtype=torch.int64, device=self._flat.device)
            self._part = torch.empty_like(self._ids[:size])
        if ids.shape != self._host_ids.shape:
            raise ValueError(f"the batches were {list(self._host_ids.shape)}, now one is {list(ids.shape)}")
        self._host_ids.copy_(ids)
        self._ids.copy_(self._host_ids, non_blocking=True)
        if self._graphs and self._graph is None:
            self._graph = self._capture(size, count)
        self._total.zero_()
        for part in torch.split(self._ids, size):
            self._part.copy_(part)
            if self._graph is not None:
                self._graph.replay()
            else:
                self._total.add_(self._accumulate(self._part, count))
        return self._total / count

    def fetch(self, loss: Tensor, norm: Tensor) -> tuple[float, float]:
        """Both numbers on the host: the one wait of a step."""
        self._pair.copy_(torch.stack((loss, norm.to(loss.device))), non_blocking=True)
        if self._done is not None:
            self._done.record()
            self._done.synchronize()
        first, second = self._pair.tolist()
        return first, second

    def _capture(self, size: int, count: int) -> torch.cuda.CUDAGraph:
        """The passes over `_part` as a graph that adds to the gradients and to `_total`; both are nil before and after.

        Warm-up and capture run on a stream of their own, as capturing demands.
        """
        self._part.copy_(self._ids[:size])
        device = self._flat.device
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(_GRAPH_WARMUP):
                self._accumulate(self._part, count)
        torch.cuda.current_stream(device).wait_stream(stream)
        self._flat.clear_gradients()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self._total.add_(self._accumulate(self._part, count))
        return graph


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
