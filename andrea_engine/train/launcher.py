"""`andrea-engine train RUN --nproc N`: N processes under torchrun; this one passes signals on to their leader.

The leader's exit code is also the one that counts: torchrun's own tells only whether all went well.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Sequence
from types import FrameType

from andrea_engine.latch import SignalLatch
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ExitCode, RunError
from andrea_engine.run.heartbeat import Heartbeat, read_heartbeat
from andrea_engine.run.launch import request
from andrea_engine.run.module_command import module_command
from andrea_engine.run.process import boot_id, is_alive
from andrea_engine.train.agent import GRACE

_PASSED_ON = {
    signal.SIGUSR1: "save",
    signal.SIGTERM: "stop",
    signal.SIGINT: "stop",
    signal.SIGHUP: "stop",
}
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
        self._started = time.time()
        for number in _PASSED_ON:
            signal.signal(number, self._note)
        command = module_command("andrea_engine.train.agent", processes, directory.path, *arguments)
        # A group of its own: a signal to this one's, as Ctrl+C is, shall be noted here and told to the leader once.
        self._agent = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)

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
        self._look_for_leader()
        self._end_leader()
        beat = read_heartbeat(self._directory.heartbeat)
        if beat is not None and beat.exit_code is not None and self._is_ours(beat):
            return ExitCode(beat.exit_code)
        return ExitCode(code) if code in set(ExitCode) else ExitCode.FAILED

    def _look_for_leader(self) -> None:
        """It is the worker of our torchrun that reports."""
        beat = read_heartbeat(self._directory.heartbeat)
        if beat is not None and self._is_ours(beat):
            self._leader = beat

    def _is_ours(self, beat: Heartbeat) -> bool:
        """torchrun's number is in use as long as nobody has waited for it, and was another's before it was started."""
        return beat.agent == self._agent.pid and beat.boot_id == boot_id() and beat.time >= self._started

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
