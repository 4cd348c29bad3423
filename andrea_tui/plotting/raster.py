"""Dots smaller than a cell: braille (2 x 4 dots), half blocks (1 x 2) or ASCII (1 x 2) behind one interface.

A `Layer` holds one byte of dots per cell. Layers are stacked in the order in which they are made; a cell takes the
style of the topmost layer that has dots there. In braille it shows the dots of all layers, unless a halo is asked for;
where a cell has only two dots that would hide the upper layer's shape, so there the topmost one stands alone.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Literal

import msgspec

from .grid import CellGrid, Run

Kind = Literal["braille", "block", "ascii"]

_NOT_ZERO = bytes([0]) + bytes([255]) * 255
_SOFT = bytes([0]) + bytes(code | 4 for code in range(1, 256))


class _Dots(msgspec.Struct, frozen=True):
    """The dot pattern of one cell: `bits[column][row]` and a glyph for each combination."""

    bits: tuple[tuple[int, ...], ...]
    glyphs: str
    merge: bool  # whether layers show through each other

    def spans(self) -> list[list[list[int]]]:
        """Mask of the dots from row a to row b in a column, as [column][a][b]."""
        size = len(self.bits[0])
        return [[[sum(bits[a : b + 1]) for b in range(size)] for a in range(size)] for bits in self.bits]


_KINDS: dict[Kind, _Dots] = {
    "braille": _Dots(
        ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80)),
        " " + "".join(chr(0x2800 + code) for code in range(1, 256)),
        merge=True,
    ),
    "block": _Dots(((1, 2),), " ▀▄█", merge=False),
    # The second half of the table is the soft ink of bands, which must differ from a line without any colour.
    "ascii": _Dots(((1, 2),), " \"_# '.:", merge=False),
}
_SPANS = {kind: dots.spans() for kind, dots in _KINDS.items()}
_SIZES = {kind: (len(dots.bits), len(dots.bits[0])) for kind, dots in _KINDS.items()}


def dots_per_cell(kind: Kind) -> tuple[int, int]:
    """(columns, rows) of dots in one cell."""
    return _SIZES[kind]


class Layer:
    """Dots in one style, addressed by dot column and dot row from the top left. Dots outside are left out."""

    __slots__ = ("_cell_rows", "_columns", "_rows", "_spans", "_width", "cells", "soft", "style")

    def __init__(self, width: int, height: int, kind: Kind, style: str, *, soft: bool = False) -> None:
        columns, self._cell_rows = _SIZES[kind]
        self._columns = width * columns
        self._rows = height * self._cell_rows
        self._width = width
        self._spans = _SPANS[kind]
        self.cells = bytearray(width * height)
        self.style = style
        self.soft = soft

    def dot(self, column: int, row: int) -> None:
        self.span(column, row, row)

    def span(self, column: int, top: int, bottom: int) -> None:
        """All dots from `top` to `bottom` (in either order) of one dot column."""
        if top > bottom:
            top, bottom = bottom, top
        top = max(top, 0)
        bottom = min(bottom, self._rows - 1)
        if top > bottom or not 0 <= column < self._columns:
            return
        cells, size = self.cells, self._cell_rows
        columns = len(self._spans)
        masks = self._spans[column % columns]
        first, a = divmod(top, size)
        last, b = divmod(bottom, size)
        at = first * self._width + column // columns
        if first == last:
            cells[at] |= masks[a][b]
            return
        cells[at] |= masks[a][-1]
        full = masks[0][-1]
        for _ in range(last - first - 1):
            at += self._width
            cells[at] |= full
        cells[at + self._width] |= masks[0][b]

    def dash(self, phase: int) -> None:
        """Clear every other cell column, those where column + `phase` is odd; not where nothing would be left."""
        kept = bytearray(self.cells)
        for column in range(1 - phase % 2, self._width, 2):
            kept[column :: self._width] = bytes(len(range(column, len(kept), self._width)))
        if any(kept):
            self.cells = kept

    def line(self, column0: int, row0: int, column1: int, row1: int) -> None:
        """A connected line from left to right (column0 <= column1), one run of dots a column."""
        if column0 >= column1:
            self.span(column0, row0, row1)
            return
        self.span(column0, row0, row0)
        self.span(column1, row1, row1)
        slope = (row1 - row0) / (column1 - column0)
        least, greatest = min(row0, row1), max(row0, row1)
        start = max(column0, 0)
        entry = row0 + slope * (start - column0 - 0.5)
        for column in range(start, min(column1, self._columns - 1) + 1):
            leave = row0 + slope * (column - column0 + 0.5)
            # Half-open in the direction of travel, so that no row is drawn in two columns.
            top, bottom = (ceil(entry), ceil(leave) - 1) if slope >= 0 else (floor(leave) + 1, floor(entry))
            if top > bottom:
                top = bottom = floor((entry + leave + 1) / 2)
            self.span(column, max(top, least), min(bottom, greatest))
            entry = leave


class Raster:
    """A stack of layers of `width` x `height` cells. Size zero is legal and yields nothing.

    With `halo` a layer clears the dots below it in the cells it touches: a line keeps its shape inside a solid band
    without the help of colour.
    """

    __slots__ = ("columns", "halo", "height", "kind", "layers", "rows_of_dots", "width")

    def __init__(self, width: int, height: int, kind: Kind = "braille", *, halo: bool = False) -> None:
        self.width = max(width, 0)
        self.height = max(height, 0)
        self.kind: Kind = kind
        self.halo = halo or not _KINDS[kind].merge
        columns, rows = _SIZES[kind]
        self.columns = self.width * columns
        self.rows_of_dots = self.height * rows
        self.layers: list[Layer] = []

    def layer(self, style: str, *, soft: bool = False) -> Layer:
        """A new layer above the others. `soft` asks for lighter glyphs where a kind has them (ASCII)."""
        layer = Layer(self.width, self.height, self.kind, style, soft=soft)
        self.layers.append(layer)
        return layer

    def compose(self, grid: CellGrid, row: int = 0, col: int = 0, *, blank: str = " ") -> None:
        """Write all layers into `grid`, whose cells from (row, col) on must hold the whole raster.

        `blank` stands in empty cells (U+2800 keeps braille aligned in pictures).
        """
        size = self.width * self.height
        if not size:
            return
        # Whole layers as big integers: a few operations in C instead of a loop over cells.
        dots = styles = 0
        for layer in self.layers:
            soft = self.kind == "ascii" and layer.soft
            cells = int.from_bytes(layer.cells.translate(_SOFT) if soft else layer.cells, "big")
            drawn = int.from_bytes(layer.cells.translate(_NOT_ZERO), "big")
            dots = (dots & ~drawn if self.halo else dots) | cells
            name = int.from_bytes(bytes([grid.style_id(layer.style)]) * size, "big")
            styles = (styles & ~drawn) | (name & drawn)
        glyphs = (" " if grid.ascii_only else blank) + _KINDS[self.kind].glyphs[1:]
        text = [glyphs[code] for code in dots.to_bytes(size, "big")]
        plane = styles.to_bytes(size, "big")
        width = self.width
        for line in range(self.height):
            part = slice(line * width, (line + 1) * width)
            grid.chars[row + line][col : col + width] = text[part]
            grid.styles[row + line][col : col + width] = plane[part]

    def rows(self, *, blank: str = " ") -> list[list[Run]]:
        """The raster alone as rows of (text, style) runs."""
        grid = CellGrid(self.width, self.height, ascii_only=self.kind == "ascii")
        self.compose(grid, blank=blank)
        return grid.rows()
