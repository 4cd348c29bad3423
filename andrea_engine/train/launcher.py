"""`andrea-engine train RUN --nproc N`: N processes under torchrun; this one passes signals on to their leader.

torchrun knows no "save and go on": SIGUSR1 would end it and leave its workers behind. So whoever signals this process
reaches the leader, whose exit code is also the one that counts: torchrun's own tells only whether all went well.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

import psutil

from andrea_engine.latch import SignalLatch
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ExitCode, RunError
from andrea_engine.run.heartbeat import Heartbeat, read_heartbeat
from andrea_engine.run.launch import request
from andrea_engine.run.process import is_alive

_PASSED_ON = {
    signal.SIGUSR1: "save",
    signal.SIGTERM: "stop",
    signal.SIGINT: "stop",
    signal.SIGHUP: "stop",
}
GRACE = 300  # seconds that torchrun gives its workers to save, once it was told to end
LOOK = 0.1  # seconds between two looks whether torchrun has ended


def launch(directory: RunDirectory, processes: int, arguments: Sequence[str], latch: SignalLatch) -> ExitCode:
    """Train with so many processes on this machine; the exit code of the run. `latch` has what was asked so far."""
    return _Launch(directory, processes, arguments).wait(latch)


class _Launch:
    """torchrun, and the leader once it has reported. Nobody but this leader is ever signalled: another engine may hold
    the run, and write the heartbeat that is there."""

    def __init__(self, directory: RunDirectory, processes: int, arguments: Sequence[str]) -> None:
        self._directory = directory
        self._asked: list[str] = []
        self._leader: Heartbeat | None = None
        for number in _PASSED_ON:
            signal.signal(number, self._note)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        command += [f"--shutdown-timeout={GRACE}", "-m", "andrea_engine", "train", str(directory.path), *arguments]
        self._agent = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            process_group=0,
            preexec_fn=_ignore_save,  # noqa: PLW1509  (this process has one thread)
            env={"OMP_NUM_THREADS": "1", **os.environ},  # torchrun would say so; each engine sets its own number
        )

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._asked.append(_PASSED_ON[signal.Signals(number)])

    def wait(self, latch: SignalLatch) -> ExitCode:
        """Until all have ended; the leader's exit code, torchrun's word only where it said nothing."""
        self._asked += ["save"] if latch.save_asked is not None else []
        self._asked += ["stop"] if latch.stop_asked is not None else []
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._agent.wait(LOOK)
                break
            self._look_for_leader()
            self._pass_on()
        self._end_leader()
        beat = read_heartbeat(self._directory.heartbeat)
        if beat is not None and beat.exit_code is not None and self._is_ours(beat):
            return ExitCode(beat.exit_code)
        return ExitCode.OK if code == 0 else ExitCode.FAILED

    def _look_for_leader(self) -> None:
        """It is the worker of our torchrun that reports."""
        beat = read_heartbeat(self._directory.heartbeat)
        if beat is None or self._is_ours(beat):
            return
        with contextlib.suppress(psutil.Error, ValueError, OverflowError):
            if psutil.Process(beat.pid).ppid() == self._agent.pid:
                self._leader = beat

    def _is_ours(self, beat: Heartbeat) -> bool:
        mine = self._leader
        return mine is not None and (beat.pid, beat.process_start) == (mine.pid, mine.process_start)

    def _pass_on(self) -> None:
        """The requests noted so far, to the leader; before there is one, a stop ends torchrun."""
        while self._asked and (self._leader is not None or "stop" in self._asked):
            what = self._asked.pop(0)
            if self._leader is None:
                self._agent.terminate()
                continue
            with contextlib.suppress(RunError):  # it has just ended
                request(self._directory, what, self._leader)

    def _end_leader(self) -> None:
        """torchrun may have been killed: then the run saves and ends, too."""
        deadline = time.monotonic() + GRACE
        if self._leader is None:
            return
        with contextlib.suppress(RunError):
            leader = request(self._directory, "stop", self._leader)
            while is_alive(leader) and time.monotonic() < deadline:
                time.sleep(LOOK)


def _ignore_save() -> None:
    """For torchrun, which SIGUSR1 would end, with its workers left behind; the workers have handlers of their own."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
