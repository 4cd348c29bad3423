"""A run that the gate halted opens with what happened, and its choices work."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import OpenTerminal
from tests.e2e.terminal import engine
from tests.support import records
from tests.support.gates import COLLAPSED, FULL_MARKS, give_scores
from tests.support.inprocess import andrea_engine
from tests.support.tiny import make_run


def test_a_halted_run_shows_its_samples_and_is_rolled_back(tmp_path: Path, open_terminal: OpenTerminal) -> None:
    directory = make_run(tmp_path / "run", COLLAPSED)
    assert andrea_engine("train", directory.path, "--steps", 10).code == 0
    give_scores(directory, {10: FULL_MARKS})  # the last good sample
    assert andrea_engine("train", directory.path).code == 6
    assert records.sample_steps(directory) == [10, 20, 30, 40, 50, 60]

    terminal = open_terminal(directory.path)
    terminal.until_shown("HALTED", "halted by the coherence gate at step 60")
    terminal.until_shown("last good sample at step 10", "50 steps since", "checkpoint 10 is pinned")
    terminal.until_shown(*(f"● {step:>9}" for step in (20, 30, 40, 50, 60)))
    terminal.until_shown("last good  100.0 of 100", "first bad", "step 20")
    terminal.until_shown("l roll back", "f fork", "p pivot", "o override halt")

    terminal.press("l")
    terminal.until_shown("Roll back to step 10?")
    terminal.press("\r")
    terminal.until_shown("□ stopped", "rolled back to step 10")
    terminal.press("f")
    terminal.until_shown("Fork into which directory?", "run-from-10")
    terminal.press("\r")
    terminal.until_shown("created ")
    terminal.press("d")
    assert terminal.wait() == 0
    assert records.checkpoints(directory) == [10]
    for path in (directory.path, tmp_path / "run-from-10"):
        assert engine("check", path).returncode == 0
