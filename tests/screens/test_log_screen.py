"""The log screen: follow, scroll, search, filter, tabs; and whatever a log may hold."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.widgets import Input

from andrea_engine.run.directory import RunDirectory
from andrea_tui.screens.log import LogScreen
from tests.screens.conftest import Acts, Console, console
from tests.screens.situations import picture, situation
from tests.widgets.stores import HOSTILE

SIZES = [(60, 20), (80, 24), (120, 40)]


def write_log(directory: RunDirectory, count: int = 200) -> None:
    lines = [f"step {n} loss 3.0" if n % 50 else f"ValueError: needle {n}" for n in range(1, count + 1)]
    directory.log.write_text("\n".join(lines) + "\n")


async def shows(running: Console, text: str, what: str = "") -> None:
    await running.until(lambda: text in running.text, what or f"{text!r} is there")


async def opened(running: Console, key: str = "v") -> LogScreen:
    if running.open == "SamplesScreen":  # a halted run opens with it
        await running.press("escape")
    await running.press(key)
    screen = running.app.screen
    assert isinstance(screen, LogScreen)
    return screen


def body(running: Console) -> list[str]:
    return [line.rstrip() for line in running.lines[2:-2]]


@pytest.mark.parametrize("size", SIZES)
async def test_the_end_is_followed_and_moving_up_says_that_it_is_not(
    size: tuple[int, int], tmp_path: Path, acts: Acts
) -> None:
    with situation("training", tmp_path / "run") as directory:
        write_log(directory)
        async with console(directory, size) as running:
            await opened(running)
            await shows(running, "step 199 loss 3.0")
            assert "following the end" in running.lines[1]
            running.assert_sound()
            with directory.log.open("a") as log:
                log.write("a new line\n")
            await shows(running, "a new line")
            await running.press("up")
            await shows(running, "not following: G follows")
            for keys, first in ((("g",), "step 1 loss"), (("j",), "step 2 loss"), (("k",), "step 1 loss")):
                await running.press(*keys)
                await running.until(lambda: first in body(running)[0], "it moved")  # noqa: B023
            height = len(body(running))
            await running.press("pagedown")
            await running.until(lambda: f"step {height} loss" in body(running)[0], "a page down, one line stays")
            await running.press("pageup", "end")
            await shows(running, "following the end")
            assert "a new line" in "".join(body(running)[-2:])
            await running.press("escape")
            assert running.open == "DashboardScreen"
    assert acts.none


async def test_search_from_the_dashboard_and_the_ways_back(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        write_log(directory)
        async with console(directory, (80, 24)) as running:
            await opened(running, "slash")
            await shows(running, "step 199 loss 3.0")
            await running.press(*"NEEDLE")
            assert running.app.screen.query_one(Input).value == "NEEDLE", "no letter is a key here"
            await shows(running, "4 lines match")
            await running.press("enter")
            await shows(running, "4 of 4")
            assert any(line.startswith("✕▶ ValueError: needle 200") for line in body(running))
            await running.press("N")
            await shows(running, "3 of 4")
            await running.press("n", "n")
            await shows(running, "1 of 4")
            await shows(running, "from the top again")
            assert any(line.startswith("✕▶ ValueError: needle 50") for line in body(running))
            running.assert_sound()
            await running.press("escape")
            await running.until(lambda: "of 4" not in running.text, "the search is over")
            assert running.open == "LogScreen"
            await running.press("escape")
            assert running.open == "DashboardScreen"
            await running.press("slash", "escape")
            assert running.open == "DashboardScreen", "Esc on the empty search line leads back"
            await opened(running)
            await running.press("slash", "escape")
            assert running.open == "LogScreen"
    assert acts.none


async def test_a_query_is_text_and_marked_where_it_stands(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        directory.log.write_text("plain\n(a+)+$ here (A+)+$\nanother\n")
        async with console(directory, (80, 24)) as running:
            await opened(running)
            await shows(running, "another")
            await running.press("slash", *"(a+)+$", "enter")
            await shows(running, "1 of 1")
            assert running.text.count("▶") == 1
            strips = running.app.screen._compositor.render_strips()
            (row,) = (strip for strip in strips if "▶" in strip.text)
            marked = [segment.text for segment in row if segment.style is not None and segment.style.reverse]
            assert [text for text in marked if "a" in text.lower()] == ["(a+)+$", "(A+)+$"]


async def test_levels_and_tabs_keep_each_other(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        write_log(directory)
        async with console(directory, (80, 24)) as running:
            await opened(running)
            await running.press("l")
            await running.until(lambda: "warnings and errors" in running.lines[1], "the filter is told")
            await running.until(lambda: len([line for line in body(running) if line]) == 4, "four lines are left")
            assert all(line.startswith("✕") for line in body(running) if line)
            await running.press("tab")
            await running.until(lambda: "[events]" in running.lines[1], "the events are there")
            assert "warnings and errors" in running.lines[1]
            await running.until(lambda: [line for line in body(running) if line] != [], "there is a notice")
            (line,) = (line for line in body(running) if line)
            assert line.startswith("▲")
            assert line.endswith("garden")
            await running.press("l")
            await shows(running, "no errors here; l shows more")
            await running.press("l")
            await shows(running, "engine started, session 1, pid 77")
            await shows(running, "writing step 30", "what the panel leaves out is told here")
            await running.press("tab")
            await shows(running, "step 199 loss")


async def test_long_lines_are_moved_sideways(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        directory.log.write_text("A" + "-" * 100 + "B" + "-" * 100 + "C\n")
        async with console(directory, (80, 24)) as running:
            await opened(running)
            await running.until(lambda: body(running)[0].endswith("-…"), "the rest is told")
            await running.press("right", "right")
            await running.until(lambda: "B" in body(running)[0] and "A" not in body(running)[0], "it moved")
            await running.press(*["right"] * 9)
            await running.until(lambda: "C" in body(running)[0], "it ends at the end")
            await running.press(*["left"] * 12)
            await running.until(lambda: "A" in body(running)[0], "and is back")


def replace_by_link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def replace_by_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (replace_by_link, "engine.log is a symbolic link"),
        (replace_by_pipe, "engine.log is not a regular file"),
        (lambda path: path.mkdir(), "engine.log is not a regular file"),
        (lambda path: None, "there is no engine.log in this run"),
        (lambda path: path.write_bytes(b""), "nothing here yet"),
    ],
)
async def test_what_cannot_be_shown_is_one_sentence(
    make: Callable[[Path], object], words: str, tmp_path: Path, acts: Acts
) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        make(directory.log)
        async with console(directory, (80, 24)) as running:
            await opened(running)
            await shows(running, words)
            await running.press(
                "slash", "x", "enter", "n", "N", "l", "g", "G", "up", "down", "right", "pagedown", "pageup"
            )
            assert running.open == "LogScreen"
            running.assert_sound()


async def test_a_rotated_log_is_followed(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        write_log(directory)
        async with console(directory, (120, 24)) as running:
            await opened(running)
            await shows(running, "step 199")
            directory.log.rename(directory.path / "engine.log.1")
            directory.log.write_text("the first line of a new log\n")
            await shows(running, "the first line of a new log")
            await shows(running, "engine.log was replaced or cut short")
            assert "step 199" not in running.text


@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
@pytest.mark.parametrize(
    "content",
    [
        (HOSTILE * 3 + "\n").replace("\n", " ").encode("utf-8", "surrogatepass") * 50,
        (HOSTILE + "\n").encode("utf-8", "surrogatepass") * 50,
        bytes(range(256)) * 400,
        b"\x00" * 300_000,
        b"x" * 300_000,
        "각👨‍👩‍👧🇩🇪é ".encode() * 3000,
    ],
    ids=["one line", "many lines", "all bytes", "zeros", "no newline", "wide"],
)
async def test_a_hostile_log_is_only_shown(content: bytes, size: tuple[int, int], tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run", HOSTILE) as directory:
        directory.log.write_bytes(content)
        async with console(directory, size) as running:
            screen = await opened(running)
            await running.until(lambda: "following" in running.lines[1] or size[0] < 70, "the head is there")
            for keys in (
                ("g",),
                ("pagedown",),
                ("right",),
                ("slash", "x", "enter"),
                ("n",),
                ("tab",),
                ("g",),
                ("l",),
                ("tab",),
            ):
                await running.press(*keys)
                running.assert_sound()
            screen._want(type(screen._wanted)(0, "\x1b[2J[@click=app.quit]x[/]"))
            await running.settle()
            running.assert_sound()
            assert running.app.is_running
    assert acts.none


@pytest.mark.parametrize("name", ["empty", "training", "crashed", "halted", "recorded", "rubbish"])
async def test_every_key_in_every_situation(name: str, tmp_path: Path, acts: Acts) -> None:
    with situation(name, tmp_path / "run") as directory:
        before = picture(directory)
        async with console(directory, (80, 24), watch=True) as running:
            screen = await opened(running)
            for binding in LogScreen.BINDINGS:
                for key in binding.key.split(","):  # type: ignore[union-attr]
                    if key not in ("escape", "v", "q"):
                        await running.press(key)
                        running.assert_sound()
                        screen._close_search()
            await running.press("v")
            assert running.open == "DashboardScreen"
        assert picture(directory) == before
    assert acts.none


async def test_the_reader_ends_with_the_screen(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        write_log(directory)
        async with console(directory, (80, 24)) as running:
            screen = await opened(running)
            await shows(running, "step 199")
            await running.press("q")
            await running.until(lambda: not screen._feed._thread.is_alive(), "the thread has ended")
