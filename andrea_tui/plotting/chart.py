"""A whole chart as text: axes, dim raw band, bright line, marks, labels. A pure function of its spec and size.

Styles that occur, besides those of curves and marks: 'axis', 'label' (tick labels), 'grid' (the dotted line below a
mark), 'nan' (non-finite and unplottable points), 'clip' (curve beyond the y-range), 'extreme' (label of an outlier),
'cursor', 'message', and '' for empty cells. The widget maps them to theme colours.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .axes import draw_x_axis, draw_y_axis
from .format import compact_number
from .grid import CellGrid
from .raster import Kind, Layer, Raster, dots_per_cell
from .scales import ColumnStats, Scale, nice_bounds, robust_range
from .spec import Chart, ChartSpec, ColumnSource, Curve, Layout, Mark, layout, plot_columns

__all__ = [
    "Chart",
    "ChartSpec",
    "ColumnSource",
    "Curve",
    "Layout",
    "Mark",
    "layout",
    "plot_columns",
    "render_chart",
]


def render_chart(spec: ChartSpec, width: int, height: int, kind: Kind = "braille") -> Chart:
    """Draw `spec` into `width` x `height` cells; any size from 0 x 0 on and any data are legal."""
    return _Drawing(spec, width, height, kind).chart()


def _y_scale(spec: ChartSpec, x: Scale, columns: list[ColumnStats]) -> Scale:
    lo, hi = spec.y_lo, spec.y_hi
    if lo is None or hi is None:
        ranges = []
        for curve, found in zip(spec.curves, columns, strict=True):
            x_min = curve.source.x_min
            warm_up = 0.01 if x_min is not None and x_min >= x.lo else 0.0
            ranges += [r for r in [robust_range(found, skip=warm_up)] if r]
        if ranges:
            low, high = nice_bounds(min(r[0] for r in ranges), max(r[1] for r in ranges), log=spec.log)
        else:
            low, high = (0.1, 1.0) if spec.log else (0.0, 1.0)
        lo = low if lo is None else lo
        hi = high if hi is None else hi
    return Scale(lo, hi, spec.log)


class _Drawing:
    """The state of one rendering."""

    def __init__(self, spec: ChartSpec, width: int, height: int, kind: Kind) -> None:
        self.spec = spec
        self.place = layout(width, height, spec.label_width)
        self.grid = CellGrid(width, height, ascii_only=kind == "ascii")
        self.raster = Raster(self.place.width, self.place.height, kind, halo=spec.halo)
        self.x = Scale(spec.x_lo, spec.x_hi)
        n = self.raster.columns
        self.columns = [c.source.columns(self.x.lo, self.x.hi, n, positive=spec.log) for c in spec.curves]
        self.y = _y_scale(spec, self.x, self.columns)
        self.nonfinite = [0] * n
        self.unplottable = [0] * n
        self.crossed: set[int] = set()  # cell columns with a cross on the top row
        self.ends: list[tuple[Curve, int, int]] = []  # curves with a label: dot column and dot row of their last point
        self.clipped_high = self.clipped_low = False

    def chart(self) -> Chart:
        place, grid = self.place, self.grid
        if place.width and place.height:
            for curve, columns in zip(self.spec.curves, self.columns, strict=True):
                self._curve(curve, columns)
            self.raster.compose(grid, 0, place.left, blank=self.spec.blank)
            if not any(any(layer.cells) for layer in self.raster.layers):
                self._message()
            self._cursor()
            self._bad_points()
            self._marks()
            self._outliers()
            self._curve_labels()
        draw_y_axis(grid, place, self.y, dots_per_cell(self.raster.kind)[1])
        draw_x_axis(grid, place, self.x, self.spec)
        return Chart(
            grid.rows(),
            place,
            self.x.lo,
            self.x.hi,
            self.y.lo,
            self.y.hi,
            sum(self.nonfinite),
            sum(self.unplottable),
            self.clipped_high or self.clipped_low,
        )

    def _curve(self, curve: Curve, columns: ColumnStats) -> None:
        raster = self.raster
        layer = raster.layer(curve.style, soft=curve.band)
        edge = Layer(raster.width, raster.height, raster.kind, "clip")
        rows = raster.rows_of_dots
        row_of = self.y.row_of(rows)
        span, line, isnan = layer.span, layer.line, math.isnan
        reach = self._reach(curve) if curve.join else 0.0
        before, before_row = -1, 0  # the column and row to join from; column -1: nothing to join
        before_top = before_bottom = 0
        for column, (lo, hi, first, last) in enumerate(
            zip(columns.lo, columns.hi, columns.first, columns.last, strict=True)
        ):
            if isnan(first):  # no finite value: a gap if there are others, else just no point here
                if columns.nonfinite[column]:
                    before = -1
                continue
            top, bottom, start, end = row_of(hi), row_of(lo), row_of(first), row_of(last)
            if top is not None and bottom is not None:
                span(column, top, bottom)
                if bottom < 0:
                    edge.dot(column, 0)
                elif top >= rows:
                    edge.dot(column, rows - 1)
                if curve.report:
                    self.clipped_high = self.clipped_high or top < 0
                    self.clipped_low = self.clipped_low or bottom >= rows
                touching = column - before == 1 and top <= before_bottom + 1 and bottom >= before_top - 1
                if start is not None and before >= 0 and column - before <= reach and not touching:
                    line(before, before_row, column, start)
                before_top, before_bottom = top, bottom
            before, before_row = (column, end) if end is not None else (-1, 0)
        self._named(curve, layer, columns, row_of)
        if curve.report:
            self.nonfinite = [a + b for a, b in zip(self.nonfinite, columns.nonfinite, strict=True)]
            if self.spec.log:
                self.unplottable = [a + b for a, b in zip(self.unplottable, columns.nonpositive, strict=True)]
            if any(edge.cells):
                raster.layers.append(edge)

    def _named(self, curve: Curve, layer: Layer, columns: ColumnStats, row_of: Callable[[float], int | None]) -> None:
        """What tells a curve from others without colour: its dashes, and where its label may stand."""
        if curve.dashed:  # anchored to x, so that the dashes move with the data
            layer.dash(round(self.x.lo / (self.x.hi - self.x.lo) * self.place.width))
        if curve.label:
            ends = [(column, row) for column, value in enumerate(columns.last) if (row := row_of(value)) is not None]
            self.ends += [(curve, *ends[-1])] if ends else []

    def _reach(self, curve: Curve) -> float:
        """How many columns apart two points may lie to be joined."""
        width = (self.x.hi - self.x.lo) / self.raster.columns
        return curve.max_gap / width + 1.0

    def _message(self) -> None:
        text, width = self.spec.message, self.place.width
        if len(text) > width:
            text = text[: max(0, width - 1)].rstrip() + "…"
        self.grid.put(
            (self.place.height - 1) // 2, self.place.left + (self.place.width - len(text)) // 2, text, "message"
        )

    def _cursor(self) -> None:
        col = None if self.spec.cursor is None else self.place.column(self.x, self.spec.cursor)
        if col is not None:
            for row in range(self.place.height):
                if self.grid.blank(row, col):
                    self.grid.put(row, col, "│", "cursor")
                else:
                    self.grid.restyle(row, col, "cursor")

    def _marks(self) -> None:
        chosen: dict[int, Mark] = {}
        for mark in self.spec.marks:
            col = self.place.column(self.x, mark.x)
            if col is not None and (col not in chosen or mark.priority >= chosen[col].priority):
                chosen[col] = mark
        crowded = len(chosen) > max(self.place.width // 6, 1)
        for col, mark in chosen.items():
            if not crowded or mark.priority > 0:
                for row in range(1, self.place.height):
                    if self.grid.blank(row, col):
                        self.grid.put(row, col, "┆", "grid")
            self.grid.put(1 if col in self.crossed else 0, col, mark.label[:1], mark.style)

    def _bad_points(self) -> None:
        """Crosses on the top row for non-finite points, pointers on the bottom row for values a log scale lacks."""
        per_cell = dots_per_cell(self.raster.kind)[0]
        bottom = self.place.height - 1
        for row, sign, counts in ((bottom, "▾", self.unplottable), (0, "×", self.nonfinite)):
            for column, count in enumerate(counts):
                if count:
                    col = self.place.left + column // per_cell
                    self.grid.put(row, col, sign, "nan")
                    if row == 0:
                        self.crossed.add(col)

    def _outliers(self) -> None:
        """Name the greatest and least value in view where the y-range cuts it off or it stands far out."""
        spec, x, y = self.spec, self.x, self.y
        sources = [curve.source for curve in spec.curves if curve.report]
        if self.clipped_high or self._stands_out():
            peaks = [p for source in sources if (p := source.peak(x.lo, x.hi)) and y.plottable(p[1])]
            if peaks:
                self._label(max(peaks, key=lambda p: p[1]), top=True)
        if self.clipped_low and not spec.log:
            troughs = [p for source in sources if (p := source.trough(x.lo, x.hi))]
            if troughs:
                self._label(min(troughs, key=lambda p: p[1]), top=False)

    def _curve_labels(self) -> None:
        """Names of curves in empty cells near their last points; where there is no room, none."""
        across, down = dots_per_cell(self.raster.kind)
        for curve, column, dot in self.ends:
            text = f" {curve.label} "
            row, col = max(0, min(dot // down, self.place.height - 1)), self.place.left + column // across
            places = [
                (line, start)
                for line in (row - 1, row + 1, row, row - 2, row + 2)
                for start in (col + 1, col + 1 - len(text), col - len(text))
                if start >= self.place.left and line < self.place.height and self.grid.blank(line, start, len(text))
            ]
            if places:
                self.grid.put(*places[0], text, curve.style)

    def _stands_out(self) -> bool:
        for curve, columns in zip(self.spec.curves, self.columns, strict=True):
            highs = sorted(hi for hi in columns.hi if hi > -math.inf) if curve.report else []
            if len(highs) >= 20:
                usual = highs[-1 - len(highs) // 20]
                if highs[-1] - usual > 2 * (usual - min(columns.lo)):
                    return True
        return False

    def _label(self, point: tuple[float, float], *, top: bool) -> None:
        col = self.place.column(self.x, point[0])
        if col is None:
            return
        text = f"{compact_number(point[1])} at {self.spec.x_text(point[0])}"
        height, size = self.place.height, len(text)
        rows = range(min(3, height)) if top else range(height - 1, max(height - 4, -1), -1)
        for row in rows:
            for start in (col + 2, col + 1, col - size - 1, col - size):
                if start >= self.place.left and self.grid.blank(row, start, size):
                    self.grid.put(row, start, text, "extreme")
                    return
        start = col + 1 if col + 1 + size <= self.grid.width else max(col - size, self.place.left)
        self.grid.put(rows[0], start, text, "extreme")
