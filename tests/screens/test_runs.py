"""The list of runs: opening one, coming back, and never holding two."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_tui.app import AndreaApp
from andrea_tui.cli import farewell, run
from andrea_tui.feed.runs import RunRow, RunsListing
from andrea_tui.screens.runs import RunsScreen, RunsTable, in_order
from andrea_tui.widgets.rows import row_width
from tests.screens.conftest import Acts, Console, console
from tests.screens.situations import picture, situation
from tests.support.tiny import make_run
from tests.widgets.test_rows import text_of


class Listed(Console):
    """The console with the list of runs on top."""

    @property
    def screen(self) -> RunsScreen:
        return next(s for s in self.app.screen_stack if isinstance(s, RunsScreen))

    @property
    def names(self) -> list[str]:
        return [row.name for row in self.screen.table.shown]

    async def listed(self) -> None:
        await self.until(lambda: self.open == "RunsScreen" and self.screen.table.listing is not None, "it is listed")
        await self.settle()


@asynccontextmanager
async def runs(root: Path, size: tuple[int, int] = (120, 40), *, watch: bool = False) -> AsyncIterator[Listed]:
    async with console(RunDirectory(root), size, watch=watch) as running:
        listed = Listed(running.app, running.pilot)
        await listed.listed()
        yield listed


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (120, 40)])
async def test_every_key_touches_nothing(size: tuple[int, int], tmp_path: Path, acts: Acts) -> None:
    evil = make_run(tmp_path / "e\x1b[2Jvil[bold]\n\u202e")
    os.mkfifo(evil.loss)
    with situation("training", tmp_path / "b") as directory, situation("halted", tmp_path / "a"):
        before = picture(directory)
        async with runs(tmp_path, size) as running:
            assert len(running.names) == 3
            for key in ("j", "k", "up", "down", "pageup", "pagedown", "home", "end", "n", "s", "t", "slash"):
                await running.press(key)
                running.assert_sound()
            await running.press("q", "escape", "escape")
            running.assert_sound()
            assert len(running.names) == 3
            assert running.app.return_value is None, "q was typed into the filter"
            await running.press("q")
        assert running.app.return_value is not None
        assert running.app.return_value.listing == tmp_path
        assert "nothing was touched" in farewell(running.app.directory, running.app.return_value)
        assert picture(directory) == before
        assert not list(tmp_path.glob("*/console.json"))
    assert acts.none


@pytest.mark.parametrize("root", ["empty", "many"])
async def test_without_a_run_it_says_so(root: str, tmp_path: Path, acts: Acts) -> None:
    """A directory that lost its last run while it was shown."""
    directory = make_run(tmp_path / "one")
    async with runs(tmp_path) as running:
        directory.config.unlink()
        if root == "empty":
            directory.path.rmdir()
        running.screen._poller.look_now()
        await running.until(lambda: "there is no run in" in running.text, "it is told")
        await running.press("enter", "down", "end", "slash", "x", "enter")
        assert running.open == "RunsScreen"


async def test_enter_opens_and_w_comes_back_with_everything_released(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "a") as a, situation("stopped", tmp_path / "b") as b:
        async with runs(tmp_path) as running:
            assert [line.split()[1] for line in running.lines[4:6]] == ["›", "b"]
            for directory, keys in ((a, ("home", "enter")), (b, ("end", "enter"))):
                await running.press(*keys)
                await running.until(lambda: running.open == "DashboardScreen", "it is open")
                await running.until(lambda: running.app.store.version, "it was read")
                await running.until(directory.console.exists, "it is in charge of this run")
                assert [path.parent for path in tmp_path.glob("*/console.json")] == [directory.path]
                assert running.app.store.condition.word == ("training" if directory is a else "stopped")
                tailer = running.app._tailer
                assert tailer is not None
                await running.press("w")
                await running.listed()
                assert not tailer._thread.is_alive()
                assert running.app._tailer is None
                assert running.app.watchdog is None
                assert not list(tmp_path.glob("*/console.json"))
                assert len([s for s in running.app.screen_stack if isinstance(s, RunsScreen)]) == 1
                assert running.screen.table.chosen is not None
                assert running.screen.table.chosen.path == directory.path, "the cursor is where it was"
                await running.until(lambda: "Esc back" in running.lines[-1], "the way back is told")
    assert acts.none


async def test_w_on_a_single_run_lists_its_neighbours(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "a") as a, situation("stopped", tmp_path / "b"):
        async with console(a) as opened:
            await opened.press("w")
            running = Listed(opened.app, opened.pilot)
            await running.listed()
            assert running.names == ["a", "b"]
            assert not list(tmp_path.glob("*/console.json"))
            await running.press("down", "enter")
            await running.until(lambda: running.app.store.condition.word == "stopped", "the other one is open")
            await running.press("d")
        assert running.app.return_value is not None
        assert (running.app.return_value.reason, running.app.return_value.listing) == ("detached", None)
        assert "b: stopped" in farewell(running.app.directory, running.app.return_value)
    assert acts.none


async def test_escape_in_the_list_leads_back_to_the_run_that_it_was_opened_from(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "a") as a, situation("stopped", tmp_path / "b"):
        async with console(a) as opened:
            await opened.press("w")
            running = Listed(opened.app, opened.pilot)
            await running.listed()
            assert "Esc back" in running.lines[-1]
            await running.press("slash", "x", "escape")
            assert running.open == "RunsScreen", "first all runs are listed again"
            assert running.names == ["a", "b"]
            await running.press("down", "escape")
            await running.until(lambda: running.app.store.condition.word == "training", "the first one is open again")
            assert running.open == "DashboardScreen"
    assert acts.none


async def test_a_late_look_at_the_run_that_was_left_is_not_taken_for_the_next(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "a"), situation("stopped", tmp_path / "b"):
        async with runs(tmp_path) as running:
            await running.press("home", "enter")
            await running.until(lambda: running.app.store.condition.word == "training", "a was read")
            old = running.app.store
            update = running.app._tailer._reader.poll()  # type: ignore[union-attr]
            await running.press("w")
            await running.listed()
            await running.press("end", "enter")
            await running.until(lambda: running.app.store.condition.word == "stopped", "b was read")
            running.app._deliver(old, update)
            await running.settle()
            assert running.app.store.condition.word == "stopped"


async def test_watching_a_list_takes_charge_of_nothing(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "a"):
        async with runs(tmp_path, watch=True) as running:
            await running.press("enter")
            await running.until(lambda: running.open == "DashboardScreen", "it is open")
            await running.until(lambda: "watching" in running.lines[0], "it only watches")
            await running.press("c", "w")
            await running.listed()
        assert not list(tmp_path.glob("*/console.json"))
    assert acts.none


async def test_sorting_and_filtering(tmp_path: Path, acts: Acts) -> None:
    with (
        situation("training", tmp_path / "m"),
        situation("halted", tmp_path / "z"),
        situation("stopped", tmp_path / "a"),
    ):
        for name, at in (("a", 2e9), ("m", 1e9), ("z", 1e9)):  # in the future: then it is the newest
            os.utime(tmp_path / name / "run.toml", (at, at))
        async with runs(tmp_path) as running:
            assert running.names == ["a", "m", "z"]
            await running.press("down", "s")
            assert running.names == ["m", "z", "a"]
            assert running.screen.table.chosen is not None
            assert running.screen.table.chosen.name == "m"
            await running.press("t")
            assert running.names[0] == "a"
            await running.press("n", "slash", *"halt")
            assert running.names == ["z"]
            await running.press("enter")
            assert "1 of 3" in running.lines[1]
            assert "with 'halt'" in running.lines[1]
            await running.press("escape")
            assert running.names == ["a", "m", "z"]
            assert in_order(running.screen.table.listing.rows, "name", "z TRAIN") == []  # type: ignore[union-attr]


def run_row(name: str) -> RunRow:
    curve = tuple(float(value) for value in range(100))
    return RunRow(
        Path(name), name, "stopped", "", alive=False, step=40, total_steps=100, ema=4.1, score=87.0, gate_low=0,
        gate_limit=5, last_step=None, changed=0.0, bytes=10, curve=curve,
    )  # fmt: skip


def test_the_cursor_stays_on_its_run_and_from_one_that_is_gone_goes_to_the_nearest(tmp_path: Path) -> None:
    table = RunsTable(tmp_path)
    for names, on in (
        ("mz", "m"),
        ("ammmz", "m"),
        ("abmxz", "m"),
        ("0abcxz", "x"),
        ("", None),
        ("0ax", "x"),
        ("0", "0"),
    ):
        table.take(RunsListing(tuple(run_row(name) for name in dict.fromkeys(names))))
        assert (None if table.chosen is None else table.chosen.name) == on
    table.take(RunsListing(tuple(map(run_row, "0kp"))))
    table.move_to(-1)
    for words, on in (("p", "p"), ("nothing", None), ("", "p")):
        table.words = words
        table.sort_rows()
        assert (None if table.chosen is None else table.chosen.name) == on


@pytest.fixture
def braille(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunsTable, "kind", "braille")


@pytest.mark.parametrize(("width", "cells"), [(54, 16), (74, 21), (114, 28), (154, 32)])
@pytest.mark.usefixtures("braille")
def test_names_that_need_room_come_before_curves(width: int, cells: int) -> None:
    table = RunsTable(Path())
    name = "demo-from-2700-from-3100-from-123456"
    table.take(RunsListing((run_row(name),)))
    line = text_of(table.line(0, width))
    assert line.startswith(name[: cells - 1])
    assert row_width(table.line(0, width)) <= width
    assert table.heading(width)[0][0].index("state") == line.index("stopped") - 2


@pytest.mark.usefixtures("braille")
def test_short_names_leave_the_curve_its_half() -> None:
    table = RunsTable(Path())
    table.take(RunsListing((run_row("demo"),)))
    assert row_width([table.line(0, 154)[-1]]) == 35


async def test_rows_show_state_numbers_and_curve(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "alpha"):
        async with runs(tmp_path) as running:
            row = next(line for line in running.lines if "alpha" in line)
            for fact in ("● training", "40/1,000,000", "4.100", "87", "0/5", "█", "▁"):
                assert fact in row
            running.app.plot_kind = "ascii"
            running.screen.redraw()
            await running.settle()
            assert "\n".join(running.lines).isascii()


# -- without a screen -------------------------------------------------------------------------------------------------


def test_once_and_json_of_a_directory_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with situation("training", tmp_path / "a"), situation("recorded", tmp_path / "old"):
        assert run([str(tmp_path), "--once"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split()[:3] == ["run", "state", "step"]
        assert lines[1].split()[:5] == ["a", "training", "40", "1,000,000", "0"]
        assert lines[2].split()[:2] == ["old", "recorded"]
        assert run([str(tmp_path), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert [(f["name"], f["word"], f["step"], f["ema"]) for f in facts] == [
            ("a", "training", 40, pytest.approx(4.1)),
            ("old", "recorded", 99, None),
        ]
        assert run([str(tmp_path), "--start"]) == 2
        assert "holds several runs; name the one to start" in capsys.readouterr().err


def test_without_an_argument(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["--once"]) == 2
    assert "there is no run here nor in runs/" in capsys.readouterr().err
    for place in ("runs/b", "c", "."):
        make_run(tmp_path / place)
        assert run(["--json"]) == 0
        shown = json.loads(capsys.readouterr().out)["run"]
        assert shown == ("." if place == "." else "runs/b"), "the run here first, then the newest in runs/"


async def test_a_new_directory_still_opens_a_new_run(tmp_path: Path, acts: Acts) -> None:
    app = AndreaApp(RunDirectory(tmp_path / "new"))
    async with app.run_test():
        assert type(app.screen).__name__ == "NewRunScreen"
