"""The operator's own command, run at each alarm: it may send a message, and it can never hold training up."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from andrea_engine.run.plain import clean

LIMIT_SECONDS = 30.0
QUIET_SECONDS = 300.0  # between two alarms of a kind that can come with every step
LONGEST_VALUE = 2000
_EVERY_STEP = {"nonfinite", "save_failed"}


@dataclass(frozen=True, slots=True)
class _Alarm:
    kind: str
    facts: dict[str, str] = field(default_factory=dict)


class AlarmHook:
    """Runs `command` (program and arguments, no shell) for every alarm among the events of a run.

    Alarms: `collapse`, `window`, `axis` and `divergence` of the gate, `halt`, `save_failed`, `nonfinite`. The facts
    stand in the environment: ANDREA_RUN, ANDREA_KIND, ANDREA_STEP, ANDREA_MESSAGE, ANDREA_SCORE (newest sample),
    ANDREA_AXIS and ANDREA_MISSED (alarms since the last call that were not told); '' is unknown.

    One command runs at a time, in its own session, without input, its output where the engine's goes; after
    `limit` seconds it is killed with everything it started. One more alarm waits, the newest. A failure is told
    through `notice`.
    """

    def __init__(
        self, command: Sequence[str], run: Path, notice: Callable[[str], None], limit: float = LIMIT_SECONDS
    ) -> None:
        self._command = list(command)
        self._run_path = run.absolute()
        self._notice = notice
        self._limit = limit
        self._score = ""
        self._changed = threading.Condition()
        self._waiting: _Alarm | None = None
        self._missed = 0
        self._last: dict[str, float] = {}
        self._closing = False
        self._thread: threading.Thread | None = None

    def observe(self, kind: str, facts: Mapping[str, object]) -> None:
        """Look at an event; returns at once. For `EventLog.observer`, so from any thread."""
        if not self._command:
            return
        if kind == "sample":
            self._score = _text(facts.get("total"))
        alarm = _alarm(kind, facts)
        if alarm is None:
            return
        with self._changed:
            if self._closing or not self._due(alarm.kind):
                self._missed += 1
                return
            if self._waiting is not None:
                self._missed += 1
            self._waiting = alarm
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="alarm hook", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Let the alarms that are under way have their command, each within its limit, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _due(self, kind: str) -> bool:
        now = time.monotonic()
        if kind in _EVERY_STEP and now - self._last.get(kind, float("-inf")) < QUIET_SECONDS:
            return False
        self._last[kind] = now
        return True

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting is not None or self._closing)
                alarm, self._waiting = self._waiting, None
                if alarm is None:
                    return
                missed, self._missed = self._missed, 0
            problem = self._call(alarm, missed)
            if problem is not None:
                self._notice(f"the alarm command {clean(self._command[0])} {problem}")

    def _call(self, alarm: _Alarm, missed: int) -> str | None:
        """Run the command for one alarm; returns what went wrong."""
        facts = {"RUN": str(self._run_path), "KIND": alarm.kind, "SCORE": self._score, "MISSED": str(missed)}
        environment = os.environ | {f"ANDREA_{name}": value for name, value in (facts | alarm.facts).items()}
        try:
            process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, env=environment, start_new_session=True, close_fds=True
            )
        except (OSError, ValueError) as error:
            return f"could not be started: {getattr(error, 'strerror', None) or error}"
        try:
            code = process.wait(self._limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # leads its own session, and is not reaped: the id is its own
            process.wait()
            return f"did not end within {self._limit:g} s and was killed"
        return None if code == 0 else f"ended with exit code {code}"


def _alarm(kind: str, facts: Mapping[str, object]) -> _Alarm | None:
    """The alarm that an event is, None for all others."""
    if kind == "gate":
        kind = str(facts.get("alarm"))
        if kind == "recovered":
            return None
        message = facts.get("text")
    elif kind == "halt":
        message = facts.get("reason")
    elif kind == "save_failed":
        message = facts.get("error")
    elif kind == "nonfinite":
        message = f"the loss or gradient of step {facts.get('step')} is not finite"
    else:
        return None
    told = {"STEP": facts.get("step"), "MESSAGE": message, "AXIS": facts.get("axis")}
    return _Alarm(kind, {name: _text(value) for name, value in told.items()})


def _text(value: object) -> str:
    """For the environment: no control characters, of which NUL is not possible there, and a bounded length."""
    return "" if value is None else clean(str(value))[:LONGEST_VALUE]
