"""The heartbeat: a thread that replaces `engine.json` once a second, and at once when the phase changes."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from statistics import median

import msgspec

from andrea_engine.latch import SignalLatch
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog
from andrea_engine.run.heartbeat import Heartbeat, LastSave, Saving, Telemetry, write_heartbeat
from andrea_engine.run.process import boot_id, start_time
from andrea_engine.train.place import under_torchrun

RECENT_STEPS = 100


class Reporter:
    """Publishes what the training loop tells it. The step counter comes from the loop, never from this thread."""

    def __init__(self, directory: RunDirectory, events: EventLog, latch: SignalLatch) -> None:
        self._path = directory.heartbeat
        self._events = events
        self._latch = latch
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._seconds: deque[float] = deque(maxlen=RECENT_STEPS)
        self.read_saving: Callable[[], tuple[Saving | None, LastSave | None]] = lambda: (None, None)
        self.read_problem: Callable[[], str | None] = lambda: None
        self.read_telemetry: Callable[[], Telemetry | None] = lambda: None
        self.mfu_of: Callable[[float], float | None] = lambda tokens_per_second: None
        self.tokens_per_step = 0
        now = time.time()
        self._beat = Heartbeat(
            pid=os.getpid(),
            process_start=start_time(os.getpid()),
            boot_id=boot_id(),
            host=socket.gethostname(),
            session=events.session,
            phase="starting",
            phase_since=now,
            time=now,
            armed=True,
            agent=os.getppid() if under_torchrun() else None,
        )
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    @property
    def phase(self) -> str:
        return self._beat.phase

    def start(self) -> None:
        self._write()
        self._thread.start()

    def set(self, **fields: object) -> None:
        """Change fields; they are published with the next beat."""
        with self._lock:
            self._beat = msgspec.structs.replace(self._beat, **fields)

    def enter(self, phase: str, **fields: object) -> None:
        """Change the phase and publish it at once."""
        if phase == self._beat.phase and not fields:
            return
        self.set(phase=phase, phase_since=time.time(), **fields)
        self._write()

    def step_done(self, step: int, seconds: float | None) -> None:
        """A step has ended. Its duration counts for rate and ETA; saving and sampling are not in it.

        None for a step that compiled: its duration tells nothing of the next ones.
        """
        if seconds is not None:
            self._seconds.append(seconds)
        self.set(step=step, step_time=time.time())

    def finish(self, phase: str, exit_code: int, note: str = "") -> None:
        """Last beat of this process."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)
        self.enter(phase, exit_code=exit_code, note=note)

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            self._write()

    def _rates(self) -> dict[str, float | None]:
        recent = list(self._seconds)
        if not recent:
            return {}
        typical = median(recent)
        rate = self.tokens_per_step / typical if typical > 0 else None
        left = max(0, (self._beat.target_step or self._beat.total_steps) - self._beat.step)
        return {
            "step_seconds": typical,
            "tokens_per_second": rate,
            "mfu": None if rate is None else self.mfu_of(rate),
            "eta_seconds": typical * left,
        }

    def _write(self) -> None:
        saving, last_save = self.read_saving()
        with self._lock:
            self._beat = msgspec.structs.replace(
                self._beat,
                time=time.time(),
                saving=saving,
                last_save=last_save or self._beat.last_save,
                telemetry=self.read_telemetry(),
                problem=self.read_problem() or self._events.problem or "",
                save_asked=self._latch.save_asked is not None,
                stop_asked=self._latch.stop_asked is not None,
                **self._rates(),
            )
            beat = self._beat
            try:
                write_heartbeat(self._path, beat)
            except OSError as error:
                self._events.problem = f"the heartbeat cannot be written: {error.strerror}"
