"""Two processes train one run: with real signals and a real kill, and against one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ExitCode
from andrea_engine.run.heartbeat import read_heartbeat
from andrea_engine.run.loss_entry import LossEntry
from andrea_engine.train import engine as train_engine
from andrea_engine.train.ranks import CHECK_EVERY
from tests.support import records
from tests.support.engines import Engines, wait_until
from tests.support.gates import COLLAPSED
from tests.support.inprocess import andrea_engine
from tests.support.ranks import TORCHRUN, pair
from tests.support.tiny import EVERY, RARELY, make_run

TWO = {"device": {"nproc": 2}}
CALM = {"schedule": {"peak_lr": 3e-4}}  # a young model at a high rate makes a thousandfold of each rounding
ROUNDING = 1e-4  # nats: two ways of adding the same numbers up, a few steps later


def by_two(directory: RunDirectory, steps: int) -> None:
    with pair(directory, "--steps", steps) as two:
        assert two.launcher.wait(60) == ExitCode.OK, two.output
        assert two.ended() == ExitCode.OK


def by_one(directory: RunDirectory, steps: int) -> None:
    assert andrea_engine("train", directory.path, "--steps", steps).code == 0


def test_one_and_two_processes_take_over_from_each_other(tmp_path: Path) -> None:
    """From equal weights on each step is the same up to rounding. Two runs of two processes have the same bits."""
    names = ("two", "two-one", "one", "one-two")
    two, changed, one, grown = (make_run(tmp_path / name, CALM) for name in names)
    by_two(two, 2 * EVERY)
    by_two(changed, EVERY)
    assert bits(changed, EVERY) == bits(two, EVERY), "a repeated run of two processes"
    by_one(changed, 2 * EVERY)
    by_one(one, 2 * EVERY)
    by_one(grown, EVERY)
    by_two(grown, 2 * EVERY)
    for mixed, unbroken, notice in ((changed, two, "world_size 2 -> 1"), (grown, one, "world_size 1 -> 2")):
        assert notice in records.notices(mixed)
        ours, theirs = records.entries(mixed), records.entries(unbroken)
        assert [entry.step for entry in ours] == list(range(1, 2 * EVERY + 1))
        assert [(e.source, e.lr) for e in ours] == [(e.source, e.lr) for e in theirs], "the bandit chose as before"
        assert [e.loss for e in ours] == pytest.approx([e.loss for e in theirs], abs=ROUNDING)
        assert andrea_engine("check", mixed.path, "--deep").code == 0


def bits(directory: RunDirectory, step: int) -> tuple[bytes, list[tuple[object, ...]]]:
    """Weights and moments at a step, and what the record says up to it."""

    def exact(entry: LossEntry) -> tuple[object, ...]:
        return entry.step, entry.loss, entry.ema, entry.grad_norm, entry.source

    (checkpoint,) = directory.path.glob(f"step_*{step}.bin")
    return checkpoint.read_bytes(), [exact(entry) for entry in records.entries(directory)[:step]]


def test_a_save_may_be_asked_of_any_process_and_a_stop_of_all(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", {**RARELY, **TWO})
    with pair(directory) as two:
        two.training(CHECK_EVERY + 1)  # the weights of both were compared
        for count, target in enumerate(("leader", "follower", "agent", "launcher"), start=1):
            two.send(signal.SIGUSR1, target)
            wait_until(lambda count=count: two.saves() >= count or None, f"the save that the {target} was asked for")
        beat = wait_until(lambda: two.training(1) if len(two.training(1).ranks) == 2 else None, "both ranks told")
        assert [(rank.rank, rank.pid) for rank in beat.ranks] == [(0, two.leader.pid), (1, two.follower.pid)]
        assert all(rank.step_seconds and rank.tokens_per_second for rank in beat.ranks)
        two.send(signal.SIGTERM, "everyone")
        assert two.ended() == ExitCode.OK
    entries = records.entries(directory)
    assert [entry.step for entry in entries] == list(range(1, max(records.checkpoints(directory)) + 1))


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM], ids=lambda number: number.name)
def test_plain_torchrun_may_be_signalled_too(number: signal.Signals, tmp_path: Path) -> None:
    """It ends by either; its processes save first, and none is left."""
    directory = make_run(tmp_path / "run", RARELY)
    with pair(directory, command=TORCHRUN) as two:
        two.training(3)
        two.send(number, "agent")
        two.ended()
    beat = read_heartbeat(directory.heartbeat)
    assert beat is not None
    assert (beat.phase, beat.exit_code) == ("stopped", ExitCode.OK)
    assert records.checkpoints(directory) == [beat.step]


def test_a_rank_that_is_killed_ends_the_run_in_one_sentence(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    with pair(directory) as two:
        two.training(2 * EVERY)
        two.follower.kill()
        assert two.ended() == ExitCode.FAILED
        assert f"rank 1 (process {two.follower.pid}) was ended by SIGKILL (out of memory?)" in two.output
        assert "Traceback" not in two.output
    beat = read_heartbeat(directory.heartbeat)
    assert beat is not None
    assert (beat.phase, beat.exit_code) == ("failed", ExitCode.FAILED)
    assert f"rank 1 (process {two.follower.pid}) has ended; start the run again" in beat.note
    newest = max(records.checkpoints(directory))
    by_one(directory, newest + 1)
    assert [entry.step for entry in records.entries(directory)] == list(range(1, newest + 2))


def test_the_gate_halts_a_run_of_two(tmp_path: Path) -> None:
    """And what stands in run.toml is as good as `--nproc`."""
    directory = make_run(tmp_path / "run", {**COLLAPSED, **TWO, "gate": {**COLLAPSED["gate"], "consecutive": 2}})
    command = [sys.executable, "-m", "andrea_engine", "train", str(directory.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == ExitCode.HALTED, done.stdout + done.stderr
    assert [event.step for event in records.events(directory, "halt")] == [2 * EVERY]
    assert len(records.entries(directory)) == 2 * EVERY


@pytest.mark.parametrize("processes", [0, 3, -2])
def test_processes_that_cannot_share_the_batch_are_refused(processes: int, tmp_path: Path) -> None:
    refused = andrea_engine("train", make_run(tmp_path / "run").path, "--nproc", processes)
    assert refused.code == ExitCode.USAGE
    assert f"--nproc must divide the batch of 4 sequences, got {processes}" in refused.err


def test_torchrun_is_not_started_by_torchrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    refused = andrea_engine("train", make_run(tmp_path / "run").path, "--nproc", 2)
    assert refused.code == ExitCode.USAGE
    assert "--nproc starts torchrun itself" in refused.err


def test_torchrun_decides_how_many_processes_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it starts one, and run.toml asks for two."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(train_engine, "signal_at_parents_end", lambda number: None)  # this process is the tests'
    directory = make_run(tmp_path / "run", TWO)
    by_one(directory, 3)
    assert [entry.step for entry in records.entries(directory)] == [1, 2, 3]
    assert records.events(directory, "start")[0].integer("pid") == os.getpid()


def test_an_engine_that_holds_the_run_is_left_alone(engines: Engines, tmp_path: Path) -> None:
    """Found before torchrun is started, or, where it starts at the same moment, by the leader."""
    directory = make_run(tmp_path / "run", RARELY)
    engine = engines.start(directory)
    engine.wait_step(3)
    refused = andrea_engine("train", directory.path, "--nproc", 2)
    assert (refused.code, refused.err.count("\n")) == (ExitCode.LOCKED, 1)
    unchecked = launch_unchecked(directory)
    assert unchecked.returncode == ExitCode.LOCKED
    assert [line.partition(":")[0] for line in unchecked.stderr.splitlines()] == ["andrea-engine"], "one sentence"
    engine.goes_on()
    assert engine.saves_asked() == 0


def launch_unchecked(directory: RunDirectory) -> subprocess.CompletedProcess[str]:
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
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
