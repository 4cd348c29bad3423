"""What stands on the screen before anything of the run was read."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from andrea_tui.app import AndreaApp
from andrea_tui.feed.tailer import DirectoryReader, Tailer
from andrea_tui.plotting.raster import Kind
from andrea_tui.screens import dashboard
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


async def test_a_record_that_is_read_to_its_end_is_drawn_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tailer, "start", lambda tailer: None)
    monkeypatch.setattr(dashboard, "FRAME_SECONDS", 3600.0)
    with situation("training", tmp_path / "run") as directory:
        app = AndreaApp(directory, watch=True)
        whole = DirectoryReader(directory).poll()
        assert whole.complete
        reading = replace(whole, batches=(), complete=False, read_share=0.5)
        async with app.run_test(size=(120, 40)) as pilot:
            running = Console(app, pilot)
            await running.settle()
            for update, shown in ((reading, 50), (replace(reading, read_share=0.7), 50), (whole, None)):
                app._deliver(app.store, update)
                await running.settle()
                assert ("reading the record" in running.text) == (shown is not None)
                assert shown is None or f"reading the record, {shown} %" in running.text
