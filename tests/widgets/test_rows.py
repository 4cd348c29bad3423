"""Rows: exact widths whatever the text, nothing that a terminal obeys, and repaints that miss no cell."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from andrea_tui.feed.store import Store
from andrea_tui.plotting.raster import Kind
from andrea_tui.widgets.rows import NEWLINE, Row, RowsWidget, _difference, fit, row_width, spread, visible
from andrea_tui.widgets.wrapping import SHOWN_CHARACTERS, SHOWN_LINES, wrapped
from tests.widgets.stores import HOSTILE

PIECES = st.sampled_from(
    [
        "a",
        "the ",
        "long" * 12,
        "가",
        "日本",
        "👨\u200d👩\u200d👧",
        "🇩🇪",
        "☺\ufe0f",
        "e\u0301",
        "\u0301",
        "\u200d",
        "①",
        "\u3000",
        "…",
    ]
)
TEXT = st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=8).map("".join)
RUNS = st.lists(st.tuples(TEXT, st.sampled_from(["", "dim", "bad"])), max_size=6)
WIDTHS = st.integers(0, 60)


class Plain(RowsWidget):
    """Shows given rows; no app is needed to lay them out."""

    def __init__(self, rows: list[Row], kind: Kind = "braille") -> None:
        super().__init__()
        self._given = rows
        self._kind: Kind = kind

    @property
    def kind(self) -> Kind:
        return self._kind

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        return self._given


def harmless(text: str) -> bool:
    """No C0 or C1 control, no bidi control, no line separator of the controls, nothing that cannot be encoded."""
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    marks = "\u200e\u200f\u061c"
    return not any(
        unicodedata.category(c) in ("Cc", "Cs") or unicodedata.bidirectional(c) in bidi or c in marks for c in text
    )


def text_of(row: Row) -> str:
    return "".join(text for text, _ in row)


@settings(deadline=None)
@given(RUNS, WIDTHS)
def test_fit_is_exactly_as_wide_as_asked(row: Row, width: int) -> None:
    fitted = fit(row, width)
    assert row_width(fitted) == width
    if row_width(row) < width:
        assert text_of(fitted).startswith(text_of(row))


@settings(deadline=None)
@given(RUNS, RUNS, WIDTHS)
def test_spread_is_exactly_as_wide_as_asked(left: Row, right: Row, width: int) -> None:
    spreaded = spread(left, right, width)
    assert row_width(spreaded) == width
    if row_width(left) + row_width(right) < width:
        assert text_of(spreaded).startswith(text_of(left))
        assert text_of(spreaded).endswith(text_of(right))


@settings(deadline=None)
@given(st.one_of(TEXT, st.text(st.characters()), st.just(HOSTILE)), WIDTHS, st.sampled_from(["braille", "ascii"]))
@example(HOSTILE, 30, "ascii")
@example("a\nb\x1bc", 30, "braille")
def test_a_laid_out_row_holds_nothing_that_a_terminal_obeys(text: str, width: int, kind: Kind) -> None:
    (row,) = Plain([[(text, ""), (text, "dim")]], kind).lay_out(Store(), width, 1)
    assert row_width(row) == width
    assert harmless(text_of(row))
    assert kind != "ascii" or text_of(row).isascii()


@pytest.mark.parametrize("count", [0, 1, 3, 9])
def test_there_are_as_many_rows_as_asked(count: int) -> None:
    rows = Plain([[("x", "")]] * count).lay_out(Store(), 5, 3)
    assert [text_of(row) for row in rows] == ["x    "] * min(count, 3) + ["     "] * (3 - min(count, 3))


@settings(deadline=None)
@given(TEXT, st.integers(2, 40), st.integers(1, 30))
def test_wrapped_lines_fit(text: str, width: int, most: int) -> None:
    lines = list(wrapped(text, width, most))
    assert len(lines) <= most
    assert all(cell_len(line) <= width for line in lines)
    assert all(harmless(line) for line in lines)


WORDS = st.lists(st.sampled_from(["a", "bee", "flowers", "가나", "nectar," * 5]), min_size=1, max_size=30)


@settings(deadline=None)
@given(WORDS, st.integers(2, 50))
def test_wrapping_loses_no_letter(words: list[str], width: int) -> None:
    lines = list(wrapped(" ".join(words), width, 10_000))
    assert "".join(lines).replace(" ", "") == "".join(words)


@settings(deadline=None)
@given(WORDS, st.integers(35, 60))
def test_words_that_fit_are_not_cut_and_lines_are_filled(words: list[str], width: int) -> None:
    lines = list(wrapped(" ".join(words), width, 10_000))
    assert " ".join(lines).split() == words
    for line, following in pairwise(lines):
        assert cell_len(line) + 1 + cell_len(following.split(" ")[0]) > width


def test_paragraphs_and_empty_lines_stay() -> None:
    assert list(wrapped("> a b\n\n< c", 20, 10)) == ["> a b", "", "< c"]


@pytest.mark.parametrize("text", ["x" * 1_000_000, "\n" * 1_000_000, "a " * 500_000, "\x1b" * 1_000_000])
def test_a_huge_sample_is_capped_before_it_is_worked_on(text: str) -> None:
    lines = list(wrapped(text, 40, 10_000_000))
    assert len(lines) <= SHOWN_CHARACTERS
    assert text.count("\n") == 0 or len(lines) <= SHOWN_LINES
    assert sum(map(len, lines)) <= SHOWN_CHARACTERS


@settings(deadline=None)
@given(RUNS, RUNS, st.integers(1, 40))
def test_repainting_the_difference_turns_the_old_row_into_the_new_one(one: Row, other: Row, width: int) -> None:
    _assert_repaint(fit(one, width), fit(other, width), width)


@settings(deadline=None)
@given(RUNS, RUNS, RUNS, RUNS, st.integers(1, 60))
@example([("a", ""), ("", "")], [], [("\u0301a", "")], [], 2)
def test_with_a_common_beginning_and_end(start: Row, old: Row, new: Row, end: Row, width: int) -> None:
    """The usual case: a number in the middle changed."""
    _assert_repaint(fit([*start, *old, *end], width), fit([*start, *new, *end], width), width)


def _assert_repaint(old: Row, new: Row, width: int) -> None:
    # As `RowsWidget.plain` has them: in one line.
    old, new = ([(visible(text).replace("\n", NEWLINE), meaning) for text, meaning in row] for row in (old, new))
    old, new = fit(old, width), fit(new, width)
    first, last = _difference(old, new, width)
    assert 0 <= first < last <= width
    before, after = _cells(old), _cells(new)
    assert before[:first] + after[first:last] + before[last:] == after


def _cells(row: Row) -> list[tuple[str, str]]:
    """What stands in each cell: a character with the marks on it, which of its cells, and its style, so that no half of
    one is mixed up."""
    cells: list[tuple[str, str]] = []
    for text, meaning in row:
        for char in text:
            if not cell_len(char) and cells:
                cells[-1] = (cells[-1][0] + char, cells[-1][1])
            cells += [(f"{char}@{cell}", meaning) for cell in range(cell_len(char))]
    return cells
