"""Content is shown and never obeyed, at any size; a storm of sizes is lived through."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import write_heartbeat
from tests.screens.conftest import Acts, console
from tests.screens.situations import beat, picture, situation
from tests.screens.test_keys import press_everything
from tests.widgets.stores import HOSTILE

SIZES = [(60, 20), (80, 24), (120, 40), (200, 50)]
STRANGE_NAME = "run\x1b]0;x\x07\x9b2J [@click=app.quit]x[bold] [INST \u202e"


HOSTILE_LOOKS = [("training", size) for size in SIZES]
HOSTILE_LOOKS += [(name, (80, 24)) for name in ("crashed", "failed", "halted", "elsewhere", "recorded")]


@pytest.mark.parametrize(("name", "size"), HOSTILE_LOOKS)
async def test_a_hostile_run_is_only_shown(name: str, size: tuple[int, int], tmp_path: Path, acts: Acts) -> None:
    with situation(name, tmp_path / STRANGE_NAME, HOSTILE) as directory:
        async with console(directory, size) as running:
            await press_everything(running)
            for key in ("q", "question_mark", "o", "c"):
                running.dashboard._last_command.clear()
                await running.press(key)
                running.assert_sound()
                await running.press("escape")
            running.assert_sound()


async def test_markup_in_a_sample_is_text_and_not_clickable(tmp_path: Path, acts: Acts) -> None:
    text = "[/INST] [@click=app.leave_console]click[/] [bold]x[/bold] [red on"
    with situation("training", tmp_path / "run", text) as directory:
        async with console(directory) as running:
            await running.press("3")
            await running.until(lambda: running.text.count("┌─ ") == 1, "the sample is alone")
            assert f"40 {text}" in running.text
            row = next(y for y, line in enumerate(running.lines) if "click[/]" in line)
            for x in range(running.lines[row].index("[@"), running.lines[row].index("[bold"), 5):
                await running.pilot.click(offset=(x, row))
            assert running.app.is_running
            assert running.app.return_value is None


@pytest.mark.parametrize("text", ["x" * 1_000_000, "\n" * 1_000_000, "한" * 300_000])
async def test_a_sample_of_a_megabyte_does_not_stop_the_keys(text: str, tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        directory.samples.write_text(json.dumps([{"step": 40, "text": text}]))
        with directory.events.open("a") as file:
            file.write(json.dumps({"time": 5, "kind": "notice", "session": 1, "text": text[:100_000]}) + "\n")
            file.write("y" * 1_000_000 + "\n")
        write_heartbeat(directory.heartbeat, beat("training", note=text[:50_000], problem=text[:50_000]))
        async with console(directory) as running:
            await running.press("3", "3", "5", "5", "question_mark", "escape")
            running.assert_sound()


async def test_strange_numbers_in_every_field(tmp_path: Path, acts: Acts) -> None:
    huge = 9.9e307
    with situation("training", tmp_path / "run") as directory:
        entries = [{"step": 2**62 + i, "loss": value} for i, value in enumerate([huge, -huge, 0.0, 1e-320, None])]
        directory.loss.write_text("[\n" + ",\n".join(json.dumps(e) for e in entries) + "\n]\n")
        directory.state.write_text(json.dumps({"arms": {"x": {"share": huge, "pulls": huge, "weight": -huge}}}))
        directory.samples.write_text(json.dumps([{"step": 2**62, "text": "", "scores": None}]))
        fields: dict[str, object] = {
            "eta_seconds": huge,
            "step_seconds": 1e-300,
            "tokens_per_second": huge,
            "step": 2**62,
            "step_time": -huge,
        }
        write_heartbeat(directory.heartbeat, beat("training", pid=None, **fields))
        async with console(directory) as running:
            await press_everything(running)
            running.assert_sound()


STORM = [(1, 1), (2, 3), (5, 60), (300, 1), (60, 20), (500, 200), (59, 15), (100, 30), (3, 2), (80, 24)]


@pytest.mark.parametrize("key", ["", "q", "question_mark", "ctrl+p", "3"])
async def test_any_size_at_any_time(key: str, tmp_path: Path, acts: Acts) -> None:
    """Case C21."""
    with situation("training", tmp_path / "run") as directory:
        before = picture(directory)
        async with console(directory, (80, 24)) as running:
            if key:
                await running.press(key)
            for width, height in STORM:
                if width == 500 and key:
                    continue  # drawing 100,000 cells once is enough
                await running.pilot.resize_terminal(width, height)
                await running.settle()
            running.assert_sound()
            await running.press("escape", "escape")
            await running.until(lambda: running.open == "DashboardScreen", "back on the dashboard")
            await running.until(lambda: "4 arms" in running.text, "everything is there again")
            assert len(running.lines) == 24
        assert picture(directory) == before
    assert acts.none


@pytest.mark.parametrize("size", [(1, 1), (5, 60), (300, 1), (59, 15)])
async def test_a_tiny_terminal_gets_a_line_and_its_keys(size: tuple[int, int], tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory, size) as running:
            for key in ("3", "escape", "q", "escape", "question_mark", "escape", "c"):
                await running.press(key)
                running.assert_sound()
            assert acts.rung == ["save"]
            if size[0] >= 59:
                await running.until(lambda: "training" in running.lines[0], "the state is on the first line")
                assert "40" in running.lines[0]


async def test_a_run_directory_that_goes_away_and_comes_back(tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        async with console(directory) as running:
            directory.path.rename(tmp_path / "moved")
            await running.until(lambda: running.app.store.condition.word == "missing", "it is gone")
            await press_everything(running)
            RunDirectory(tmp_path / "moved").path.rename(directory.path)
            await running.until(lambda: running.app.store.condition.word == "stopped", "it is back")
            running.assert_sound()
