"""Only cells that changed are sent, and what is sent makes the screen what it should be."""

from __future__ import annotations

import pyte
import pytest
from rich.console import Console
from rich.segment import Segment
from textual.strip import Strip

from andrea_tui.sparing import SparingUpdate

CONSOLE = Console(force_terminal=True, width=30, height=3)
OLD = ["abcdefghij", "0123456789"]
NEW = ["ABCDEFGHIJ", "+-*/=!?()&"]


def strips(line: str) -> dict[int, Strip | None]:
    """A line of two widgets, side by side at column 4; the left one of two segments."""
    return {0: Strip([Segment(line[:1]), Segment(line[1:4])]), 4: Strip([Segment(line[4:])])}


def sent(spans: list[tuple[int, int, int]], lines: list[str] = NEW) -> str:
    return SparingUpdate([strips(line) for line in lines], spans, [[4, 10]] * len(lines)).render_segments(CONSOLE)


@pytest.mark.parametrize(("first", "last"), [(a, b) for a in range(10) for b in range(a + 1, 11)])
def test_the_span_is_repainted_and_nothing_else(first: int, last: int) -> None:
    screen = pyte.Screen(30, 3)
    stream = pyte.Stream(screen)
    stream.feed("\r\n".join(OLD))
    text = sent([(1, first, last)])
    stream.feed(text)
    assert screen.display[0].rstrip() == OLD[0]
    assert screen.display[1].rstrip() == OLD[1][:first] + NEW[1][first:last] + OLD[1][last:]
    assert sum(char in NEW[1] for char in text.replace("\x1b[", "")) >= last - first
    assert len(text) <= (last - first) + 2 * len("\x1b[2;10H")


def test_several_spans() -> None:
    screen = pyte.Screen(30, 3)
    stream = pyte.Stream(screen)
    stream.feed("\r\n".join(OLD))
    stream.feed(sent([(0, 0, 1), (0, 8, 10), (1, 3, 6)]))
    assert [line.rstrip() for line in screen.display[:2]] == ["AbcdefghIJ", "012/=!6789"]


def test_a_wide_character_is_sent_whole() -> None:
    line = {0: Strip([Segment("a가b")])}
    text = SparingUpdate([line], [(0, 1, 3)], [[4]]).render_segments(CONSOLE)
    assert text == "\x1b[1;2H가"


def test_a_place_that_nobody_draws() -> None:
    assert SparingUpdate([{0: None}], [(0, 0, 4)], [[4]]).render_segments(CONSOLE) == ""
