"""A directory that does not exist: choose, leave without a trace, or create and start."""

from __future__ import annotations

from pathlib import Path

import pytest

from andrea_engine.run.config import load_config, preset_names
from andrea_engine.run.directory import RunDirectory
from tests.screens.conftest import Acts, console

SIZES = [(60, 20), (80, 24), (120, 40), (200, 50)]


@pytest.mark.parametrize("size", SIZES)
async def test_what_would_be_made(size: tuple[int, int], tmp_path: Path, acts: Acts) -> None:
    async with console(RunDirectory(tmp_path / "120m"), size) as running:
        assert running.open == "NewRunScreen"
        assert "[120m]" in running.text
        assert "98,698,752 parameters" in running.text
        assert size == SIZES[0] or "1.18 GB every 100 steps" in running.text
        assert "Enter  create it and start training" in running.text
        assert "Esc    leave without a trace" in running.text
        running.assert_sound()
    assert not (tmp_path / "120m").exists()


async def test_arrows_go_round_the_presets(tmp_path: Path, acts: Acts) -> None:
    async with console(RunDirectory(tmp_path / "x")) as running:
        seen = []
        for _ in preset_names():
            seen += [name for name in preset_names() if f"[{name}]" in running.text]
            await running.press("right")
        assert seen == preset_names()
        assert f"[{preset_names()[0]}]" in running.text
        await running.press("left")
        assert f"[{preset_names()[-1]}]" in running.text


async def test_an_empty_directory_stays_empty_until_enter(tmp_path: Path, acts: Acts) -> None:
    async with console(RunDirectory(tmp_path)) as running:
        assert running.open == "NewRunScreen"
        await running.press("right", "escape")
    assert list(tmp_path.iterdir()) == []


async def test_a_strange_name_is_only_shown(tmp_path: Path, acts: Acts) -> None:
    (tmp_path / "file\x1b[2J").write_text("")
    async with console(RunDirectory(tmp_path / "file\x1b[2J" / "\x9b31m[@click=app.quit]x[/]\u202e")) as running:
        running.assert_sound()
        await running.press("enter")
        assert "cannot be created" in " ".join(running.text.replace("│", " ").split())
        running.assert_sound()


@pytest.mark.parametrize("key", ["escape", "q", "d", "ctrl+q", "ctrl+c"])
async def test_leaving_leaves_no_trace(key: str, tmp_path: Path, acts: Acts) -> None:
    async with console(RunDirectory(tmp_path / "deep" / "x")) as running:
        await running.press("right", key)
        assert running.app._exit
    assert not (tmp_path / "deep").exists()
    assert acts.none
    assert running.app.return_code == 0


async def test_other_keys_do_nothing(tmp_path: Path, acts: Acts) -> None:
    async with console(RunDirectory(tmp_path / "x")) as running:
        await running.press("c", "r", "p", "o", "t", "1")
        assert running.open == "NewRunScreen"
        for key, opens in (("question_mark", "HelpScreen"), ("colon", "CommandPalette")):
            await running.press(key)
            assert running.open == opens
            await running.press("escape")
            await running.until(lambda: running.open == "NewRunScreen", "Esc leads back")
    assert not (tmp_path / "x").exists()
    assert acts.none


async def test_enter_creates_the_chosen_run_and_starts_it_once(tmp_path: Path, acts: Acts) -> None:
    directory = RunDirectory(tmp_path / "deep" / "x")
    async with console(directory) as running:
        await running.press("right", "enter", "enter")
        await running.until(lambda: running.open == "DashboardScreen", "the dashboard is open")
        await running.until(lambda: running.app.store.version, "the directory was read")
    assert load_config(directory).preset == preset_names()[1]
    assert acts.started == [()]


async def test_a_directory_that_cannot_be_made_is_told_and_can_be_left(tmp_path: Path, acts: Acts) -> None:
    (tmp_path / "file").write_text("")
    async with console(RunDirectory(tmp_path / "file" / "x")) as running:
        await running.press("enter")
        assert running.open == "NewRunScreen"
        assert "cannot be created" in " ".join(running.text.replace("│", " ").split())
        await running.press("escape")
    assert acts.none


async def test_a_watching_console_creates_nothing(tmp_path: Path, acts: Acts) -> None:
    async with console(RunDirectory(tmp_path / "x"), watch=True) as running:
        await running.press("enter")
        assert "only watches" in running.text
    assert not (tmp_path / "x").exists()
    assert acts.none


async def test_start_creates_the_suggested_run_without_asking(tmp_path: Path, acts: Acts) -> None:
    directory = RunDirectory(tmp_path / "runs" / "demo")
    async with console(directory, start=True) as running:
        assert running.open == "DashboardScreen"
    assert load_config(directory).preset == "demo"
    assert acts.started == [()]
