"""A run that was stopped or killed and resumed equals one that never was: bytes, loss record and samples."""

from __future__ import annotations

import random
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from andrea_engine.run.directory import RunDirectory
from tests.conftest import TrainedRun
from tests.support import records
from tests.support.engines import Engines
from tests.support.inprocess import Bell, andrea_engine
from tests.support.tiny import configure, make_run

LONG = 300


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """300 steps in one go."""
    directory = make_run(tmp_path_factory.mktemp("unbroken") / "run")
    assert andrea_engine("train", directory.path, "--steps", LONG).code == 0
    return directory


def test_stopped_and_resumed_as_another_process(trained: TrainedRun, engines: Engines, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    assert engines.train(directory, "--steps", "13").process.returncode == 0
    assert records.checkpoints(directory) == [10, 13]
    resumed = engines.train(directory, "--steps", str(trained.steps))
    assert resumed.process.returncode == 0
    assert "resuming from step_000013.bin" in resumed.output
    records.assert_same_run(directory, trained.directory, trained.steps)
    assert {entry.session for entry in records.entries(directory)} == {1, 2}


@pytest.mark.parametrize("seed", range(20))
def test_stopped_at_a_random_step(trained: TrainedRun, tmp_path: Path, seed: int) -> None:
    stop = random.Random(seed).randrange(1, trained.steps)
    directory = make_run(tmp_path / "run")
    assert andrea_engine("train", directory.path, "--steps", stop).code == 0
    assert andrea_engine("train", directory.path, "--steps", trained.steps).code == 0
    records.assert_same_run(directory, trained.directory, trained.steps)


def test_stopped_again_and_again(unbroken: RunDirectory, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    stops = sorted(random.Random(5).sample(range(1, LONG), 15))
    for stop in [*stops, LONG]:
        before = _committed(directory)
        assert andrea_engine("train", directory.path, "--steps", stop).code == 0
        assert _committed(directory).startswith(before), "no byte of the record ever changes"
    records.assert_same_run(directory, unbroken, LONG)


def test_the_sources_were_passed_over_several_times(unbroken: RunDirectory) -> None:
    """What the tests of this module rely on: their stops and kills lie on both sides of pass boundaries."""
    state = records.strict_json(unbroken.state)
    assert isinstance(state, dict)
    assert all(arm["epochs"] > 3 for arm in state["arms"].values())


@pytest.mark.timeout(600)  # five starts, on a machine that may be busy
def test_killed_and_stopped_at_random_moments(unbroken: RunDirectory, engines: Engines, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    for moment, number in ((37, SIGKILL), (90, SIGTERM), (118, SIGKILL), (231, SIGKILL)):
        before = _committed(directory)
        engine = engines.start(directory, "--steps", str(LONG))
        engine.wait_step(moment)  # by the time it is noticed and the signal arrives, some steps further
        engine.send(number)
        assert engine.wait() == (0 if number == SIGTERM else -SIGKILL)
        assert _committed(directory).startswith(before), "no byte of the record ever changes"
    before = _committed(directory)
    assert engines.train(directory, "--steps", str(LONG)).process.returncode == 0
    assert _committed(directory).startswith(before)
    assert records.steps(directory) == list(range(1, LONG + 1))
    records.assert_same_run(directory, unbroken, LONG)


def test_killed_before_the_first_checkpoint(trained: TrainedRun, engines: Engines, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", {"checkpoint": {"every": 1_000_000}, "sample": {"every": 1_000_000}})
    engine = engines.start(directory)
    engine.wait_step(3)
    engine.kill()
    assert records.checkpoints(directory) == []
    configure(directory, {})
    assert andrea_engine("train", directory.path, "--steps", trained.steps).code == 0
    assert "are trained again" in records.notices(directory)
    records.assert_same_run(directory, trained.directory, trained.steps)


def test_a_commit_that_a_kill_cut_short_is_finished(trained: TrainedRun, run_copy: RunDirectory) -> None:
    """The checkpoint is durable, its entries still in the journal: the next start moves them into the record."""
    lines = run_copy.loss.read_bytes().splitlines(keepends=True)
    journal = [line.rstrip(b",\n") + b"\n" for line in lines[31:41]]
    run_copy.loss.write_bytes(b"".join(lines[:31]).rstrip(b",\n") + b"\n]\n")
    run_copy.journal.write_bytes(b"".join(journal))
    assert records.steps(run_copy) == list(range(1, 31))
    assert andrea_engine("train", run_copy.path, "--steps", trained.steps).code == 0
    assert "finished the commit of steps 31 to 40" in records.notices(run_copy)
    assert run_copy.loss.read_bytes() == trained.directory.loss.read_bytes()


def test_a_torn_journal_line_is_trained_again(trained: TrainedRun, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    assert andrea_engine("train", directory.path, "--steps", 20).code == 0
    directory.journal.write_bytes(b'{"step":21,"loss":4.0}\n{"step":22,"lo')
    assert andrea_engine("train", directory.path, "--steps", trained.steps).code == 0
    records.assert_same_run(directory, trained.directory, trained.steps)


def test_half_written_files_of_a_dead_writer_are_removed(trained: TrainedRun, run_copy: RunDirectory) -> None:
    orphan = run_copy.path / ".step_000050.bin.999999999.1.tmp"
    orphan.write_bytes(b"x" * 1000)
    assert andrea_engine("train", run_copy.path, "--steps", trained.steps).code == 0
    assert not orphan.exists()
    assert "1,000 bytes freed" in records.notices(run_copy)


@pytest.mark.parametrize("phase", ["preparing", "resumed"])
def test_a_stop_before_the_first_step_leaves_all_as_it_was(run_copy: RunDirectory, phase: str) -> None:
    before = records.checkpoint(run_copy, 40).stat()
    fresh = len(records.events(run_copy, "resumed"))
    bell = Bell(lambda: phase == "preparing" or len(records.events(run_copy, "resumed")) > fresh)
    assert andrea_engine("train", run_copy.path, bell=bell).code == 0
    assert records.checkpoints(run_copy) == [10, 20, 30, 40]
    after = records.checkpoint(run_copy, 40).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert records.steps(run_copy) == list(range(1, 41))


def test_a_changed_number_of_threads_is_said(run_copy: RunDirectory) -> None:
    configure(run_copy, {"device": {"threads": 2}})
    assert andrea_engine("train", run_copy.path, "--steps", 41).code == 0
    assert "threads 1 -> 2: the run goes on, but not bit for bit" in records.notices(run_copy)


def _committed(directory: RunDirectory) -> bytes:
    """The loss record without its closing bracket: the bytes that nothing may change."""
    if not directory.loss.exists():
        return b""
    return directory.loss.read_bytes().removesuffix(b"\n]\n")
