"""Follow a request from being asked to being durable, in words that never claim more than is known."""

from __future__ import annotations

import time
from dataclasses import dataclass

from andrea_engine.run.events import Event
from andrea_engine.run.heartbeat import Heartbeat
from andrea_tui.plotting.format import human_count, percent, size_bytes

SEEN_PATIENCE_STEPS = 2
SEEN_PATIENCE_SECONDS = 2.0  # fast engines do many steps before the console looks again


@dataclass(slots=True)
class SaveFollower:
    """`asked_at` is set by the console when it has rung; the engine's events answer."""

    asked_at: float | None = None
    seen: bool = False
    text: str = ""
    failed: bool = False
    durable_step: int | None = None
    durable_at: float | None = None
    writing_step: int | None = None
    _asked_step: int = 0
    _saved_text: str = ""

    def ask(self, step: int, what: str = "checkpoint") -> None:
        """The console has sent the request for `what` at `step`."""
        self.asked_at = time.time()
        self.seen = False
        self.failed = False
        self._asked_step = step
        self.text = f"{what} asked, waiting for the end of the step"

    @property
    def pending(self) -> bool:
        """True from asking until durable or failed."""
        return self.asked_at is not None

    def take(self, event: Event) -> None:
        """An event of the engine."""
        if event.kind == "start":  # a write that an earlier process had begun is over
            self.writing_step = None
            self.text = self._saved_text
        elif event.kind == "save_seen":
            self.seen = True
            self.text = f"checkpoint request seen at step {human_count(event.step)}"
        elif event.kind == "save_writing":
            self.writing_step = event.step
            self.text = f"writing step {human_count(event.step)}"
        elif event.kind == "save_durable":
            self.writing_step = None
            self.failed = False
            self.durable_step, self.durable_at = event.step, event.time
            self.text = self._saved_text = saved_text(event)
            if self.asked_at is not None and event.time >= self.asked_at - 1.0 and event.text("reason") != "cadence":
                self.asked_at = None
        elif event.kind == "save_failed":
            self.writing_step = None
            self.failed = True
            self.asked_at = None
            self.text = f"NOT saved: {event.text('error')}"

    def look(self, beat: Heartbeat | None, *, alive: bool) -> None:
        """The heartbeat: progress of a write, and the patience for an answer."""
        s = beat.saving if beat is not None and alive else None
        if s is not None and s.step == self.writing_step:  # heartbeats lag behind events: it may be durable by now
            share = percent(s.done / s.total if s.total else None)
            self.text = f"writing step {human_count(s.step)}: {share} of {size_bytes(s.total)}"
        if self.asked_at is None:
            return
        if not alive:
            self.asked_at = None
            self.text = "the engine ended before it answered the request"
            self.failed = True
        elif beat is not None and not self.seen and self._overdue(beat, self.asked_at):
            self.text = "checkpoint asked, but the engine has not seen it after two steps"

    def _overdue(self, beat: Heartbeat, asked_at: float) -> bool:
        steps, seconds = beat.step - self._asked_step, beat.time - asked_at
        return steps >= SEEN_PATIENCE_STEPS and seconds >= SEEN_PATIENCE_SECONDS


def saved_text(event: Event) -> str:
    """`saved step 112,600 (1.18 GB, 1.4 s)`."""
    size, seconds = event.integer("bytes"), event.number("seconds")
    took = "" if seconds is None else f", {seconds:.1f} s"
    return f"saved step {human_count(event.step)} ({size_bytes(size)}{took})"
