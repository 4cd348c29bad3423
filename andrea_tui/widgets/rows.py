"""Drawing by rows of (text, meaning) runs: the base of every live widget.

A live widget computes its rows from the store, and only the cells that differ from the last rows are sent to the
terminal: over ssh the bytes are the cost. Text is never parsed as markup, and control characters never get through.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from andrea_engine.run.plain import clean
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import to_ascii
from andrea_tui.plotting.raster import Kind
from andrea_tui.themes import DARK, style_of

NEWLINE = "\u240a"  # visible, like the other control characters

# Terminals do not agree on what joiners, selectors and skin tones do to a width, nor on the width of flags. Without the
# former, and with letters for the latter, each character has a width of its own.
_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200d\u2028\u2029\u2060-\u2064\ufe00-\ufe0f\ufeff\U0001f3fb-\U0001f3ff\U000e0000-\U000e01ef]"
)
_FLAG_LETTERS = {0x1F1E6 + i: chr(ord("A") + i) for i in range(26)}
LONGEST = 1000  # characters of a run that are looked at: more never fit into a row, and measuring them takes time

Run = tuple[str, str]
Row = list[Run]


@lru_cache(4096)  # frames, labels and most lines are the same in every frame
def visible(text: str) -> str:
    """Text that a terminal shows, never obeys, and is as wide as we measure."""
    return clean(text) if text.isascii() else _INVISIBLE.sub("", clean(text)).translate(_FLAG_LETTERS)


@lru_cache(4096)
def _in_one_line(text: str) -> str:
    return visible(text).replace("\n", NEWLINE)


def fit(row: Iterable[Run], width: int) -> Row:
    """The row cut or filled up to exactly `width` cells; a wide character is never cut in two."""
    fitted: Row = []
    left = width
    for text, meaning in row:
        if left <= 0:
            break
        cells = cell_len(text)
        fitted.append((text if cells <= left else cut(text, left), meaning))
        left -= cells
    if left > 0:
        fitted.append((" " * left, ""))
    return fitted


def cut(text: str, width: int) -> str:
    """The beginning of a text in exactly `width` cells, filled up where a wide character does not fit."""
    short = set_cell_size(text, width)
    while cell_len(short) > width:
        short = short[:-1]
    return short + " " * (width - cell_len(short))


def shortened(row: Row, width: int) -> Row:
    """The row as far as it fits: facts that do not fit whole are left out from the end, each of which begins with two
    spaces. Where not even the first one fits, it ends in an ellipsis."""
    row = list(row)
    while row_width(row) > width:
        starts = [index for index, (text, _) in enumerate(row) if index and text.startswith("  ")]
        if not starts:
            return [*fit(row, width - 1), ("…", row[-1][1])] if width > 0 else []
        del row[starts[-1] :]
    return row


def row_width(row: Iterable[Run]) -> int:
    """Terminal cells of a row."""
    return sum(cell_len(text) for text, _ in row)


def spread(left: Row, right: Row, width: int) -> Row:
    """`left` at the left, `right` at the right edge; where both do not fit, the left part is cut."""
    room = width - row_width(right)
    if room < 0:
        return fit(right, width)
    return [*fit(left, room), *right]


class RowsWidget(Widget):
    """A widget of rows. Subclasses implement `build(store, width, height)`; `update_from` redraws what differs."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self.store: Store | None = None
        self._rows: list[Row] = []
        self._built_for: tuple[int, int] = (0, 0)

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        """The rows of this widget: at most `height`, of any width (they are fitted)."""
        raise NotImplementedError

    def unread(self, width: int, height: int) -> list[Row]:
        """The rows until the first look at the run is drawn."""
        return []

    @property
    def kind(self) -> Kind:
        """How curves are drawn: braille, block or ascii."""
        kind: Kind = getattr(self.app, "plot_kind", "braille")
        return kind

    def update_from(self, store: Store) -> None:
        """Rebuild the rows and repaint the cells that changed."""
        self.store = store
        width, height = self.size
        if not self.is_attached or width <= 0 or height <= 0:
            return
        before, built_for = self._rows, self._built_for
        self._rebuild(width, height)
        if built_for != self._built_for:
            self.refresh()
            return
        for y, (old, new) in enumerate(zip(before, self._rows, strict=True)):
            if old != new:
                start, end = _difference(old, new, width)
                self.refresh(Region(start, y, end - start, 1))

    def plain(self, row: Row) -> Row:
        """The row as it may be measured and shown: one line, nothing that a terminal obeys, ASCII where asked for."""
        return self._plain([row])[0]

    def _plain(self, rows: list[Row]) -> list[Row]:
        shown = [[(_in_one_line(text[:LONGEST]), meaning) for text, meaning in row] for row in rows]
        if self.kind == "ascii":
            shown = [[(to_ascii(text), meaning) for text, meaning in row] for row in shown]
        return shown

    def lay_out(self, store: Store, width: int, height: int) -> list[Row]:
        """`height` rows of exactly `width` cells."""
        return self._fitted(self.build(store, width, height), width, height)

    def _fitted(self, rows: list[Row], width: int, height: int) -> list[Row]:
        fitted = [fit(row, width) for row in self._plain(rows[:height])]
        return fitted + [[(" " * width, "")]] * (height - len(fitted))

    def _rebuild(self, width: int, height: int) -> None:
        if self.store is None:
            self._rows = self._fitted(self.unread(width, height), width, height)
        else:
            self._rows = self.lay_out(self.store, width, height)
        self._built_for = (width, height)

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        if self._built_for != (width, height):
            self._rebuild(width, height)
        if y >= len(self._rows):
            return Strip.blank(width)
        theme = self.app.current_theme if self.app.current_theme is not None else DARK
        return Strip([Segment(text, style_of(theme, meaning)) for text, meaning in self._rows[y]], width)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._built_for = (0, 0)


def _difference(old: Row, new: Row, width: int) -> tuple[int, int]:
    """Cells [start, end) outside of which both rows are equal."""
    first = next((i for i, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), 0)
    while first and not (_begins_a_glyph(old, first) and _begins_a_glyph(new, first)):
        first -= 1
    begun = row_width(old[:first])
    before, after = _glyphs(old[first:]), _glyphs(new[first:])
    start = begun + _same_cells(before, after)
    end = width - _same_cells(before[::-1], after[::-1])
    return (start, end) if start < end else (0, width)


def _begins_a_glyph(row: Row, index: int) -> bool:
    """False where a run may begin with a mark on the last character of a run before, as one that is empty may."""
    return index >= len(row) or (row[index][0] != "" and row[index][0][0].isascii())


def _glyphs(row: Row) -> list[tuple[str, str]]:
    """The characters of a row, each with the marks on it, and their meanings."""
    glyphs: list[tuple[str, str]] = []
    for text, meaning in row:
        for char in text:
            if glyphs and not char.isascii() and not cell_len(char):
                glyphs[-1] = (glyphs[-1][0] + char, glyphs[-1][1])
            else:
                glyphs.append((char, meaning))
    return glyphs


def _same_cells(before: list[tuple[str, str]], after: list[tuple[str, str]]) -> int:
    """Width of what both begin with."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    return sum(cell_len(glyph) for (glyph, _), _ in same)
