"""When to save, and the trail of every request: asked, seen, writing, durable or failed."""

from __future__ import annotations

import time
from collections.abc import Callable

from andrea_engine.model.flat import FlatParameters
from andrea_engine.run.checkpoint import checkpoint_bytes, list_checkpoints
from andrea_engine.run.errors import SaveError
from andrea_engine.run.events import known_digests, pinned_steps, read_events
from andrea_engine.run.heartbeat import LastSave, Saving
from andrea_engine.run.loss_record import LossRecord
from andrea_engine.train.checkpointing import PINNED_REASONS, CheckpointWriter
from andrea_engine.train.engine import EngineContext
from andrea_engine.train.pivoting import PivotWatch

FIRST_RETRY = 5.0
LONGEST_RETRY = 60.0


class Saver:
    """Serves requests and the cadence at step boundaries; a failed save is tried again with growing pauses."""

    def __init__(
        self,
        context: EngineContext,
        flat: FlatParameters,
        record: LossRecord,
        snapshot: Callable[[], dict[str, object]],
        pivot: PivotWatch,
    ) -> None:
        self._context = context
        self._pivot = pivot
        self._table = context.config.checkpoint
        self._snapshot = snapshot
        self.pinned = pinned_steps(context.history)
        self.writer = CheckpointWriter(context.directory, flat, record, context.events, self._table, self.pinned)
        self._submitted: int | None = None  # step of the newest save that was handed to the writer
        self._submitted_at = float("-inf")
        self._retry_pause = FIRST_RETRY
        self._retry_at: float | None = None

    def progress(self) -> tuple[Saving | None, LastSave | None]:
        """For the heartbeat: the write under way and the newest durable one."""
        return self.writer.saving, self.writer.last

    def wait(self) -> SaveError | None:
        return self.writer.wait()

    def at_step_end(self, step: int, *, final: bool) -> None:
        """Serve a pending request, else a pivot at this step, else the cadence, else the retry of a failed save."""
        table = self._table
        saved = self.serve_request(step)
        if step % table.every == 0:
            self._pivot.look(step)
        if saved or final:
            return
        if self._pivot.due(step):
            self._submit(step, "pivot")
            return
        due = step % table.every == 0 and time.monotonic() - self._submitted_at >= table.min_seconds
        if due:
            self._submit(step, "cadence")
        elif self._retry_due():
            self._submit(step, "retry")

    def serve_request(self, step: int) -> bool:
        """Act on a SIGUSR1 that waits on the latch. Returns whether it asked for a save."""
        asked = self._context.latch.take_save()
        if asked is None or self._pivot.is_doorbell(step, asked):
            return False
        events = self._context.events
        events.append("save_asked", at=asked, by="SIGUSR1")
        events.append("save_seen", step=step, after=round(time.time() - asked, 3))
        if self._submitted == step and self.wait() is None:
            self._answer_with_existing(step, "operator")
        else:
            self._submit(step, "operator")
        return True

    def _answer_with_existing(self, step: int, reason: str) -> None:
        """This very step is on disk already: say so, instead of writing the same bytes again."""
        pinned = reason in PINNED_REASONS
        if pinned:
            self.pinned.add(step)
        digest = known_digests(read_events(self._context.directory.events)).get(step, "")
        self._context.events.append(
            "save_durable",
            step=step,
            bytes=checkpoint_bytes(self._context.config.n_params),
            seconds=0.0,
            sha256=digest,
            reason=reason,
            pinned=pinned,
            already_saved=True,
        )

    def final_save(self, step: int, asked: float | None, reason: str = "stop") -> SaveError | None:
        """Make `step` durable and wait for it. `asked` is the time of the stop request, None for a reached target."""
        events = self._context.events
        if step:
            self.serve_request(step)  # one that came together with the stop gets its own answer
        if asked is not None:
            events.append("save_asked", at=asked, by="stop")
            events.append("save_seen", step=step, after=round(time.time() - asked, 3))
        elif reason == "stop":
            reason = "final"
        error = self.wait()
        if step == 0:
            return None
        if self._submitted != step or error is not None or reason == "halt":
            self._submit(step, reason)
            return self.wait()
        if asked is not None or (reason == "pivot" and step not in self.pinned):
            self._answer_with_existing(step, reason)
        return None

    def resumed_at(self, step: int) -> None:
        """The checkpoint of this step is on disk already: it is what the run was resumed from."""
        self._submitted = step if step else None

    def pin_last_good(self, step: int | None, why: str = "last good before the halt") -> int | None:
        """Pin the newest valid checkpoint at or before `step`; returns its step, None when there is none."""
        if step is None:
            return None
        found = [f.step for f in list_checkpoints(self._context.directory.path) if f.valid and f.step <= step]
        if not found:
            return None
        self.pinned.add(found[0])
        self._context.events.append("pin", step=found[0], reason=why)
        return found[0]

    def _submit(self, step: int, reason: str) -> None:
        self.writer.submit(step, reason, self._snapshot())
        self._submitted = step
        self._submitted_at = time.monotonic()
        self._retry_at = None

    def _retry_due(self) -> bool:
        """True when a failed save should be tried again now; the pause doubles with each failure in a row."""
        if self.writer.busy or self.writer.error is None:
            if self.writer.error is None and not self.writer.busy:
                self._retry_pause = FIRST_RETRY
            return False
        now = time.monotonic()
        if self._retry_at is None:
            self._retry_at = now + self._retry_pause
            self._retry_pause = min(2 * self._retry_pause, LONGEST_RETRY)
        return now >= self._retry_at
