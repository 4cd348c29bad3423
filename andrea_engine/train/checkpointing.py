"""Checkpoints while training goes on: a staging copy at the step boundary, one writer thread, one write in flight."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from andrea_engine.model.flat import FlatParameters
from andrea_engine.run.checkpoint import (
    HEADER,
    Written,
    checkpoint_bytes,
    list_checkpoints,
    parse_name,
    write_checkpoint,
)
from andrea_engine.run.config import CheckpointTable
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError, SaveError
from andrea_engine.run.events import EventLog
from andrea_engine.run.heartbeat import LastSave, Saving
from andrea_engine.run.intent import guard
from andrea_engine.run.loss_record import LossRecord
from andrea_engine.run.pins import PinFollower
from andrea_engine.run.retention import steps_to_remove
from andrea_engine.run.state import write_state

PINNED_REASONS = {"operator", "halt", "pivot"}
_SCAN = 4 * 1024 * 1024  # elements looked at in one go


@dataclass(slots=True)
class _Job:
    step: int
    reason: str
    state: dict[str, object]
    started: float = field(default_factory=time.monotonic)


class CheckpointWriter:
    """Writes checkpoints, commits the loss record with each, and applies the keep rule.

    `submit` copies w, m and v (the only pause that training feels) and returns; `wait` blocks until the write in
    flight has ended and returns its error, if any. `pinned` are steps that the keep rule must leave alone, brought up
    to the event log before each removal, for the operator may pin meanwhile; `protect` gives further ones.
    """

    def __init__(
        self,
        directory: RunDirectory,
        flat: FlatParameters,
        record: LossRecord,
        events: EventLog,
        table: CheckpointTable,
        pinned: set[int],
    ) -> None:
        self._directory = directory
        self._flat = flat
        self._record = record
        self._events = events
        self._table = table
        self.pinned = pinned
        self._pins = PinFollower(directory)
        self.protect: Callable[[], set[int]] = set
        self._staging: np.ndarray | None = None
        self._thread: threading.Thread | None = None
        self.error: SaveError | None = None
        self.saving: Saving | None = None
        self.last: LastSave | None = None
        self.last_error_at: float | None = None

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def submit(self, step: int, reason: str, state: dict[str, object]) -> None:
        """Save the present w, m and v as `step`, and then `state` as the bandit's snapshot.

        Waits first for a write that is still under way.
        """
        self.wait()
        self._stage()
        self.error = None
        self.saving = Saving(step=step, done=0, total=checkpoint_bytes(self._flat.w.numel()))
        self._events.append("save_writing", step=step, bytes=self.saving.total, reason=reason)
        self._thread = threading.Thread(target=self._write, args=(_Job(step, reason, state),), name="checkpoint writer")
        self._thread.start()

    def wait(self) -> SaveError | None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        return self.error

    def _stage(self) -> None:
        buffers = (self._flat.w, self._flat.m, self._flat.v)
        if self._staging is None:
            # Page-locked for weights on a GPU, whose copy is then several times faster.
            pinned = self._flat.device.type == "cuda"
            self._staging = torch.empty((3, self._flat.w.numel()), dtype=torch.float32, pin_memory=pinned).numpy()
        for row, buffer in zip(self._staging, buffers, strict=True):
            torch.from_numpy(row).copy_(buffer.detach())

    def _write(self, job: _Job) -> None:
        assert self._staging is not None  # noqa: S101  (staged by submit, just before this thread started)
        try:
            problem = numbers_problem(self._staging, job.step)
            if problem is not None:
                raise SaveError(f"step {job.step:,} was not written: it {problem}")
            self._record.sync_journal()
            regions = [memoryview(row).cast("B") for row in self._staging]
            written = write_checkpoint(self._directory.path, job.step, regions, self._progress)
        except Exception as error:  # whatever it was: a save that did not end well must never pass for one
            self._failed(job, error)
        else:
            self._commit(job)
            self._durable(job, written)
        finally:
            self.saving = None

    def _commit(self, job: _Job) -> None:
        """Bring record and snapshot up to the durable checkpoint. What fails here is finished by the next start."""
        try:
            self._record.commit(job.step)
            write_state(self._directory.state, job.state)
        except OSError as error:
            problem = f"the loss record or the bandit state cannot be written: {error.strerror}"
            self._events.append("error", step=job.step, error=problem)

    def _progress(self, done: int, total: int) -> None:
        if self.saving is not None:
            self.saving = Saving(step=self.saving.step, done=done, total=total)

    def _failed(self, job: _Job, error: Exception) -> None:
        reason = str(error) if isinstance(error, RunError) else f"step {job.step:,} was not written: {error}"
        self.error = SaveError(reason)
        self.last_error_at = time.monotonic()
        self._events.append("save_failed", step=job.step, reason=job.reason, error=reason)

    def _durable(self, job: _Job, written: Written) -> None:
        seconds = round(time.monotonic() - job.started, 3)
        pinned = job.reason in PINNED_REASONS
        if pinned:
            self.pinned.add(job.step)
        self.last_error_at = None
        self.last = LastSave(step=job.step, bytes=written.bytes, seconds=seconds, time=time.time(), reason=job.reason)
        self._events.append(
            "save_durable",
            step=job.step,
            file=written.path.name,
            bytes=written.bytes,
            seconds=seconds,
            sha256=written.digest,
            reason=job.reason,
            pinned=pinned,
        )
        with contextlib.suppress(OSError, RunError):  # somebody pins at this moment: the next save removes
            self._apply_keep_rule()

    def _apply_keep_rule(self) -> None:
        if self._table.keep == "all":
            return
        with guard(self._directory, patience=0.0, what="pins"):
            self._pins.read(self.pinned)
            self._remove()

    def _remove(self) -> None:
        valid = {file.step: file for file in list_checkpoints(self._directory.path) if file.valid}
        keep = self.pinned | self.protect()
        removed = steps_to_remove(valid, keep, self._table.keep_last, self._table.keep_every)
        for step in removed:
            valid[step].path.unlink()
        if removed:
            self._events.append(
                "removed", steps=removed, bytes=sum(valid[s].bytes for s in removed), reason="keep rule"
            )


def content_problem(path: Path) -> str | None:
    """What is wrong with the numbers in a checkpoint of valid size: not finite, v below zero, or moments all zero.

    None when they can be trained from.
    """
    try:
        regions = np.memmap(path, dtype="<f4", mode="r", offset=HEADER.size).reshape(3, -1)
    except (OSError, ValueError) as error:
        return f"cannot be read: {error}"
    return numbers_problem(regions, parse_name(path.name) or 0)


def numbers_problem(regions: Iterable[np.ndarray], step: int) -> str | None:
    """What is wrong with weights, m and v of `step`, float32 (3, n_params); None when they can be trained from."""
    for name, region in zip(("weights", "m", "v"), regions, strict=True):
        any_nonzero = False
        for at in range(0, len(region), _SCAN):
            part = region[at : at + _SCAN]
            # NaN and infinities show in the extremes: two passes and no memory, beside a training that needs both.
            least, greatest = part.min(), part.max()
            if not (np.isfinite(least) and np.isfinite(greatest)):
                return f"has {name} that are not finite"
            if name == "v" and least < 0:
                return "has negative second moments (v), which cannot be"
            any_nonzero = any_nonzero or least != 0 or greatest != 0
        if name == "v" and step > 0 and not any_nonzero:
            return f"has moments that are all zero at step {step:,}, so a resume would not equal an unbroken run"
    return None


def load_checkpoint(path: Path, flat: FlatParameters) -> None:
    """Fill w, m and v from a validated file: mapped, then copied. Raises RunError when it cannot be read."""
    try:
        data = np.memmap(path, dtype="<f4", mode="c", offset=HEADER.size)
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    count = flat.w.numel()
    with torch.no_grad():
        for index, buffer in enumerate((flat.w, flat.m, flat.v)):
            buffer.copy_(torch.from_numpy(data[index * count : (index + 1) * count]))
