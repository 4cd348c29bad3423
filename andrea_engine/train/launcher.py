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

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ExitCode, RunError
from andrea_engine.run.heartbeat import read_heartbeat
from andrea_engine.run.launch import request
from andrea_engine.run.process import is_alive

_PASSED_ON = {
    signal.SIGUSR1: "save",
    signal.SIGTERM: "stop",
    signal.SIGINT: "stop",
    signal.SIGHUP: "stop",
}
GRACE = 300  # seconds that torchrun gives its workers to save, once it was told to end
LOOK = 0.2  # seconds between two looks whether torchrun has ended


def launch(directory: RunDirectory, processes: int, arguments: Sequence[str]) -> ExitCode:
    """Train with so many processes on this machine; the exit code of the run."""
    began = time.time()
    asked: list[str] = []

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(_PASSED_ON[signal.Signals(number)])

    for number in _PASSED_ON:
        signal.signal(number, note)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += [f"--shutdown-timeout={GRACE}", "-m", "andrea_engine", "train", str(directory.path), *arguments]
    # One that reaches torchrun itself would end it and leave its workers behind: it does nothing instead.
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        process_group=0,
        preexec_fn=_ignore_save,  # noqa: PLW1509  (this process has one thread)
        env={"OMP_NUM_THREADS": "1", **os.environ},  # torchrun would say so; each engine sets its own number
    ) as agent:
        while True:
            try:
                agent.wait(LOOK)
                break
            except subprocess.TimeoutExpired:
                _pass_on(directory, agent, asked, began)
    _wait_for_leader(directory)
    return _outcome(directory, agent.returncode, began)


def _ignore_save() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def _wait_for_leader(directory: RunDirectory) -> None:
    """torchrun may have been killed: then the run saves and ends, too."""
    deadline = time.monotonic() + GRACE
    with contextlib.suppress(RunError):
        leader = request(directory, "stop")
        while is_alive(leader) and time.monotonic() < deadline:
            time.sleep(LOOK)


def _pass_on(directory: RunDirectory, agent: subprocess.Popen[bytes], asked: list[str], began: float) -> None:
    """The requests noted so far, to the leader; before there is one, a stop ends torchrun."""
    while asked:
        what = asked.pop(0)
        heartbeat = read_heartbeat(directory.heartbeat)
        try:
            if heartbeat is not None and heartbeat.time >= began:
                request(directory, what)
                continue
        except RunError:
            pass  # it has just ended
        if what == "stop":
            agent.terminate()


def _outcome(directory: RunDirectory, code: int, began: float) -> ExitCode:
    """What the leader said at its end; torchrun's word only where it said nothing."""
    heartbeat = read_heartbeat(directory.heartbeat)
    if heartbeat is not None and heartbeat.time >= began and heartbeat.exit_code is not None:
        return ExitCode(heartbeat.exit_code)
    return ExitCode.OK if code == 0 else ExitCode.FAILED
