"""What an open console costs, measured for a moment: an idle one writes nothing to its terminal."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import read_heartbeat
from andrea_engine.run.launch import engine_status
from benchmarks.console_idle import ConsoleCost, LiveRun, console_cost
from tests.screens.situations import situation


def test_without_an_engine_not_one_byte_goes_to_the_terminal(tmp_path: Path) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        cost = console_cost(directory.path, seconds=2.0, settle=3.0)
    assert cost.tty_bytes == 0
    assert cost.seconds >= 2.0
    assert cost.cpu_seconds >= 0.0


def test_a_console_that_does_not_stay_is_no_measurement(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="exit code 2"):
        console_cost(tmp_path / "file", seconds=0.1, settle=3.0)


def test_the_live_run_is_one(tmp_path: Path) -> None:
    with LiveRun(tmp_path / "run", rate=200.0, past=50) as path:
        directory = RunDirectory(path)
        end = time.monotonic() + 30
        while not (directory.journal.exists() and directory.journal.read_bytes().count(b"\n") >= 5):
            assert time.monotonic() < end, "no steps come"
        assert engine_status(directory).alive
        beat = read_heartbeat(directory.heartbeat)
        assert beat is not None
        assert beat.telemetry is not None
        assert [entry["step"] for entry in json.loads(directory.loss.read_text())] == list(range(1, 51))
        assert json.loads(directory.journal.read_text().splitlines()[0])["step"] == 51
    assert not engine_status(directory).alive


def test_cost_in_words() -> None:
    assert str(ConsoleCost(20.0, 0.1, 12_345)) == "20.0 s: 0.100 CPU s (0.50% of a core), 12,345 bytes to the terminal"
