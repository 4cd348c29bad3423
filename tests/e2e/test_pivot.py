"""A pivot from the keyboard: `p`, another floor, apply, and the receipt on the screen while training goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import OpenTerminal
from tests.e2e.terminal import engine
from tests.support import records
from tests.support.engines import Engines
from tests.support.tiny import make_run


@pytest.mark.parametrize("nproc", [1, 2])
def test_a_pivot_of_a_running_engine(nproc: int, tmp_path: Path, open_terminal: OpenTerminal) -> None:
    """On several processes nothing of it looks different."""
    often = {"checkpoint": {"every": 100}, "sample": {"every": 100}}
    directory = make_run(tmp_path / "run", {**often, "device": {"nproc": nproc}})
    with Engines() as engines:
        running = engines.launch(directory)
        running.wait_step(110)
        terminal = open_terminal(directory.path)
        terminal.until_shown("● training", "p pivot")
        terminal.press("p")
        terminal.until_shown("[1 now]", "harbour")
        terminal.press("\r")
        terminal.until_shown("[2 floors & caps]")
        terminal.press("0.7\r")
        terminal.until_shown("[3 preview]", "simulated")
        terminal.press("\r")
        terminal.until_shown("[4 review]", "floor of ", ": none -> 0.7", "archive/pivot-0001")
        terminal.press("w")
        terminal.until_shown("at the next checkpoint boundary instead")
        terminal.press("\r")
        terminal.until_shown("Receipt", "continuity  unchanged", "policy 1 from step")
        terminal.until_shown("the engine goes on")
        terminal.press("\x1b")  # and nothing at once behind it: together that would be another key
        terminal.until(lambda: "Receipt" not in terminal.text, "the receipt is put away")
        terminal.until_shown("● training")
        terminal.press("q\r")
        assert terminal.wait() == 0
    pivot = records.events(directory, "pivot")[0]
    assert pivot.step is not None
    entries = records.entries(directory)
    assert [entry.step for entry in entries] == list(range(1, entries[-1].step + 1))
    assert [e.step for e in entries if e.policy == 1] == list(range(pivot.step + 1, entries[-1].step + 1))
    assert engine("check", directory.path, "--deep").returncode == 0
