"""`?` and the palette: what they list depends on the screen that is open."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.binding import Binding
from textual.events import Key
from textual.screen import Screen

from andrea_engine.run.directory import RunDirectory
from andrea_tui.commands import COMMANDS, Situation
from andrea_tui.screens.help import key_name, own_keys
from andrea_tui.screens.log import LogScreen
from andrea_tui.screens.pivot.wizard import PivotWizard
from andrea_tui.screens.samples import SamplesScreen
from tests.screens.conftest import Acts, Console, console
from tests.screens.situations import situation
from tests.widgets.stores import HOSTILE


def words(running: Console) -> str:
    """All words on the screen, frames and line ends left out."""
    return " ".join(running.text.replace("│", " ").split())


def listed(running: Console) -> dict[str, str]:
    """What the palette offers on the screen that is open."""
    app = running.app
    return {command.title: command.help for command in app.get_system_commands(app.screen)}


OPENED_BY = [("e", SamplesScreen), ("v", LogScreen), ("p", PivotWizard)]


@pytest.mark.parametrize(("key", "screen"), OPENED_BY)
async def test_help_tells_the_keys_of_the_screen_that_is_open(
    key: str, screen: type[Screen[object]], tmp_path: Path, acts: Acts
) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory, (120, 60)) as running:
            await running.press(key)
            below = running.app.screen
            assert isinstance(below, screen)
            await running.press("question_mark")
            assert running.open == "HelpScreen"
            for keys, text in own_keys(below):
                assert f"{keys} {text}" in words(running)
            assert "Everywhere" in words(running)
            assert "Save a checkpoint after this step" not in words(running)
            running.assert_sound()
            for closes in ("escape", "question_mark", "f1", "q"):
                await running.press(closes)
                assert running.app.screen is below
                await running.press("f1")
    assert acts.none


async def test_help_before_there_is_a_run(tmp_path: Path, acts: Acts) -> None:
    async with console(RunDirectory(tmp_path / "new")) as running:
        assert running.open == "NewRunScreen"
        await running.press("question_mark")
        assert "Enter Create and start." in words(running)
        assert "Esc q d Leave." in words(running)
        await running.press("escape")
        assert running.open == "NewRunScreen"


@pytest.mark.parametrize("screen", [LogScreen, PivotWizard])
def test_no_key_of_a_screen_is_missing_in_its_help(screen: type[Screen[object]]) -> None:
    told = {word for keys, _ in own_keys(screen.__new__(screen)) for word in keys.split()}
    for binding in screen.BINDINGS:
        assert isinstance(binding, Binding)
        assert {key_name(key) for key in binding.key.split(",")} & told, f"{binding.key} is told nowhere"


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
async def test_help_can_be_read_to_its_end(size: tuple[int, int], tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run", HOSTILE) as directory:
        async with console(directory, size) as running:
            await running.press("question_mark")
            running.assert_sound()
            assert "Control" in running.text
            await running.press("end")
            await running.until(lambda: "Select text with shift + drag" in words(running), "the end is there")
            running.assert_sound()


@pytest.mark.parametrize("name", ["training", "stopped", "halted", "recorded"])
async def test_the_palette_says_what_stands_against_a_command(name: str, tmp_path: Path, acts: Acts) -> None:
    with situation(name, tmp_path / "run", "[@click=app.quit]x[/] [bold") as directory:
        async with console(directory) as running:
            if name == "halted":
                await running.press("escape")
            offered = listed(running)
            known = Situation(running.app.store, running.app.actions.read_only)
            for command in COMMANDS:
                if command.id == "palette":
                    continue
                why = offered[f"{command.help.rstrip('.')} ({command.key_name})"]
                assert why.startswith("not now: ") == bool(command.reason(known))
            assert {"Theme", "Screenshot", "Close the console"} <= set(offered)
            await running.press("colon")
            await running.search("")
            await running.until(lambda: "not now:" in running.text, "the reasons are listed")
            running.assert_sound()
    assert acts.none


@pytest.mark.parametrize(("key", "screen"), OPENED_BY)
async def test_elsewhere_the_palette_offers_help_and_the_way_back(
    key: str, screen: type[Screen[object]], tmp_path: Path, acts: Acts
) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.press(key)
            offered = listed(running)
            assert {"Help (?)", "Back (Esc)", "Theme", "Screenshot", "Close the console"} == set(offered)
            await running.press("ctrl+p")
            await running.search("help")
            await running.until(lambda: "Help (?)" in running.text, "it was found")
            await running.press("enter")
            await running.until(lambda: running.open == "HelpScreen", "help is open")
            await running.press("escape", "colon")
            await running.search("back")
            await running.until(lambda: "Back (Esc)" in running.text, "it was found")
            await running.press("enter")
            await running.until(lambda: running.open == "DashboardScreen", "back on the dashboard")
    assert acts.none


async def test_a_colon_in_a_search_is_a_letter(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.press("slash")
            for key, character in (("colon", ":"), ("question_mark", "?"), ("v", "v")):  # as a terminal sends them
                running.app.post_message(Key(key, character))
                await running.settle()
            screen = running.app.screen
            assert isinstance(screen, LogScreen)
            assert screen._wanted.query == ":?v"


def test_the_help_of_a_screen_without_words_of_its_own_are_its_bindings() -> None:
    class Plain(Screen[None]):
        BINDINGS = [Binding("escape,left_square_bracket", "x", "go back"), Binding("y", "y", "")]

    assert own_keys(Plain()) == [("Esc [", "Go back.")]
