"""Two processes train one run: with real signals and a real kill, and against one process."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, ExitCode
from andrea_engine.run.events import read_events
from andrea_engine.run.heartbeat import read_heartbeat
from andrea_engine.train.ranks import CHECK_EVERY, Place
from tests.support import records
from tests.support.engines import Engines, wait_until
from tests.support.inprocess import andrea_engine
from tests.support.tiny import EVERY, RARELY, make_run


class Pair:
    """A launcher, its torchrun, and their two workers."""

    def __init__(self, directory: RunDirectory, *arguments: object) -> None:
        self.directory = directory
        command = [sys.executable, "-m", "andrea_engine", "train", str(directory.path), "--nproc", "2"]
        self.output = directory.path / "output"
        with self.output.open("ab") as output:
            self.launcher = subprocess.Popen([*command, *map(str, arguments)], stdout=output, stderr=output)
        self.leader = self.follower = self.agent = psutil.Process(self.launcher.pid)

    def training(self, step: int) -> None:
        """Until it has made so many steps; from then on the processes are known."""
        wait_until(lambda: self.step >= step or None, f"step {step}; {self.output.read_text()[-2000:]}")
        beat = read_heartbeat(self.directory.heartbeat)
        assert beat is not None
        (self.agent,) = psutil.Process(self.launcher.pid).children()
        self.leader = psutil.Process(beat.pid)
        (self.follower,) = [worker for worker in self.agent.children() if worker.pid != beat.pid]

    @property
    def step(self) -> int:
        if self.launcher.poll() is not None:
            raise AssertionError(f"it ended with {self.launcher.returncode}\n{self.output.read_text()[-2000:]}")
        beat = read_heartbeat(self.directory.heartbeat)
        return beat.step if beat is not None and beat.phase == "training" and beat.session == self._session else 0

    @property
    def _session(self) -> int:
        return max((event.session for event in read_events(self.directory.events)), default=0)

    def saves(self) -> int:
        return sum(event.kind == "save_asked" for event in read_events(self.directory.events))

    def ended(self) -> int:
        """The launcher's exit code; nobody is left."""
        code = self.launcher.wait(60)
        for process in (self.agent, self.leader, self.follower):
            wait_until(lambda process=process: not process.is_running() or None, f"the end of {process}")
        return code

    def close(self) -> None:
        for process in (self.agent, self.leader, self.follower):
            if process.is_running():
                process.kill()
        self.launcher.kill()
        self.launcher.wait()


@contextmanager
def pair(directory: RunDirectory, *arguments: object) -> Iterator[Pair]:
    running = Pair(directory, *arguments)
    try:
        yield running
    finally:
        running.close()


def test_a_run_of_two_is_a_run_of_one_up_to_rounding(tmp_path: Path) -> None:
    """Saved by a signal to the follower, stopped by one to the launcher, continued alone and again by two."""
    directory, alone = make_run(tmp_path / "two"), make_run(tmp_path / "one")
    with pair(directory) as two:
        two.training(EVERY)
        two.follower.send_signal(signal.SIGUSR1)
        wait_until(lambda: two.saves() or None, "the save that the follower was asked for")
        two.agent.send_signal(signal.SIGUSR1)  # does nothing, and above all does not end torchrun
        two.training(CHECK_EVERY + 1)  # the weights of both were compared
        two.launcher.send_signal(signal.SIGTERM)
        assert two.ended() == ExitCode.OK
    newest = max(records.checkpoints(directory))
    assert andrea_engine("train", directory.path, "--steps", newest + EVERY).code == 0
    assert "world_size 2 -> 1" in records.notices(directory)
    until = newest + 2 * EVERY
    with pair(directory, "--steps", until) as two:
        assert two.launcher.wait(60) == ExitCode.OK
    assert andrea_engine("train", alone.path, "--steps", until).code == 0
    ours, theirs = records.entries(directory), records.entries(alone)
    assert [entry.step for entry in ours] == list(range(1, until + 1))
    assert {entry.session for entry in ours} == {1, 2, 3}
    for one, other in zip(ours, theirs, strict=True):
        assert (one.source, one.lr) == (other.source, other.lr)
        assert math.isclose(one.loss or 0.0, other.loss or 0.0, abs_tol=2e-2)
    assert math.isclose(ours[EVERY].loss or 0.0, theirs[EVERY].loss or 0.0, abs_tol=1e-4), "rounding has not grown yet"


def test_a_follower_that_is_killed_ends_the_run_in_one_sentence(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    with pair(directory) as two:
        two.training(2 * EVERY)
        two.follower.kill()
        assert two.ended() == ExitCode.FAILED
    beat = read_heartbeat(directory.heartbeat)
    assert beat is not None
    assert (beat.phase, beat.exit_code) == ("failed", ExitCode.FAILED)
    assert f"rank 1 (process {two.follower.pid}) has ended; start the run again" in beat.note
    newest = max(records.checkpoints(directory))
    assert andrea_engine("train", directory.path, "--steps", newest + 1).code == 0
    assert [entry.step for entry in records.entries(directory)] == list(range(1, newest + 2))


@pytest.mark.parametrize("processes", [0, 3, -2])
def test_processes_that_cannot_share_the_batch_are_refused(processes: int, tmp_path: Path) -> None:
    refused = andrea_engine("train", make_run(tmp_path / "run").path, "--nproc", processes)
    assert refused.code == ExitCode.USAGE
    assert f"--nproc must divide the batch of 4 sequences, got {processes}" in refused.err


def test_a_place_is_what_torchrun_tells() -> None:
    assert Place.of({}) == Place(0, 1, 1)
    told = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
    assert Place.of(told) == Place(3, 8, 4)
    assert not Place.of(told).leads
    for wrong in ({"RANK": "2", "WORLD_SIZE": "2"}, {"RANK": "x", "WORLD_SIZE": "2"}, {"LOCAL_WORLD_SIZE": "3"}):
        with pytest.raises(ConfigError):
            Place.of(wrong)


def test_an_engine_that_holds_the_run_is_left_alone(engines: Engines, tmp_path: Path) -> None:
    """Found before torchrun is started, or, where it starts at the same moment, by the leader."""
    directory = make_run(tmp_path / "run", RARELY)
    engine = engines.start(directory)
    engine.wait_step(3)
    refused = andrea_engine("train", directory.path, "--nproc", 2)
    assert (refused.code, refused.err.count("\n")) == (ExitCode.LOCKED, 1)
    code = launch_unchecked(directory)
    assert code == ExitCode.FAILED
    engine.goes_on()
    assert engine.saves_asked() == 0


def launch_unchecked(directory: RunDirectory) -> int:
    """The launcher alone, without the look at the lock before it."""
    code = """
import sys
from pathlib import Path
from andrea_engine.latch import SignalLatch
from andrea_engine.run.directory import RunDirectory
from andrea_engine.train.launcher import launch
sys.exit(launch(RunDirectory(Path(sys.argv[1])), 2, [], SignalLatch()))
"""
    command = [sys.executable, "-c", code, str(directory.path)]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode
