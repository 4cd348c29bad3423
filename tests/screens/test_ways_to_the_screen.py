"""Each way to the screen by itself. What our own code shows is shown as marks; the filter behind it only blanks out."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Static

from andrea_engine.run.heartbeat import write_heartbeat
from andrea_tui.cli import farewell
from andrea_tui.commands import COMMANDS
from andrea_tui.feed.runs import RunRow, RunsListing
from andrea_tui.feed.runs_text import runs_text
from andrea_tui.leaving import ExitState
from andrea_tui.screens.dialog import Choice, Dialog
from tests.screens.conftest import Acts, console
from tests.screens.situations import beat, situation
from tests.widgets.test_rows import harmless

EVIL = "\x1b]0;x\x07\x9b2J\u202e\x7f"
SHOWN = "␛]0;x␇<U+009B>2J<U+202E>␡"


async def test_a_notification(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            running.app.notify(f"{EVIL} [@click=app.quit]x[/]")
            await running.until(lambda: running.app._notifications, "it was heard")
            (notification,) = running.app._notifications
            assert (notification.message, notification.markup) == (f"{SHOWN} [@click=app.quit]x[/]", False)


async def test_what_a_ready_made_widget_shows(tmp_path: Path, acts: Acts) -> None:
    """One that nobody cleans up for."""
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            running.app.push_screen(Dialog("title", ["line"], []))
            await running.settle()
            running.app.screen.query_one("#dialog-text", Static).update(f"before {EVIL} after", layout=False)
            await running.until(lambda: "before" in running.text and "after" in running.text, "it is shown")
            running.assert_sound()


async def test_a_dialog(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            running.app.push_screen(Dialog("title", [f"line {EVIL}"], [Choice("x", "x", f"choice {EVIL}", "x")]))
            await running.until(lambda: "line " in running.text and "choice " in running.text, "it is shown")
            assert f"line {SHOWN}" in running.text
            assert f"choice {SHOWN}" in running.text
            running.assert_sound()


async def test_the_palette(tmp_path: Path, acts: Acts, monkeypatch: pytest.MonkeyPatch) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            monkeypatch.setattr(type(COMMANDS[0]), "reason", lambda command, situation: f"{EVIL} [bold]x[/]")
            found = list(running.app.get_system_commands(running.dashboard))
            assert {command.help for command in found if command.help.startswith("not now")} == {
                f"not now: {SHOWN} \\[bold]x\\[/]"
            }


def test_the_list_of_runs(tmp_path: Path) -> None:
    row = RunRow(tmp_path, EVIL, EVIL, "", False, 1, None, None, None, None, None, None, 0.0, None, ())
    for listing in (RunsListing((row,)), RunsListing(problem=EVIL)):
        text = runs_text(listing)
        assert SHOWN in text
        assert [line for line in text.split("\n") if not harmless(line)] == []
    assert runs_text(RunsListing((row,))).count(SHOWN) == 2


def test_the_last_line(tmp_path: Path) -> None:
    with situation("failed", tmp_path / "run") as directory:
        write_heartbeat(directory.heartbeat, beat("failed", pid=1, note=f"{EVIL}\nsecond line"))
        line = farewell(directory, ExitState("left", 0, None))
    assert SHOWN in line
    assert harmless(line)


async def test_of_plain_messages_only_the_newest_lies_over_the_screen(tmp_path: Path) -> None:
    with situation("finished", tmp_path / "run") as directory:
        async with console(directory) as running:
            app = running.app
            app.notify("the disk is full", severity="error")
            for number in range(4):
                app.notify(f"smoothing {number}")
                await running.settle()
            await running.until(lambda: len(running.notices) == 2, "both are there")
            assert running.notices == ["the disk is full", "smoothing 3"]
