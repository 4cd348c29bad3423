"""Engines as processes: start them, wait for what they do, ring their bells, and end those that are left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import Event, read_events
from andrea_engine.run.heartbeat import Heartbeat, read_heartbeat
from andrea_engine.run.launch import spawn_engine
from andrea_engine.run.loss_reader import LossReader

T = TypeVar("T")
PATIENCE = 60.0
PAUSE = 0.002


def wait_until(condition: Callable[[], T | None], what: str) -> T:
    """The first value of `condition` that is true."""
    deadline = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {PATIENCE:.0f} s in vain for: {what}"
        time.sleep(PAUSE)


class Engine:
    """One engine process. Waiting fails at once, with its output, when the process ends too early."""

    def __init__(self, directory: RunDirectory, process: subprocess.Popen[bytes], log: IO[bytes] | None) -> None:
        self.directory = directory
        self.process = process
        self.pid = process.pid
        self._log = log
        self._readers = (LossReader(directory.loss), LossReader(directory.journal))
        self._step = 0

    def wait_for(self, condition: Callable[[], T | None], what: str) -> T:
        """The first value of `condition` that is true."""

        def found() -> T | None:
            ended = self.process.poll() is not None  # asked first: what the process did last must still count
            value = condition()
            assert value or not ended, f"the engine ended ({self.process.returncode}) before: {what}\n{self.output}"
            return value

        return wait_until(found, what)

    @property
    def step(self) -> int:
        """The newest step in journal and record."""
        for reader in self._readers:
            for entry in reader.read():
                self._step = max(self._step, entry.step)
        return self._step

    def wait_step(self, step: int) -> int:
        """Wait until `step` or a later one is recorded; returns the newest."""
        return self.wait_for(lambda: self.step if self.step >= step else None, f"step {step}")

    def events(self, kind: str, **facts: object) -> list[Event]:
        """Events of this process of one kind whose facts include `facts`."""
        every = read_events(self.directory.events)
        sessions = [e.session for e in every if e.kind == "start" and e.integer("pid") == self.pid]
        return [e for e in every if e.session in sessions and e.kind == kind and facts.items() <= e.facts.items()]

    def wait_event(self, kind: str, **facts: object) -> Event:
        """Wait for an event; returns the newest that fits."""
        return self.wait_for(lambda: self.events(kind, **facts), f"event {kind} {facts}")[-1]

    def heartbeat(self) -> Heartbeat | None:
        """The heartbeat of this process, None while there is only that of an earlier one."""
        beat = read_heartbeat(self.directory.heartbeat)
        return beat if beat is not None and beat.pid == self.pid else None

    def wait_phase(self, *phases: str) -> Heartbeat:
        def found() -> Heartbeat | None:
            beat = self.heartbeat()
            return beat if beat is not None and beat.phase in phases else None

        return self.wait_for(found, f"phase {' or '.join(phases)}")

    def wait_busy(self, seconds: float) -> None:
        """Wait until the process has worked for so long: a clock that a busy machine does not change."""
        start = self._processor_seconds()
        self.wait_for(lambda: self._processor_seconds() - start >= seconds, f"{seconds:.2f} s of work")

    def _processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def goes_on(self) -> None:
        """It trains, and was not told to stop."""
        self.wait_step(self.step + 3)
        assert not self.events("stop"), "the engine was stopped"

    def saves_asked(self) -> int:
        """How many saves it was asked for."""
        return len(self.events("save_asked"))

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Exit code; negative for the signal that killed it."""
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """kill -9, and wait until the process is gone."""
        self.process.kill()
        self.process.wait(PATIENCE)

    @property
    def output(self) -> str:
        if self._log is None:
            return self.directory.log.read_text(errors="replace")
        self._log.seek(0)
        return self._log.read().decode(errors="replace")


class Engines(contextlib.ExitStack):
    """Starts engines; those that still run at the end are killed."""

    def start(self, directory: RunDirectory, *arguments: str) -> Engine:
        """`python -m andrea_engine train`, with its output kept outside of the run directory."""
        log = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  (closed at the exit)
        command = [sys.executable, "-m", "andrea_engine", "train", str(directory.path), *arguments]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )
        return self._kept(Engine(directory, process, log))

    def launch(self, directory: RunDirectory, *arguments: str) -> Engine:
        """As the console does it: signals blocked across the spawn, output to engine.log."""
        return self._kept(Engine(directory, spawn_engine(directory, arguments), None))

    def train(self, directory: RunDirectory, *arguments: str) -> Engine:
        """Start an engine and wait for its end."""
        engine = self.start(directory, *arguments)
        engine.wait()
        return engine

    def _kept(self, engine: Engine) -> Engine:
        self.callback(engine.kill)
        return engine
