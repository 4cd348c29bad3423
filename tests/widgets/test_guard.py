"""Filters of everything that goes to the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from andrea_tui.guard import AsciiOnly, Colourless, ascii_cells

BLACK = Color(0, 0, 0)


@given(st.text())
def test_ascii_is_as_wide_as_what_it_stands_for(text: str) -> None:
    plain = ascii_cells(text)
    assert plain.isascii()
    assert text.isascii() or cell_len(plain) == sum(cell_len(char) for char in text)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("╭─ Stop? ─╮", "+- Stop? -+"),
        ("│ 1…2 │", "| 1.2 |"),
        ("▊█▁", "|#-"),
        ("가나", "? ? "),
        ("plain", "plain"),
    ],
)
def test_frames_and_letters(text: str, plain: str) -> None:
    assert ascii_cells(text) == plain


def test_only_what_has_to_change_changes() -> None:
    line = [Segment("plain", Style(bold=True)), Segment("x")]
    assert AsciiOnly().apply(line, BLACK) is line
    assert [s.text for s in AsciiOnly().apply([Segment("─"), Segment("x")], BLACK)] == ["-", "x"]


@pytest.mark.parametrize(
    ("style", "left"),
    [
        ("bold #ff0000 on default", {"1"}),
        ("dim green", {"2"}),
        ("red on blue", {"7"}),
        ("reverse #abcdef", {"7"}),
        ("reverse white on blue", {"7"}),
        ("white on #101419", set()),
        ("underline", {"4"}),
        ("none", set()),
    ],
)
def test_no_colour_is_left_and_grounds_are_reversed(style: str, left: set[str]) -> None:
    (segment,) = Colourless().apply([Segment("x", Style.parse(style))], BLACK)
    assert segment.style is not None
    sent = segment.style.render("x", color_system=ColorSystem.TRUECOLOR)
    codes = set(sent.partition("m")[0].removeprefix("\x1b[").split(";")) - {"x"}
    assert codes == left
