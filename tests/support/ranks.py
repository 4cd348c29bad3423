"""A run on two processes as real processes: the launcher, its torchrun, the leader and its follower."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import read_events
from andrea_engine.run.heartbeat import Heartbeat, read_heartbeat
from tests.support.engines import wait_until

LAUNCHER = ("-m", "andrea_engine", "train")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "andrea_engine", "train")
ENDED_SECONDS = 30.0


class Pair:
    """Where plain torchrun is the `command`, there is no launcher, and `launcher` is torchrun itself."""

    def __init__(self, directory: RunDirectory, arguments: Sequence[object], command: Sequence[str]) -> None:
        self.directory = directory
        self._output = directory.path.with_name(directory.path.name + ".output")
        with self._output.open("ab") as output:
            self.launcher = subprocess.Popen(
                [sys.executable, *command, str(directory.path), *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self.leader = self.follower = self.agent = psutil.Process(self.launcher.pid)

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def training(self, step: int) -> Heartbeat:
        """Until it has made so many steps; from then on the processes are known."""

        def found() -> Heartbeat | None:
            ended = self.launcher.poll()
            assert ended is None, f"it ended with {ended}\n{self.output[-2000:]}"
            beat = read_heartbeat(self.directory.heartbeat)
            ours = beat is not None and beat.session == self._session and beat.phase == "training"
            return beat if beat is not None and ours and beat.step >= step else None

        beat = wait_until(found, f"step {step}; {self.output[-2000:]}")
        self.agent = psutil.Process(beat.agent)
        self.leader = psutil.Process(beat.pid)
        (self.follower,) = [worker for worker in self.agent.children() if worker.pid != beat.pid and _trains(worker)]
        return beat

    @property
    def _session(self) -> int:
        return max((event.session for event in read_events(self.directory.events)), default=0)

    def send(self, number: signal.Signals, target: str) -> None:
        """`target`: leader, follower, agent (torchrun), launcher, group (torchrun's) or everyone."""
        if target == "group":
            os.killpg(os.getpgid(self.agent.pid), number)
        elif target == "everyone":
            for pid in self.members():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        else:
            os.kill(getattr(self, target).pid, number)

    def saves(self) -> int:
        """How many saves by an operator are durable."""
        events = read_events(self.directory.events)
        return sum(event.kind == "save_durable" and event.facts.get("reason") == "operator" for event in events)

    def ended(self) -> int:
        """The launcher's exit code, in time; nobody is left."""
        code = self.launcher.wait(ENDED_SECONDS)
        wait_until(lambda: not self.members() or None, f"the end of {self.members()}")
        return code

    def members(self) -> list[int]:
        """Living processes of this run: those of the session, and torchrun's workers, which have sessions of their own
        and name the run."""
        members = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                ours = os.getsid(process.pid) == self.launcher.pid or str(self.directory.path) in process.cmdline()
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    members.append(process.pid)
        return members

    def close(self) -> None:
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.launcher.wait()


def _trains(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return "andrea_engine" in process.cmdline()
    return False


@contextmanager
def pair(directory: RunDirectory, *arguments: object, command: Sequence[str] = LAUNCHER) -> Iterator[Pair]:
    """Two processes train; `command` begins with what is given to Python, and ends before the run."""
    nproc = ("--nproc", "2") if command is LAUNCHER else ()
    running = Pair(directory, [*nproc, *arguments], command)
    try:
        yield running
    finally:
        running.close()
