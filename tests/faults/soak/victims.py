"""Engines to be killed: forked by a nursery, or started by the real command line."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import known_digests, read_events
from tests.faults.soak.shared import shared
from tests.run.helpers import ROOT

PATIENCE = 120.0
PAUSE = 0.001
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Victim:
    """A living engine. `reap` returns its exit code once it has ended, negative for a signal."""

    def __init__(self, pid: int, log: Path, reap: Callable[[], int]) -> None:
        self._log = log
        self._reap = reap
        self._code: int | None = None
        self._process: int | None = None
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self._process = os.pidfd_open(pid)

    def ended_within(self, seconds: float) -> bool:
        """Wait at most so long for its end."""
        return self._process is None or bool(select.select([self._process], [], [], max(0.0, seconds))[0])

    def send(self, number: signal.Signals) -> None:
        """A signal, unless it has ended."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, number)

    def kill(self) -> int:
        self.send(signal.SIGKILL)
        return self.wait()

    def wait(self) -> int:
        """Its exit code. One that does not end is killed, and fails the trial."""
        hung = not self.ended_within(PATIENCE)
        if hung:
            self.send(signal.SIGKILL)
        if self._code is None:
            self._code = self._reap()
            if self._process is not None:
                os.close(self._process)
                self._process = None
        assert not hung, f"the engine did not end within {PATIENCE:.0f} s\n{self.output}"
        return self._code

    def until(self, condition: Callable[[], object], seconds: float) -> bool:
        """Look until something is true, the engine ends, or the time is over; returns whether it became true."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or self.ended_within(PAUSE):
                return bool(condition())
        return True

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""


class Nursery:
    """Forks engines that need not load PyTorch again, one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.soak.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **_ENVIRONMENT},
        )

    def engine(
        self, directory: RunDirectory, log: Path, acknowledged: Path, *arguments: object, kill_at: int = 0
    ) -> Victim:
        """`andrea-engine train DIRECTORY ARGUMENTS`, which kills itself before its operation `kill_at` on a file."""
        order = {
            "arguments": ["train", str(directory.path), *map(str, arguments)],
            "log": str(log),
            "acknowledged": str(acknowledged),
            "kill_at": kill_at,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return Victim(self._answer(), log, self._answer)

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@shared
def nursery(stack: contextlib.ExitStack) -> Nursery:
    """That of this process."""
    made = Nursery()
    stack.callback(made.close)
    return made


def command_line(directory: RunDirectory, log: Path, *arguments: object) -> Victim:
    """The same by the real command line."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "andrea_engine", "train", str(directory.path), *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=ROOT,
            env={**os.environ, **_ENVIRONMENT},
            start_new_session=True,
        )
    return Victim(process.pid, log, process.wait)


_TOLD = re.compile(r"^(\d+) ([0-9a-f]{64})$", re.MULTILINE)  # a line that was cut off has told nothing


class Acknowledged:
    """What was called saved, kept outside of the run: step and digest of each, also of those removed since."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._saved: dict[int, str] = {}

    def hear(self, directory: RunDirectory) -> None:
        """Take what the event log says now."""
        self._saved |= known_digests(read_events(directory.events))

    @property
    def saved(self) -> dict[int, str]:
        if self.file.exists():
            for step, digest in _TOLD.findall(self.file.read_text()):
                self._saved[int(step)] = digest
        return self._saved


def temporaries(directory: RunDirectory) -> set[str]:
    """Files that are being written."""
    return {name for name in os.listdir(directory.path) if name.endswith(".tmp")}
