"""Follow a request from being asked to being durable, in words that never claim more than is known.

Asked -> seen by the engine -> writing -> durable, or failed. Each phase has its own patience; when that is over, the
words say how long it has lasted and what the engine does meanwhile. Nothing is ever hurried.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from andrea_engine.run.events import Event
from andrea_engine.run.heartbeat import Heartbeat, Saving
from andrea_tui.plotting.format import duration, human_count, percent, size_bytes

SEEN_PATIENCE_STEPS = 2
SEEN_PATIENCE_SECONDS = 2.0  # fast engines do many steps before the console looks again
LONG_WAIT = 10.0  # seconds in one phase after which the words say how long it has lasted
LONG_STEPS = 2.0  # ... and at least so many usual steps
STUCK_WRITE = 10.0  # seconds without a byte
SILENCE = 5.0  # the heartbeat beats once a second
RATE_SECONDS = 0.5  # a rate over less says nothing
STOP = "checkpoint and exit"


class _Write(msgspec.Struct):
    """Bytes of the write under way: where and when the looks at it began, and when the count last moved."""

    began: float
    first: int
    done: int
    moved: float

    def take(self, done: int, now: float) -> None:
        if done != self.done:
            self.done, self.moved = done, now

    @property
    def rate(self) -> float | None:
        """Bytes per second."""
        seconds = self.moved - self.began
        return (self.done - self.first) / seconds if seconds >= RATE_SECONDS else None


class SaveFollower(msgspec.Struct):
    """`asked_at` is set by the console when it has rung; the engine's events answer. `clock` tells seconds since the
    epoch, for what is compared with the engine's times; `timer` must not jump, for patience."""

    clock: Callable[[], float] = time.time
    timer: Callable[[], float] = time.monotonic
    asked_at: float | None = None
    what: str = ""
    seen: bool = False
    text: str = ""
    failed: bool = False
    overdue: bool = False
    durable_step: int | None = None
    durable_at: float | None = None
    writing_step: int | None = None
    _asked_step: int = 0
    _phase_since: float = 0.0
    _phase_text: str = ""
    _saved_text: str = ""
    _write: _Write | None = None

    def ask(self, step: int, what: str = "checkpoint") -> None:
        """The console has sent the request for `what` at `step`."""
        self.asked_at = self.clock()
        self.what = what
        self.seen = False
        self.failed = False
        self._asked_step = step
        self._enter(f"{what} asked, waiting for the end of the step")

    def _enter(self, text: str) -> None:
        self._phase_since = self.timer()
        self.overdue = False
        self.text = self._phase_text = text

    @property
    def pending(self) -> bool:
        """True from asking until durable or failed."""
        return self.asked_at is not None

    @property
    def stopping(self) -> bool:
        """True while a stop that this console asked for is under way."""
        return self.pending and self.what == STOP

    def take(self, event: Event) -> None:
        """An event of the engine."""
        if event.kind == "start":  # a write that an earlier process had begun is over
            self.writing_step = None
            self.text = self._saved_text
        elif event.kind == "save_seen":
            self.seen = True
            self._enter(f"checkpoint request seen at step {human_count(event.step)}")
        elif event.kind == "save_writing":
            self.writing_step = event.step
            self._write = None
            self._enter(f"writing step {human_count(event.step)}")
        elif event.kind == "save_durable":
            self.writing_step = None
            self.failed = False
            self.durable_step, self.durable_at = event.step, event.time
            self._saved_text = saved_text(event)
            self._enter(self._saved_text)
            if self.asked_at is not None and event.time >= self.asked_at - 1.0 and event.text("reason") != "cadence":
                self.asked_at = None
        elif event.kind == "rollback":
            self.writing_step, self.failed = None, False
            self.durable_step, self.durable_at = event.step, event.time
            self._saved_text = f"rolled back to the checkpoint of step {human_count(event.step)}"
            self._enter(self._saved_text)
        elif event.kind == "save_failed":
            self.writing_step = None
            self.failed = True
            self.asked_at = None
            self._enter(f"NOT saved: {event.text('error')}")

    def look(self, beat: Heartbeat | None, *, alive: bool) -> None:
        """The heartbeat: progress of a write, and the patience for an answer."""
        if self.asked_at is not None and not alive:
            self.asked_at = None
            self.failed = True
            self.text = "the engine ended before it answered the request"
        if beat is None or not alive:
            return
        waited = self.timer() - self._phase_since
        if self.writing_step is not None:
            # Heartbeats lag behind events: what one says of another step is over by now.
            saving = beat.saving if beat.saving is not None and beat.saving.step == self.writing_step else None
            self._look_at_write(saving, waited)
        elif self.pending and not self.seen:
            self._look_for_answer(beat, waited)
        elif self.pending and waited >= LONG_WAIT:
            self.overdue = True
            self.text = f"{self._phase_text}, {_wait(waited)} ago; the write has not begun, {self._meanwhile(beat)}"

    def _look_at_write(self, saving: Saving | None, waited: float) -> None:
        step = human_count(self.writing_step)
        if saving is None:
            if waited >= STUCK_WRITE:
                self.overdue = True
                self.text = f"writing step {step} for {_wait(waited)}, and the engine does not say how far it is"
            return
        now = self.timer()
        if self._write is None:
            self._write = _Write(now, saving.done, saving.done, now)
        self._write.take(saving.done, now)
        still, rate = now - self._write.moved, self._write.rate
        speed = "" if rate is None else f", {size_bytes(rate)}/s"
        share = percent(saving.done / saving.total if saving.total else None)
        self.text = f"writing step {step}: {share} of {size_bytes(saving.total)}{speed}"
        self.overdue = still >= STUCK_WRITE
        if saving.done >= saving.total > 0:
            self.text = f"writing step {step}: all {size_bytes(saving.total)} are written, the disk has to confirm them"
            self.text += f" ({_wait(still)} so far)" if self.overdue else ""
        elif self.overdue:
            self.text = f"writing step {step}: {share} of {size_bytes(saving.total)}, and no byte for {_wait(still)}"

    def _look_for_answer(self, beat: Heartbeat, waited: float) -> None:
        steps = beat.step - self._asked_step
        if steps >= SEEN_PATIENCE_STEPS and beat.time - (self.asked_at or 0.0) >= SEEN_PATIENCE_SECONDS:
            self.overdue = True
            self.text = f"{self.what} asked, but the engine has not seen it after two steps"
        elif waited >= max(LONG_WAIT, LONG_STEPS * (beat.step_seconds or 0.0)):
            self.overdue = True
            self.text = f"{self.what} asked {_wait(waited)} ago and not seen yet; {self._meanwhile(beat)}"

    def _meanwhile(self, beat: Heartbeat) -> str:
        """What the engine does while somebody waits for it."""
        silent = self.clock() - beat.time
        if silent >= SILENCE:
            return f"the engine has not reported for {_wait(silent)}"
        lasted = _wait(max(0.0, self.clock() - max(beat.step_time or 0.0, beat.phase_since)))
        usual = f", usually {duration(beat.step_seconds)}" if beat.step_seconds and beat.phase == "training" else ""
        return f"the engine is {_DOING.get(beat.phase, f'in phase {beat.phase}')} ({lasted} so far{usual})"


_DOING = {
    "starting": "starting",
    "preparing": "preparing the data",
    "loading": "loading the checkpoint",
    "compiling": "compiling",
    "training": "in a long step",
    "sampling": "making a sample",
    "validating": "validating",
}


def _wait(seconds: float) -> str:
    """For one who waits, minutes are too coarse at first."""
    return f"{seconds:.0f} s" if seconds < 300 else duration(seconds)


def saved_text(event: Event) -> str:
    """`saved step 112,600 (1.18 GB, 1.4 s)`."""
    size, seconds = event.integer("bytes"), event.number("seconds")
    took = "" if seconds is None else f", {seconds:.1f} s"
    return f"saved step {human_count(event.step)} ({size_bytes(size)}{took})"
