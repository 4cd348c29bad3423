"""A disk that fills up: a visible alarm, no false `saved`, training goes on, and all is well when there is room."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from signal import SIGTERM

import pytest

from andrea_engine.run.checkpoint import FREE_SPACE_MARGIN, file_digest
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import known_digests, read_events
from andrea_engine.train.checkpointing import content_problem
from tests.support import records
from tests.support.engines import Engine, Engines
from tests.support.inprocess import andrea_engine
from tests.support.tiny import CHECKPOINT_BYTES, make_run

SIZE = FREE_SPACE_MARGIN + 20 * CHECKPOINT_BYTES
TABLES = {
    "checkpoint": {"every": 20, "min_seconds": 0.1, "keep": "rule", "keep_last": 2, "keep_every": 0},
    "sample": {"every": 1_000_000},
}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def test_a_full_disk_from_the_first_alarm_to_the_last_save(engines: Engines, small_disk: Path) -> None:
    directory = make_run(small_disk / "run", TABLES)
    filler = small_disk / "filler"
    engine = engines.start(directory, "--steps", "1000000")
    engine.wait_event("save_durable")

    _fill(filler, leaving=FREE_SPACE_MARGIN // 2)
    failed = engine.wait_event("save_failed")
    _assert_alarm(engine, failed.text("error"))
    held = _assert_intact(directory)
    engine.wait_step(engine.step + 50)
    assert records.checkpoints(directory) == held, "nothing was removed for a file that could not be written"

    filler.unlink()
    known = len(engine.events("save_durable"))
    engine.wait_for(lambda: len(engine.events("save_durable")) > known, "a save without a restart")
    engine.wait_for(lambda: not (engine.heartbeat() or engine).problem, "the end of the alarm")

    _fill(filler, leaving=0)
    engine.wait_busy(0.5)  # hundreds of steps that nothing can be written of
    filler.unlink()
    known = len(engine.events("save_durable"))
    engine.wait_for(lambda: len(engine.events("save_durable")) > known, "a save after the disk was full to the brim")
    covered = records.steps(directory)
    assert covered == list(range(1, len(covered) + 1)), "what waited in memory is there, in order"

    _fill(filler, leaving=FREE_SPACE_MARGIN // 2)
    engine.wait_step(engine.step + 20)
    engine.send(SIGTERM)
    assert engine.wait() == 3
    assert "could not save step" in engine.output
    assert "disk full" in engine.output
    (stop,) = engine.events("stop")
    assert stop.integer("exit_code") == 3
    newest = _assert_intact(directory)[-1]
    assert stop.step is not None
    assert newest < stop.step

    filler.unlink()
    assert andrea_engine("train", directory.path, "--steps", newest + 20).code == 0
    assert records.steps(directory) == list(range(1, newest + 21))
    assert andrea_engine("check", directory.path, "--deep").code == 0


def _assert_alarm(engine: Engine, error: str) -> None:
    """What is needed, what is there, where: in the event and in the heartbeat."""
    assert error.startswith("disk full: step_")
    assert f"needs {CHECKPOINT_BYTES:,} bytes, " in error
    assert f"are free in {engine.directory.path}" in error
    engine.wait_for(
        lambda: (beat := engine.heartbeat()) is not None and beat.problem.startswith("disk full"), "the alarm"
    )


def _assert_intact(directory: RunDirectory) -> list[int]:
    """Both kept checkpoints are what they were when they were called durable; returns their steps."""
    digests = known_digests(read_events(directory.events))
    held = records.checkpoints(directory)
    for step in held:
        path = records.checkpoint(directory, step)
        assert content_problem(path) is None
        assert file_digest(path) == digests[step]
    assert held
    return held


def _fill(path: Path, leaving: int) -> None:
    """Fill the file system until `leaving` bytes are free."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            status = os.statvfs(path)
            free = status.f_bavail * status.f_frsize - leaving
            if free <= 0 and leaving:
                return
            file.write(bytes(max(4096, min(free, 1 << 20))))
