"""The window into a log against a naive list of all its lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_tui.feed.line_file import LineFile
from andrea_tui.feed.log_text import ERROR, PLAIN, WARNING, LogReading, Wanted
from andrea_tui.feed.log_window import LogWindow, Page, SupersededError

BLOCK, STEP = 64, 16
HEIGHT = 5


def window_on(path: Path, lines: list[str] | None = None, height: int = HEIGHT) -> LogWindow:
    if lines is not None:
        path.write_text("".join(f"{line}\n" for line in lines))
    window = LogWindow(LineFile(path, STEP, BLOCK), LogReading())
    window.height = height
    window.refresh()
    return window


def texts(page: Page) -> list[str]:
    return [entry.text for entry in page.entries]


class Naive:
    """The same rules on a list of all lines in memory (none is broken: all are short)."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.level, self.query = PLAIN, ""
        self.top, self.follow = 0, True
        self.current: int | None = None

    def shown(self) -> list[int]:
        return [n for n, line in enumerate(self.lines) if (ERROR if "error" in line else PLAIN) >= self.level]

    def found(self) -> list[int]:
        return [n for n in self.shown() if self.query in self.lines[n].lower()]

    def page(self) -> list[int]:
        shown = self.shown()
        if self.follow:
            page = shown[-HEIGHT:]
        else:
            below = [n for n in shown if n >= self.top]
            page = below[:HEIGHT] if len(below) >= HEIGHT else shown[-HEIGHT:]
        self.top = page[0] if page else self.top
        return page

    def move(self, lines: int) -> None:
        shown = self.shown()
        if lines > 0 and not self.follow:
            below = [n for n in shown if n >= self.top][: lines + 1]
            self.top = below[-1] if below else self.top
        elif lines < 0:
            above = [n for n in shown if n < self.top][lines:]
            self.top = above[0] if above else self.top
            self.follow = False

    def to(self, place: int) -> None:
        above = [n for n in self.shown() if n < place][-(HEIGHT // 3) :]
        self.current, self.follow = place, False
        self.top = above[0] if above else place

    def find(self) -> None:
        found = self.found()
        if found:
            below = [n for n in found if n >= self.top]
            self.to(found[-1] if self.follow else below[0] if below else found[0])

    def next(self, direction: int) -> None:
        found, here = self.found(), self.current
        if here is None or not found:
            self.find()
        elif direction > 0:
            self.to(next((n for n in found if n > here), found[0]))
        else:
            self.to(next((n for n in reversed(found) if n < here), found[-1]))

    def number(self) -> int | None:
        return None if self.current is None or not self.query else self.found().index(self.current) + 1


def order(draw_from: str) -> st.SearchStrategy[tuple[str, object]]:
    return {
        "move": st.tuples(st.just("move"), st.integers(-9, 9).filter(bool)),
        "next": st.tuples(st.just("next"), st.sampled_from([1, -1])),
        "want": st.tuples(st.just("want"), st.tuples(st.sampled_from([PLAIN, ERROR]), st.sampled_from(["", "a", "B"]))),
        "plain": st.tuples(st.sampled_from(["home", "end", "find"]), st.none()),
    }[draw_from]


ORDERS = st.lists(st.one_of(*map(order, ("move", "next", "want", "plain"))), max_size=12)
LINES = st.lists(st.sampled_from(["a", "b", "Aab", "c error", "B error a", "", "ä ß"]), max_size=60)


@settings(deadline=None, max_examples=80)
@given(LINES, ORDERS)
def test_every_sequence_of_orders_shows_what_a_list_would(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], orders: list[tuple[str, object]]
) -> None:
    window = window_on(tmp_path_factory.mktemp("log") / "log", lines)
    naive = Naive(lines)
    for name, value in orders:
        if name == "want":
            level, query = value  # type: ignore[misc]
            if (level, query.lower()) != (naive.level, naive.query):
                naive.current = None
            naive.level, naive.query = level, query.lower()
            window.want(Wanted(level, query))
        elif name in ("move", "next"):
            getattr(naive, name)(value)
            getattr(window, name)(value)
        elif name == "find":
            naive.find()
            window.find()
        else:
            naive.follow, naive.top = name == "end", 0 if name == "home" else naive.top
            getattr(window, name)()
        while window.count_on(1):
            pass
        page, expected = window.page(), naive.page()
        assert texts(page) == [lines[n] for n in expected]
        assert page.follow == naive.follow
        assert page.at_end == (naive.follow or expected == naive.shown()[-len(expected) :] or not expected)
        if naive.query:
            assert page.matches == len(naive.found())
            assert page.number == naive.number()
            assert page.counted == 1.0
    window.file.close()


def grown(path: Path, window: LogWindow, text: str) -> Page:
    with path.open("a") as log:
        log.write(text)
    assert window.refresh()
    return window.page()


def test_the_end_is_followed_until_somebody_moves_up(tmp_path: Path) -> None:
    path = tmp_path / "log"
    window = window_on(path, [f"line {n}" for n in range(20)])
    assert texts(window.page())[-1] == "line 19"
    assert texts(grown(path, window, "line 20\n"))[-1] == "line 20"
    window.move(-1)
    page = window.page()
    assert (texts(page)[0], page.follow, page.at_end) == ("line 15", False, False)
    assert texts(grown(path, window, "line 21\n" * 50)) == texts(page), "nothing moves under the eye"
    window.end()
    page = window.page()
    assert (page.follow, texts(page)) == (True, ["line 21"] * HEIGHT)
    assert not window.refresh(), "nothing is new"


def test_a_replaced_log_is_shown_from_its_end_and_said_so(tmp_path: Path) -> None:
    path = tmp_path / "log"
    window = window_on(path, [f"line {n}" for n in range(200)])
    window.want(Wanted(PLAIN, "line"))
    while window.count_on(1):
        pass
    window.home()
    window.find()
    path.write_text("fresh\n")
    window.refresh()
    page = window.page()
    assert texts(page) == ["fresh"]
    assert (page.follow, page.current, page.matches) == (True, None, 0)
    assert "log was replaced or cut short" in page.note
    path.unlink()
    window.refresh()
    assert window.page().entries == ()
    window.refresh()
    assert "there is no log" in window.page().problem
    path.write_text("back\n")
    window.refresh()
    assert texts(window.page()) == ["back"]


def test_matches_are_counted_in_the_part_that_grows_too(tmp_path: Path) -> None:
    path = tmp_path / "log"
    window = window_on(path, ["needle"] + ["hay"] * 100)
    window.want(Wanted(PLAIN, "NEEDLE"))
    while window.count_on(3):
        pass
    assert window.page().matches == 1
    grown(path, window, "a needle\nhay\nanother Needle\n")
    while window.count_on(3):
        pass
    assert window.page().matches == 3
    window.find()
    assert (window.page().number, window.note) == (3, "")
    window.next(1)
    assert (window.page().number, window.page().note) == (1, "from the top again")
    window.next(-1)
    assert (window.page().number, window.page().note) == (3, "from the end again")


def test_before_all_is_counted_the_numbers_say_so(tmp_path: Path) -> None:
    window = window_on(tmp_path / "log", ["needle"] * 400)
    window.want(Wanted(PLAIN, "needle"))
    window.find()
    page = window.page()
    assert (page.number, page.matches, page.counted) == (None, 0, 0.0)
    window.home()
    window.next(-1)
    window.count_on(5)
    page = window.page()
    assert 0 < page.counted < 1
    assert 0 < page.matches < 400
    while window.count_on(100):
        pass
    assert (window.page().matches, window.page().number) == (400, 399)


def test_a_search_through_a_large_file_can_be_ended_between_two_blocks(tmp_path: Path) -> None:
    window = window_on(tmp_path / "log", ["hay"] * 2000)
    window.want(Wanted(PLAIN, "needle"))
    before = window.page()
    shares: list[float] = []

    def busy(share: float) -> None:
        shares.append(share)
        if len(shares) == 3:
            raise SupersededError

    window.busy = busy
    with pytest.raises(SupersededError):
        window.next(1)
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[2] < 0.1
    window.busy = lambda share: None
    assert window.page() == before, "a search that was cut off leaves everything as it was"


RUBBISH: list[Callable[[], bytes]] = [
    lambda: b"",
    lambda: b"\n",
    lambda: b"\n" * 5000,
    lambda: bytes(40_000),
    lambda: b"x" * 40_000,
    lambda: os.urandom(40_000),
    lambda: b"\xff" * 3000 + b"\r\n" * 3000,
    lambda: b"\x1b[2J\x1b]0;x\x07[/bold]" * 2000,
]


@pytest.mark.parametrize("make", RUBBISH)
def test_rubbish_is_only_read(tmp_path: Path, make: Callable[[], bytes]) -> None:
    path = tmp_path / "log"
    path.write_bytes(make())
    window = LogWindow(LineFile(path), LogReading())
    window.height = 40
    window.refresh()
    for level in (PLAIN, WARNING, ERROR):
        for query in ("", "x", "é", "\x1b"):
            window.want(Wanted(level, query))
            for act in (window.find, lambda: window.next(1), lambda: window.next(-1), window.home, window.end):
                act()
                window.move(-7)
                page = window.page()
                assert len(page.entries) <= 40
                assert sum(len(entry.text) for entry in page.entries) <= 40 * 3 * 4096
            while window.count_on(50):
                pass
    window.file.close()
