"""Signals to everybody at once, helpers that die, and clocks and file times that lie."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from andrea_engine.run.checkpoint import choose_checkpoint, list_checkpoints
from andrea_engine.run.directory import RunDirectory
from tests.run.helpers import put_checkpoint
from tests.support import records
from tests.support.engines import Engine, Engines, wait_until
from tests.support.inprocess import andrea_engine
from tests.support.tiny import RARELY, make_run


def session(engine: Engine) -> list[int]:
    """Process numbers of the engine's session that still run, its own excepted."""
    found = subprocess.run(
        ["ps", "-o", "pid=,stat=", "-s", str(engine.pid)], capture_output=True, text=True, check=False
    )
    lines = [line.split() for line in found.stdout.splitlines()]
    return [int(pid) for pid, state in lines if int(pid) != engine.pid and not state.startswith("Z")]


def one_last_checkpoint(engine: Engine) -> None:
    assert engine.wait() == 0, engine.output
    (stop,) = engine.events("stop")
    assert records.checkpoints(engine.directory) == [stop.step]
    assert records.steps(engine.directory) == list(range(1, (stop.step or 0) + 1))
    wait_until(lambda: not session(engine), "the end of the helpers")
    assert andrea_engine("train", engine.directory.path, "--steps", (stop.step or 0) + 1).code == 0


def test_a_stop_for_the_whole_group(engines: Engines, tmp_path: Path) -> None:
    """As systemd does by default, and `kill -- -PGID`: the helpers get it too, some of them first."""
    engine = engines.start(make_run(tmp_path / "run", RARELY))
    engine.wait_step(3)
    os.killpg(engine.pid, signal.SIGTERM)
    one_last_checkpoint(engine)


def test_a_stop_for_the_group_and_another_one_for_the_engine(engines: Engines, tmp_path: Path) -> None:
    engine = engines.start(make_run(tmp_path / "run", RARELY))
    engine.wait_step(3)
    os.killpg(engine.pid, signal.SIGTERM)
    engine.wait_for(lambda: engine.events("save_asked") or engine.events("stop"), "the first request to be seen")
    if engine.process.poll() is None:
        engine.send(signal.SIGTERM)
    one_last_checkpoint(engine)


@pytest.mark.skipif(shutil.which("ps") is None, reason="the helpers are found with ps")
def test_helpers_that_are_killed_while_a_stop_is_pending(engines: Engines, tmp_path: Path) -> None:
    engine = engines.start(make_run(tmp_path / "run", RARELY))
    engine.wait_step(3)
    helpers = engine.wait_for(lambda: session(engine), "a helper")
    engine.send(signal.SIGTERM)
    for pid in helpers:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # it ended with the engine meanwhile
    one_last_checkpoint(engine)


def test_the_newest_is_decided_by_step_and_never_by_the_time_of_a_file(tmp_path: Path) -> None:
    for step in (100, 200, 300):
        put_checkpoint(tmp_path, step)
    os.utime(tmp_path / "step_000100.bin", (4e9, 4e9))  # in the year 2096
    os.utime(tmp_path / "step_000300.bin", (0, 0))
    assert [file.step for file in list_checkpoints(tmp_path)] == [300, 200, 100]
    chosen = choose_checkpoint(tmp_path, 5, {}, lambda path: None)
    assert chosen is not None
    assert chosen.file.step == 300


def test_training_goes_on_from_files_of_the_future(run_copy: RunDirectory) -> None:
    for path in run_copy.path.rglob("*"):
        os.utime(path, (4e9, 4e9), follow_symlinks=False)
    assert andrea_engine("train", run_copy.path, "--steps", 45).code == 0
    assert records.steps(run_copy) == list(range(1, 46))
    assert andrea_engine("check", run_copy.path, "--deep").code == 0


def test_a_name_of_many_digits_does_not_confuse_the_order(tmp_path: Path) -> None:
    for step in (999_900, 1_000_000):
        put_checkpoint(tmp_path, step)
    assert [file.path.name for file in list_checkpoints(tmp_path)] == ["step_1000000.bin", "step_999900.bin"]
