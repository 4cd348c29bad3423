"""The chart on the screen: keys, picker, mouse, and one time cursor for all panels."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from textual.events import MouseScrollDown, MouseScrollUp

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog
from andrea_tui.app import AndreaApp
from andrea_tui.cli import run
from andrea_tui.view import Window
from andrea_tui.widgets.loss_panel import LossPanel
from tests.screens.conftest import Acts, Console, console
from tests.screens.situations import STEPS, fill, situation
from tests.support.tiny import make_run
from tests.widgets.stores import HOSTILE


def panel(running: Console) -> LossPanel:
    return running.dashboard.query_one(LossPanel)


@pytest.mark.parametrize("text", ["garden", HOSTILE])
async def test_samples_from_before_a_pivot_are_reached(text: str, tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run", text) as directory:
        archive = directory.archive / "pivot-0001-step-000040"
        archive.mkdir(parents=True)
        (archive / "receipt.json").write_text("{}")
        directory.samples.rename(archive / directory.samples.name)
        EventLog(directory.events, 2).append("pivot", step=40)
        async with console(directory) as running:
            assert "none since the pivot at step 40" in " ".join(re.sub("[│┌┐└┘]", " ", running.text).split())
            await running.press("left_square_bracket")
            assert "87 of 100  step 40, before the pivot" in running.text
            running.assert_sound()
            await running.press("e")
            await running.until(
                lambda: "samples none since the pivot at step 40" in running.text, "it is said there too"
            )
            assert f"{'30':>9}  " in running.text
            running.assert_sound()
            await running.press("escape")
            running.app.view.cursor = 25
            running.dashboard.redraw()
            await running.settle()
            assert "step 20, at the cursor" in running.text
            assert "arms  at step 25" in running.text


async def test_the_time_cursor_moves_all_panels_and_esc_ends_it(tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        async with console(directory) as running:
            assert "sample  87 of 100  step 40" in running.text
            await running.press("left")
            assert running.app.view.cursor == STEPS
            assert f"step {STEPS}  4.000" in running.lines[1]
            for _ in range(200):
                if running.app.view.cursor is None or running.app.view.cursor <= 32:
                    break
                await running.press("left")
            cursor = running.app.view.cursor
            assert cursor is not None
            assert 30 <= cursor <= 32
            assert f"step {cursor}  {6 - cursor / 20:.3f}" in running.lines[1]
            assert "step 30, at the cursor" in running.text
            assert "30 garden" in running.text
            assert f"events  at the cursor, step {cursor}" in running.text
            assert "sample at step 40" not in running.text
            assert "saved step 30" in running.text
            await running.press("left_square_bracket")
            assert running.app.view.cursor == 20, "walking the samples moves the one cursor"
            await running.press("home")
            assert running.app.view.cursor == 1
            assert "no sample is kept from step 1 or before" in running.text
            await running.press("5", "escape")
            assert running.app.view.cursor is None
            assert running.dashboard.has_class("-only"), "Esc ends the cursor first"
            await running.press("escape")
            assert not running.dashboard.has_class("-only")
            assert "step 40" in running.text


async def test_the_picker_chooses_by_digit_and_by_enter_and_esc_changes_nothing(tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        async with console(directory, (80, 24)) as running:
            await running.press("m")
            assert running.open == "SeriesPicker"
            assert "not now: the record does not hold it" in running.text
            running.assert_sound()
            await running.press("4")
            assert running.open == "SeriesPicker", "what has nothing to show cannot be chosen"
            await running.press("3")
            await running.until(lambda: running.open == "DashboardScreen", "it is chosen")
            assert running.app.view.series == "score"
            assert "sample score" in running.lines[1]
            await running.press("m", "escape")
            assert running.app.view.series == "score"
            await running.press("m", "end", "enter")
            await running.until(lambda: running.open == "DashboardScreen", "it is chosen")
            assert running.app.view.series == "arm:garden"
            assert "loss on garden" in running.lines[1]


@pytest.mark.parametrize("text", ["[/] [bold]x[/INST]", "\x1b[2J\x1b]52;c;aGk=\x07", "가나다\n👨"])
async def test_arms_with_hostile_names_are_only_names(text: str, tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run", text) as directory:
        async with console(directory, (80, 24)) as running:
            await running.press("m")
            running.assert_sound()
            await running.press("8")
            await running.until(lambda: running.open == "DashboardScreen", "it is chosen")
            await running.press("left")
            running.assert_sound()
            assert running.app.view.series == f"arm:{text}"


async def test_the_wheel_zooms_about_the_pointer_and_pans_with_shift(tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        async with console(directory) as running:
            chart = panel(running)
            frame = chart.frame
            assert frame is not None

            def wheel(kind: type[MouseScrollUp] | type[MouseScrollDown], column: int, *, shift: bool = False) -> None:
                chart.post_message(kind(chart, column, 3, 0, 0, 0, shift, False, False))

            x = chart.x_under(40)
            assert x is not None
            wheel(MouseScrollUp, 40)
            await running.until(lambda: running.app.view.window is not None, "it zoomed")
            await running.settle()
            window = running.app.view.window
            assert window is not None
            assert window.hi - window.lo == pytest.approx((STEPS - 1) / 2)
            assert (x - window.lo) / (window.hi - window.lo) == pytest.approx((x - 1) / (STEPS - 1))
            wheel(MouseScrollUp, 40, shift=True)
            await running.until(lambda: running.app.view.window != window, "it moved")
            moved = running.app.view.window
            assert moved is not None
            assert moved.hi - moved.lo == pytest.approx(window.hi - window.lo)
            assert moved.lo == pytest.approx(max(1, window.lo - (window.hi - window.lo) / 8))
            wheel(MouseScrollUp, 1)
            wheel(MouseScrollDown, 40)
            wheel(MouseScrollDown, 40)
            await running.until(lambda: running.app.view.window is None, "all is in view again")
            await running.pilot.click(LossPanel, offset=(40, 3))
            await running.until(lambda: running.app.view.cursor is not None, "a click sets the cursor")
            assert running.app.view.cursor == round(x)


async def test_keys_of_the_window(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory, (80, 24)) as running:
            await running.press("shift+left")
            assert running.notices == ["everything is in view; + zooms in"]
            await running.press("plus")
            assert running.app.view.window == Window("step", 20.5, 40, follows=True)
            assert "40, follows" in running.lines[1]
            await running.press("H")
            assert "stands still" in running.lines[1]
            await running.press("0")
            assert running.app.view.window is None
            assert "steps" not in running.lines[1]
            await running.press("x", "x")
            assert "time is left out" in running.notices[-1]


async def test_the_other_run_is_on_the_screen(tmp_path: Path, acts: Acts) -> None:
    other = make_run(tmp_path / "before")
    fill(other)
    with situation("stopped", tmp_path / "run") as directory:
        app = AndreaApp(directory, compare=other)
        async with app.run_test(size=(120, 40)) as pilot:
            running = Console(app, pilot)
            await running.until(lambda: app.store.version, "the directory was read")
            await running.settle()
            assert "dashes before (EMA 0.99, recorded)" in running.text
            running.assert_sound()


@pytest.mark.parametrize("flags", [(), ("--once",)])
def test_what_cannot_be_compared_is_refused_in_one_sentence(
    flags: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = make_run(tmp_path / "one")
    (tmp_path / "stuff").mkdir()
    (tmp_path / "stuff" / "notes.txt").write_text("x")
    (tmp_path / "file").write_text(json.dumps([1]))
    for name, words in (("nowhere", "no directory"), ("file", "no directory"), ("stuff", "no run"), ("one", "itself")):
        assert run([str(one.path), "--compare", str(tmp_path / name), *flags]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert words in error
        assert "--compare" in error


def test_the_view_of_another_run_begins_anew(tmp_path: Path) -> None:
    app = AndreaApp(RunDirectory(tmp_path / "none"))
    app.view.cursor, app.view.window, app.view.smoothing = 5, Window("step", 1, 2), "0.999"
    app.view.leave_run()
    assert (app.view.cursor, app.view.window, app.view.smoothing) == (None, None, "0.999")
