"""Somebody who comes to the console, or touches it, sees it live."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from andrea_tui.app import AndreaApp
from andrea_tui.feed.tailer import Tailer
from tests.screens.conftest import Console
from tests.screens.situations import situation


async def test_keys_the_mouse_and_coming_to_the_window_tell_that_somebody_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[None] = []
    monkeypatch.setattr(Tailer, "attended", lambda tailer: told.append(None))
    with situation("training", tmp_path / "run") as directory:
        app = AndreaApp(directory, watch=True)
        async with app.run_test(size=(120, 40)) as pilot:
            await Console(app, pilot).settle()
            assert not told
            await pilot.press("l")
            assert told
            told.clear()
            await pilot.hover("#status")
            assert told
            told.clear()
            app.post_message(events.AppFocus())
            await pilot.pause()
            assert told
            told.clear()
            app.post_message(events.AppBlur())
            await pilot.pause()
            assert not told
