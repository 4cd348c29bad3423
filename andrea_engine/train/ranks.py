"""The processes that train one run together: data parallel, one replica of the weights each.

The leader, rank 0, is the engine: it alone reads and writes the run directory, decides, saves and samples. A follower
knows nothing but its share of each batch: the leader sends it the whole batch with step and learning rate, all add up
their gradients, and each makes the same optimizer step, so that the weights stay equal bit for bit. That is looked at
every `CHECK_EVERY` steps.

Who is told to save or to stop tells the leader with the next step. About once a second each also tells how long its own
work in a step takes, and one of each other machine what its devices use.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

import msgspec
import torch
from torch import Tensor

from andrea_engine.latch import SignalLatch
from andrea_engine.model.flat import FlatParameters
from andrea_engine.run.errors import ConfigError, RunError
from andrea_engine.run.rank_facts import Rank
from andrea_engine.telemetry.nodes import NodeReading
from andrea_engine.train.environment import Environment
from andrea_engine.train.peers import Peers, identity
from andrea_engine.train.place import Place
from andrea_engine.train.reporter import RECENT_STEPS
from andrea_engine.train.stopwatch import Stopwatch
from andrea_engine.train.torch_import import complete_torch

CHECK_EVERY = 100  # steps
PATIENCE = timedelta(hours=6)  # a leader may save, sample and validate for so long; one that ends is noticed at once
REPORT_SECONDS = 1.0
_END, _TRAIN, _TRAIN_AND_REPORT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Order:
    """One step: the whole batch, int64 [sequences, context + 1]."""

    step: int
    lr: float
    batch: Tensor


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a process tells of itself; `node` from one process of each machine but the leader's."""

    rank: Rank
    node: NodeReading | None = None


class Ranks:
    """The connection to the others. All of them make the same calls in the same order.

    Every call raises RunError when one of the others has gone. `reports`: the newest of all ranks. `read_node`: what
    this process tells of its machine.
    """

    def __init__(self, place: Place, environment: Environment, batch_shape: tuple[int, int]) -> None:
        """Waits for all of them. `batch_shape`: sequences and tokens of a batch."""
        import torch.distributed as dist  # not needed where a run has one process

        complete_torch()
        self.place = place
        self.reports: list[Report] = []
        self.read_node: Callable[[], NodeReading | None] = lambda: None
        self._dist = dist
        if batch_shape[0] % place.size:
            raise ConfigError(
                f"{place.size} processes cannot share a batch of {batch_shape[0]} sequences: set schedule.batch to a "
                f"multiple of {place.size}, or --nproc to a divisor of {batch_shape[0]}"
            )
        device = torch.device(environment.device)
        self._device_name = environment.device_name
        self._peers = Peers([identity()], 0)
        self._batch_shape = batch_shape
        self._work = Stopwatch(device)
        self._recent: deque[float] = deque(maxlen=RECENT_STEPS)
        self._reporting = False
        self._reported = float("-inf")
        backend = "nccl" if device.type == "cuda" else "gloo"
        try:
            dist.init_process_group(backend, timeout=PATIENCE)
            self._control = dist.new_group(backend="gloo", timeout=PATIENCE)  # numbers that the host knows
            members = [(pid, host) for pid, host in self._gather(list(identity()))]
        except (RuntimeError, RunError) as error:
            raise RunError(f"the {place.size} processes of this run did not find each other: {error}") from error
        self._peers = Peers(members, place.rank)
        self._peers.start()

    def when_lost(self, end: Callable[[str], None]) -> None:
        """What ends this process, with a sentence, when another has died and no connection tells."""
        self._peers.on_lost = end

    # -- from the leader ----------------------------------------------------------------------------------------

    def share(self, flat: FlatParameters) -> None:
        """All get the leader's weights and moments."""
        with self._peers.expected():
            for buffer in (flat.w, flat.m, flat.v):
                self._dist.broadcast(buffer, 0)

    def order(self, step: int, lr: float, batch: Tensor) -> None:
        """The leader has a step made: it goes on with it itself."""
        now = time.monotonic()
        self._reporting = now - self._reported >= REPORT_SECONDS
        self._reported = now if self._reporting else self._reported
        self._send(_TRAIN_AND_REPORT if self._reporting else _TRAIN, step, lr, batch)
        self._work.start()

    def dismiss(self) -> None:
        """The leader lets the others go."""
        self._peers.stop()
        self._send(_END, 0, 0.0, torch.zeros(self._batch_shape, dtype=torch.int64))

    def _send(self, word: int, step: int, lr: float, batch: Tensor) -> None:
        head = torch.tensor([word, step, _bits(lr)], dtype=torch.int64)
        with self._peers.expected():
            self._dist.broadcast(torch.cat([head, batch.flatten()]), 0, group=self._control)

    def receive(self) -> Order | None:
        """The next step for a follower; None when it is dismissed."""
        count = self._batch_shape[0] * self._batch_shape[1]
        message = torch.empty(3 + count, dtype=torch.int64)
        with self._peers.expected():
            self._dist.broadcast(message, 0, group=self._control)
        word, step, bits = message[:3].tolist()
        if word == _END:
            self._peers.stop()
            return None
        self._reporting = word == _TRAIN_AND_REPORT
        self._work.start()
        return Order(step, _number(bits), message[3:].view(self._batch_shape))

    # -- among all ----------------------------------------------------------------------------------------------

    def part(self, batch: Tensor) -> Tensor:
        """This process's rows of a batch."""
        rows = len(batch) // self.place.size
        return batch[self.place.rank * rows : (self.place.rank + 1) * rows]

    def add_up(self, gradients: Tensor, loss: Tensor) -> Tensor:
        """Replace the gradients by their sum over all; the mean of their losses (0-d, on the device of `loss`)."""
        self._work.stop()
        with self._peers.expected():
            self._dist.all_reduce(gradients)
            total = loss.detach().clone().to(gradients.device)
            self._dist.all_reduce(total)
        return total / self.place.size

    def end_step(self, step: int, weights: Tensor, latch: SignalLatch, *, counts: bool = True) -> None:
        """After a step: the leader hears of the requests that came to the others, and now and then all weights are
        compared and all tell of themselves. `counts`: its time tells something of the next ones. Raises RunError where
        weights differ."""
        if counts:
            self._recent.append(self._work.seconds())
        if step % CHECK_EVERY == 0:
            self._compare(step, weights)
        self._tell(latch)
        if self._reporting:
            gathered = self._gather_bytes(msgspec.json.encode(Report(rank=self._describe(), node=self.read_node())))
            if self.place.leads:
                self.reports = [msgspec.json.decode(one, type=Report) for one in gathered]

    def _describe(self) -> Rank:
        seconds = median(self._recent) if self._recent else None
        tokens = self._batch_shape[0] * (self._batch_shape[1] - 1) / self.place.size
        return Rank(
            rank=self.place.rank,
            host=socket.gethostname(),
            pid=os.getpid(),
            device=self._device_name,
            step_seconds=seconds,
            tokens_per_second=tokens / seconds if seconds else None,
        )

    def _tell(self, latch: SignalLatch) -> None:
        """The leader hears of the requests that came to the others."""
        # A follower's request is taken off before it is told: one that comes meanwhile is told with the next step.
        save = latch.save_asked if self.place.leads else latch.take_save()
        asked = [float(save is not None), float(latch.stop_asked is not None)]
        flags = torch.tensor(asked, dtype=torch.float64)
        with self._peers.expected():
            self._dist.all_reduce(flags, self._dist.ReduceOp.MAX, group=self._control)
        if not self.place.leads:
            return
        now = time.time()
        if flags[0] and latch.save_asked is None:
            latch.save_asked = now
        if flags[1] and latch.stop_asked is None:
            latch.stop_asked = now

    def _compare(self, step: int, weights: Tensor) -> None:
        """All have the same weights, or RunError names who has not."""
        sum_of_bits = int(weights.view(torch.int32).sum(dtype=torch.int64))
        sums = [one for (one,) in self._gather([sum_of_bits])]
        others = [rank for rank, one in enumerate(sums) if one != sums[0]]
        if others:
            ranks = ", ".join(map(str, others))
            raise RunError(
                f"at step {step:,} the weights of rank {ranks} differ from the leader's: nothing after the last "
                f"checkpoint is to be trusted; check the memory of these machines, then start again"
            )

    def leave(self) -> None:
        """Nothing follows."""
        self._dist.destroy_process_group()

    def _gather(self, numbers: list[int]) -> list[list[int]]:
        """The numbers of each rank."""
        mine = torch.tensor(numbers, dtype=torch.int64)
        all_of_them = [torch.empty_like(mine) for _ in range(self.place.size)]
        with self._peers.expected():
            self._dist.all_gather(all_of_them, mine, group=self._control)
        return [one.tolist() for one in all_of_them]

    def _gather_bytes(self, data: bytes) -> list[bytes]:
        """The bytes of each rank."""
        lengths = [length for (length,) in self._gather([len(data)])]
        mine = torch.zeros(max(lengths), dtype=torch.uint8)
        mine[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        all_of_them = [torch.empty_like(mine) for _ in lengths]
        with self._peers.expected():
            self._dist.all_gather(all_of_them, mine, group=self._control)
        return [one[:length].numpy().tobytes() for one, length in zip(all_of_them, lengths, strict=True)]


def _bits(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _number(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
