"""The reader's thread: orders in, pages out."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from andrea_tui.feed.line_file import LineFile
from andrea_tui.feed.log_feed import LogFeed
from andrea_tui.feed.log_text import ERROR, PLAIN, LogReading, Wanted
from andrea_tui.feed.log_window import LogWindow, Page

PATIENCE = 60.0


class Pages:
    """What was delivered."""

    def __init__(self) -> None:
        self.queue: queue.Queue[tuple[str, Page]] = queue.Queue()

    def __call__(self, name: str, page: Page) -> None:
        self.queue.put((name, page))

    def until(self, right: Callable[[str, Page], object]) -> Page:
        while True:
            name, page = self.queue.get(timeout=PATIENCE)
            if right(name, page):
                return page


def window(path: Path) -> LogWindow:
    made = LogWindow(LineFile(path, 16, 64), LogReading())
    made.height = 4
    return made


@contextmanager
def feed(*paths: Path) -> Iterator[tuple[LogFeed, Pages]]:
    pages = Pages()
    running = LogFeed({path.name: window(path) for path in paths}, pages, paths[0].name)
    running.start()
    try:
        yield running, pages
    finally:
        running.stop()
        assert not running._thread.is_alive()


def last_text(page: Page) -> str:
    return page.entries[-1].text if page.entries else ""


def test_the_first_page_comes_unasked_and_growth_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\n")
    with feed(path) as (_, pages):
        pages.until(lambda name, page: last_text(page) == "one")
        with path.open("a") as log:
            log.write("two\n")
        pages.until(lambda name, page: last_text(page) == "two")
        path.unlink()
        assert pages.until(lambda name, page: page.problem).problem == "there is no log in this run"
        path.write_text("three\n")
        pages.until(lambda name, page: last_text(page) == "three")


def test_an_order_shows_its_window(tmp_path: Path) -> None:
    for name in ("log", "events"):
        (tmp_path / name).write_text(f"of {name}\n")
    with feed(tmp_path / "log", tmp_path / "events") as (running, pages):
        running.ask("events")
        pages.until(lambda name, page: name == "events" and last_text(page) == "of events")
        running.ask("log", lambda window: window.want(Wanted(PLAIN, "LOG")))
        running.ask("log", LogWindow.find)
        page = pages.until(lambda name, page: name == "log" and page.current == 0)
        assert (page.number, page.matches) == (1, 1)


def test_a_search_under_way_gives_way_to_the_next_order(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("hay\n" * 1000)
    entered, leave = threading.Event(), threading.Event()

    class Slow(LogReading):
        def places(self, lines: object, wanted: Wanted) -> list[int]:
            entered.set()
            leave.wait(PATIENCE)
            return super().places(lines, wanted)  # type: ignore[arg-type]

        def may_have(self, data: bytes, wanted: Wanted) -> bool:
            return True

    pages = Pages()
    slow = LogWindow(LineFile(path, 16, 64), Slow())
    running = LogFeed({"log": slow}, pages, "log")
    running.start()
    try:
        pages.until(lambda name, page: page.entries)
        running.ask("log", lambda window: window.want(Wanted(PLAIN, "needle")))
        running.ask("log", lambda window: window.next(1))
        assert entered.wait(PATIENCE)
        running.ask("log", lambda window: window.want(Wanted()))
        running.ask("log", LogWindow.home)
        leave.set()
        pages.until(lambda name, page: not page.wanted.query and not page.follow)
    finally:
        leave.set()
        running.stop()
    assert not running._thread.is_alive()


def test_a_long_search_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("andrea_tui.feed.log_feed.TELL_SECONDS", 0.0)
    path = tmp_path / "log"
    path.write_text("hay\n" * 1000)
    with feed(path) as (running, pages):
        pages.until(lambda name, page: page.entries)
        running.ask("log", lambda window: window.want(Wanted(ERROR)))
        page = pages.until(lambda name, page: page.searched)
        assert last_text(page) == "hay", "the page before stays until there is a new one"
        assert pages.until(lambda name, page: page.wanted.level == ERROR and page.searched is None).entries == ()


def test_counting_goes_on_until_all_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("needle\n" * 5000)
    with feed(path) as (running, pages):
        running.ask("log", lambda window: window.want(Wanted(PLAIN, "needle")))
        page = pages.until(lambda name, page: page.wanted.query and page.counted == 1.0)
        assert page.matches == 5000


def test_a_failing_order_is_told_and_the_next_one_served(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\n")

    def fail(window: LogWindow) -> None:
        raise RuntimeError("boom")

    with feed(path) as (running, pages):
        running.ask("log", fail)
        assert "RuntimeError: boom" in pages.until(lambda name, page: page.problem).problem
        running.ask("log", LogWindow.end)
        pages.until(lambda name, page: last_text(page) == "one")
