"""What stands on the screen before anything of the run was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from andrea_tui.app import AndreaApp
from andrea_tui.feed.tailer import Tailer
from andrea_tui.plotting.raster import Kind
from tests.screens.conftest import Console
from tests.screens.situations import situation


@pytest.mark.parametrize("kind", ["braille", "ascii"])
@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 20), (40, 12), (24, 6), (9, 3)])
async def test_it_names_the_run_and_claims_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], kind: Kind
) -> None:
    monkeypatch.setattr(Tailer, "start", lambda tailer: None)
    with situation("crashed", tmp_path / "run") as directory:
        app = AndreaApp(directory, watch=True, plot_kind=kind)
        async with app.run_test(size=size) as pilot:
            running = Console(app, pilot)
            await running.settle()
            assert app.screen_stack == [running.dashboard], "nothing below that would be painted first"
            words = ["ANDREA", "run", "reading"]
            assert running.lines[0].split() == (words if size[0] > 9 else words[-1:])
            assert not any(char.isalpha() for line in running.lines[1:] for char in line)
            running.assert_sound()
            assert kind == "braille" or running.text.isascii()
