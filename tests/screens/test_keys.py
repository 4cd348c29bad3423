"""Every key in every situation: nothing raises, and what is not possible touches nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from andrea_tui.commands import COMMANDS, Command, Situation
from tests.screens.conftest import Acts, Console, console
from tests.screens.situations import ALIVE, SITUATIONS, another_console, picture, situation

SIZES = [(60, 20), (80, 24), (120, 40), (200, 50)]
LEAVES = ("detach", "runs")


async def press_everything(running: Console) -> None:
    """Each command by each of its keys; whatever opens is closed again."""
    for command in COMMANDS:
        if command.id in LEAVES:
            continue
        for key in command.keys:
            running.dashboard._last_command.clear()  # as if some time had passed
            await running.press(key)
            running.assert_sound()
            while running.open != "DashboardScreen":
                above = running.app.screen
                await running.press("escape")
                await running.until(lambda: running.app.screen is not above, f"Esc leaves {command.id}")  # noqa: B023


@pytest.mark.parametrize("name", SITUATIONS)
async def test_every_key_in_every_situation(name: str, tmp_path: Path, acts: Acts) -> None:
    with situation(name, tmp_path / "run") as directory:
        before = picture(directory)
        async with console(directory, (80, 24)) as running:
            possible = {c.id for c in COMMANDS if not c.reason(Situation(running.app.store, ""))}
            await press_everything(running)
            running.assert_sound()
        assert picture(directory) == before
    assert acts.rung == (["save"] if "checkpoint" in possible else [])
    assert len(acts.started) == ("resume" in possible)
    assert ("checkpoint" in possible) == (name in ("training", "starting", "suspended by its words"))
    assert ("resume" in possible) == (name in ("empty", "stopped", "failed", "crashed", "rubbish"))
    assert ("override" in possible) == (name == "halted")
    assert running.app.return_value is None


@pytest.mark.parametrize("size", SIZES)
async def test_every_key_at_every_size(size: tuple[int, int], tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory, size) as running:
            await press_everything(running)
            assert len(running.lines) == size[1]


@pytest.mark.parametrize("name", ["training", "halted"])
async def test_watching_touches_nothing_at_all(name: str, tmp_path: Path, acts: Acts) -> None:
    with situation(name, tmp_path / "run") as directory:
        before = picture(directory)
        async with console(directory, (80, 24), watch=True) as running:
            await press_everything(running)
            assert "watching" in running.lines[0]
        assert picture(directory) == before
        assert not directory.console.exists()
    assert acts.none


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.group == "Control"], ids=lambda c: c.id)
@pytest.mark.parametrize("name", ["training", "stopped"])
async def test_what_cannot_be_done_says_why(name: str, command: Command, tmp_path: Path, acts: Acts) -> None:
    with situation(name, tmp_path / "run") as directory:
        async with console(directory) as running:
            reason = command.reason(Situation(running.app.store, ""))
            if not reason:
                return
            if command.keys:
                await running.press(command.keys[0])
            else:
                running.dashboard.action_command(command.id)
                await running.settle()
            assert running.notices == [f"{command.key_name}: not now, {reason}"]
    assert acts.none


async def test_c_rings_once_however_long_it_is_held(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.press(*"cccccccc")
            assert acts.rung == ["save"]
            assert running.app.store.saves.pending
            await running.until(lambda: "checkpoint asked" in running.text, "the screen says so")
            assert "saved" not in running.lines[-2]


@pytest.mark.parametrize("name", ALIVE)
async def test_q_asks_and_q_again_does_nothing(name: str, tmp_path: Path, acts: Acts) -> None:
    with situation(name, tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.press("q")
            assert running.open == "Dialog"
            assert "checkpoint after this step (about 3 s) and exit" in running.text
            assert "last save at step 30, 10 steps ago" in running.text
            await running.press("q", "q", "c", "p", "r", "x", "1")
            assert running.open == "Dialog"
            assert acts.none
            await running.press("escape")
            assert running.open == "DashboardScreen"
            await running.press("q")
    assert acts.none


async def test_q_enter_rings_for_the_stop_and_waits_for_the_end(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.press("q", "enter")
            assert acts.rung == ["stop"]
            assert running.app.is_running, "the console stays until the engine has ended"
            await running.until(lambda: "checkpoint and exit asked" in running.text, "the screen says so")
            directory.heartbeat.unlink()
            directory.lock.unlink()
            await running.until(lambda: running.app.return_value, "it closes when the engine has gone")
            assert running.app.return_value is not None
            assert running.app.return_value.reason == "stopped"


async def test_q_on_a_stopped_run_only_closes_the_console(tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.press("q")
            assert "nothing to stop" in running.text
            await running.press("d")
            assert running.open == "Dialog"
            await running.press("enter")
        assert running.app.return_value is not None
    assert acts.none


@pytest.mark.parametrize(
    "keys", [("d",), ("q", "d"), ("ctrl+q",), ("q", "ctrl+q"), ("question_mark", "ctrl+q"), ("ctrl+c",)]
)
async def test_leaving_rings_no_bell(keys: tuple[str, ...], tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.press(*keys)
        assert running.app.return_value is not None
        assert running.app.return_code == 0
        assert not directory.console.exists()
    assert acts.none


async def test_the_palette_lists_the_commands_and_its_quit_is_harmless(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            entries = [entry.title for entry in running.app.get_system_commands(running.app.screen)]
            for command in COMMANDS:
                expected = f"{command.help.rstrip('.')} ({command.key_name})"
                assert command.id == "palette" or expected in entries
            await running.press("ctrl+p")
            await running.search("close the console")
            await running.until(lambda: "The engine goes on" in running.text, "the palette found it")
            await running.press("enter")
            await running.until(lambda: running.app.return_value, "the console closed")
        assert running.app.return_value is not None
        assert running.app.return_value.reason == "left"
    assert acts.none


async def test_the_palette_runs_a_command_like_its_key(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.press("colon")
            await running.search("save a checkpoint after this step")
            await running.until(lambda: "Save a checkpoint after" in running.text, "the palette found it")
            await running.press("enter")
            await running.until(lambda: acts.rung, "the bell was rung")
    assert acts.rung == ["save"]


@pytest.mark.parametrize("size", SIZES)
async def test_a_digit_shows_one_panel_alone(size: tuple[int, int], tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory, size) as running:
            everything = _shape(running.lines[1:-2])
            for key, title in (("1", "loss"), ("2", "host"), ("3", "sample"), ("4", "arms"), ("5", "events")):
                await running.press(key)
                await running.until(lambda: running.lines[1].startswith(f"┌─ {key} {title}"), "it is there")  # noqa: B023
                assert running.text.count("┌─ ") == 1
                assert running.lines[-3].startswith("└")
                again = key if key in "135" else "escape"
                await running.press(again)
                await running.until(lambda: _shape(running.lines[1:-2]) == everything, "all are back")


def _shape(lines: list[str]) -> list[str]:
    """Only the frames: numbers may change between two looks."""
    return ["".join(char if char in "┌┐└┘" else " " for char in line) for line in lines]


async def test_help_lists_every_command_with_what_stands_against_it(tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        async with console(directory, (120, 90)) as running:
            await running.press("question_mark")
            assert running.open == "HelpScreen"
            text = " ".join(running.text.replace("│", " ").split())
            for command in COMMANDS:
                assert command.help in text
            assert "not now: the engine is not running" in text
            for key in ("question_mark", "escape", "q"):
                if running.open != "HelpScreen":
                    await running.press("f1")
                await running.press(key)
                assert running.open == "DashboardScreen"


async def test_the_second_console_watches_until_t(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory, another_console(directory) as pid:
        async with console(directory) as running:
            assert "watching" in running.lines[0]
            await running.press("c", "q", "r", "o", "p")
            assert running.open == "DashboardScreen"
            assert acts.none
            assert f"another console (pid {pid}) is in charge; t takes over" in running.notices[0]
            assert "t take over" in running.lines[-1]
            await running.press("t")
            await running.until(lambda: "watching" not in running.lines[0], "it is in charge")
            await running.press("c")
            assert acts.rung == ["save"]
            await running.press("d")
        assert not directory.console.exists()


async def test_the_console_that_was_taken_over_from_watches(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            assert "watching" not in running.lines[0]
            with another_console(directory):
                await running.press("c")
                assert acts.none, "checked at the key press, not only once a second"
                await running.until(lambda: "watching" in running.lines[0], "it noticed")
                await running.press("ctrl+q")
                assert directory.console.exists(), "the other one's note is not removed"


async def test_a_dead_console_is_no_owner(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        with another_console(directory):
            pass
        async with console(directory) as running:
            assert "watching" not in running.lines[0]


async def test_override_asks_first(tmp_path: Path, acts: Acts) -> None:
    with situation("halted", tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.press("o")
            assert running.open == "Dialog"
            await running.press("o", "escape")
            assert acts.none
            running.dashboard._last_command.clear()
            await running.press("o", "enter")
    assert acts.started == [("--override-halt",)]


@pytest.mark.parametrize(
    ("name", "starts"), [("empty", 1), ("stopped", 1), ("crashed", 1), ("halted", 0), ("finished", 0)]
)
async def test_start_at_once_but_never_against_a_decision(name: str, starts: int, tmp_path: Path, acts: Acts) -> None:
    with situation(name, tmp_path / "run") as directory:
        async with console(directory, start=True):
            pass
    assert acts.started == [()] * starts


async def test_start_at_once_attaches_to_a_living_engine(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory, start=True) as running:
            assert "training" in running.lines[0]
    assert acts.none


async def test_a_click_on_the_key_bar_is_its_key(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.until(lambda: "stop…" in running.lines[-1], "the keys are there")
            await running.pilot.click("#keys", offset=(running.lines[-1].index("stop…"), 0))
            await running.until(lambda: running.open == "Dialog", "the dialog is open")
    assert acts.none
