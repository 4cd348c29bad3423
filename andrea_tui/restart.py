"""Start a crashed engine again: off unless the operator asks for it, with growing pauses and a limit an hour.

The rule is a value with a clock from outside; the watchdog is the thread that feeds it. A thread, because a terminal
that does not read stops the console's own loop, and a run must not wait for a terminal.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from andrea_engine.run.condition import condition
from andrea_engine.run.errors import ExitCode, RunError
from andrea_engine.run.launch import engine_status
from andrea_tui.control import Control, log_notice
from andrea_tui.plotting.format import duration

DEFAULT_LIMIT = 3
MOST = 60
HOUR = 3600.0
PAUSES = (10.0, 60.0, 300.0)  # before the first restart, the second in a row, and all later ones
HEALTHY = 600.0  # seconds of life after which a crash is a new story
LOOK_SECONDS = 1.0
OFF_SECONDS = 5.0  # without an order it only has to know whether an engine lived
WORDS_OF_A_CRASH = ("crashed", "failed")
DECISIONS = frozenset(ExitCode) - {ExitCode.FAILED}  # an exit code that a restart would not change


class Look(msgspec.Struct, frozen=True):
    """What the watchdog sees. `engine` names the process. `starting`: one that was started from here lives and has
    not reported yet. `exit_code`: how the last one ended, None when it did not say. `asked_to_stop`: by whomever,
    a kill from here included."""

    alive: bool
    word: str
    engine: object = None
    starting: bool = False
    exit_code: int | None = None
    asked_to_stop: bool = False


class RestartRule:
    """`limit`: restarts an hour, 0 is off. Times are seconds of a clock that does not jump."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.due: float | None = None
        self.gave_up = False
        self._armed = False  # an engine lived under these eyes, or was started by this rule
        self._stop_asked = False
        self._engine: object = None
        self._alive_since = 0.0
        self._in_row = 0
        self._restarts: list[float] = []

    def switch(self, limit: int) -> None:
        """A new limit; what was counted and decided before is forgotten."""
        self.limit = limit
        self.due = None
        self.gave_up = False
        self._in_row = 0
        self._restarts = []

    def within_the_hour(self, now: float) -> int:
        """Restarts of the last hour."""
        return sum(1 for at in self._restarts if now - at < HOUR)

    def observe(self, look: Look, now: float) -> str:
        """One look. Returns what is news: `waiting` (see `due`), `restart` (do it now), `gave up`, or ''."""
        if look.alive:
            self._live(look, now)
            return ""
        if not self._armed or look.starting or self.gave_up:
            return ""
        if not self._is_crash(look):
            self._armed, self.due = False, None
        elif self.limit and self.due is None:
            return self._plan(now)
        elif self.due is not None and now >= self.due:
            self.due = None
            self._restarts = [*(at for at in self._restarts if now - at < HOUR), now]
            return "restart"
        return ""

    def _live(self, look: Look, now: float) -> None:
        if look.engine != self._engine:
            self._engine, self._alive_since, self._stop_asked = look.engine, now, False
        self._armed, self.due, self.gave_up = True, None, False
        self._stop_asked = self._stop_asked or look.asked_to_stop
        if now - self._alive_since >= HEALTHY:
            self._in_row = 0

    def _is_crash(self, look: Look) -> bool:
        if look.word not in WORDS_OF_A_CRASH or self._stop_asked or look.asked_to_stop:
            return False
        return look.exit_code not in DECISIONS

    def _plan(self, now: float) -> str:
        if self.within_the_hour(now) >= self.limit:
            self.gave_up = True
            return "gave up"
        self.due = now + PAUSES[min(self._in_row, len(PAUSES) - 1)]
        self._in_row += 1
        return "waiting"


class Watchdog:
    """Looks at the run once a second in a daemon thread, less often while it is off. `say(text, severity)` is called
    from there.

    `text` is for the status line: '' while there is nothing to tell.
    """

    def __init__(self, control: Control, limit: int, say: Callable[[str, str], object]) -> None:
        self.rule = RestartRule(limit)
        self.text = ""
        self._control = control
        self._say = say
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS if self.rule.limit else OFF_SECONDS):
            self.look(time.monotonic())

    def look(self, now: float) -> None:
        """One look, and what follows from it."""
        look = self._see()
        news = self.rule.observe(look, now)
        limit = self.rule.limit
        if news == "waiting" and self.rule.due is not None:
            number = self.rule.within_the_hour(now) + 1
            wait = duration(self.rule.due - now)
            self._say(f"the engine has crashed; restart {number} of {limit} this hour in {wait}", "warning")
        elif news == "gave up":
            self._say(f"the engine has crashed {limit + 1} times within the hour; not started again", "error")
            log_notice(self._control.directory, f"not restarted: {limit} restarts within the hour did not help")
        elif news == "restart":
            self._restart(now)
        due = self.rule.due
        self.text = f"restart in {duration(max(0.0, due - now))}" if due is not None else ""

    def _see(self) -> Look:
        control = self._control
        status = engine_status(control.directory)
        now = condition(control.directory, status)
        beat = status.heartbeat
        child = control.child
        if now.alive and child is None:
            control.exit_code = None  # that was another one
        code = child.poll() if child is not None else control.exit_code
        starting = child is not None and code is None
        if code is None and not starting and beat is not None and now.word == "failed":
            code = beat.exit_code
        ended_here = beat is not None and beat.pid in (control.stopped_pid, control.killed_pid)
        return Look(
            alive=now.alive,
            word=now.word,
            engine=beat.engine if beat is not None else None,
            starting=starting,
            exit_code=code,
            asked_to_stop=ended_here or (beat is not None and beat.stop_asked),
        )

    def _restart(self, now: float) -> None:
        try:
            self._control.restart()
        except RunError as error:
            self._say(f"not restarted: {error}", "error")
            return
        text = f"restarted after a crash: {self.rule.within_the_hour(now)} of {self.rule.limit} this hour"
        self._say(f"the engine is {text}", "warning")
        log_notice(self._control.directory, text)
