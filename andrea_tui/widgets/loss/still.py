"""A chart that is drawn again only when a dot of it has changed.

With a long record a column holds hundreds of steps, and most new ones lie within what it shows already: drawing is the
largest part of what an open console costs, and nearly all of it would give the same picture.
"""

from __future__ import annotations

import math

from andrea_tui.feed.memo import Remembered
from andrea_tui.feed.pyramid import Columns, Series
from andrea_tui.plotting.chart import ChartSpec, layout, plot_columns, render_chart
from andrea_tui.plotting.grid import Run
from andrea_tui.plotting.raster import Kind, dots_per_cell
from andrea_tui.plotting.scales import Scale

FEW = 2  # points that are compared one by one


class StillChart:
    """The last drawing of one chart, and what it was drawn from. `drawings` counts them."""

    def __init__(self) -> None:
        self.drawings = 0
        self._key: object = None
        self._rows: list[list[Run]] = []

    def rows(self, spec: ChartSpec, width: int, height: int, kind: Kind) -> list[list[Run]]:
        """As `render_chart(spec, width, height, kind).rows`, which the caller may change."""
        key = _key(spec, width, height, kind)
        if key is None or key != self._key:
            self._key = key
            self._rows = render_chart(spec, width, height, kind).rows
            self.drawings += 1
        return [list(row) for row in self._rows]


def _key(spec: ChartSpec, width: int, height: int, kind: Kind) -> object | None:
    """Charts with equal keys are equal; None where that cannot be told cheaply."""
    plot, count = layout(width, height, spec.label_width), plot_columns(width, height, kind, spec.label_width)
    if spec.y_lo is None or spec.y_hi is None or not count or not plot.height:
        return None
    row_of = Scale(spec.y_lo, spec.y_hi, spec.log).row_of(plot.height * dots_per_cell(kind)[1])
    curves: list[object] = []
    for curve in spec.curves:
        curves.append((curve.style, curve.band, curve.join, curve.max_gap, curve.report, curve.dashed, curve.label))
        source = curve.source
        if isinstance(source, Series):  # few points; a level line is a new one in each frame
            few = len(source) <= FEW
            curves.append(_points(source) if few else (source.values, source.version, source.x_max))
            continue
        if not isinstance(source, Remembered):
            return None
        columns = source.columns(spec.x_lo, spec.x_hi, count, positive=spec.log)
        newest = _newest(columns)
        dots = (row_of(columns.lo[newest]), row_of(columns.hi[newest]), row_of(columns.first[newest]))
        bad = (columns.nonfinite[newest], columns.nonpositive[newest])
        curves.append((source.identity, newest, dots, bad, source.x_min))
        if curve.report:
            curves.append((*_extremes(columns), source.peak(spec.x_lo, spec.x_hi), source.trough(spec.x_lo, spec.x_hi)))
        if curve.label:
            curves.append(row_of(columns.last[newest]))
    around = (spec.x_lo, spec.x_hi, spec.y_lo, spec.y_hi, spec.log, tuple(spec.marks), spec.cursor, spec.message)
    looks = (spec.x_unit, spec.x_ticks, spec.x_end, spec.x_text, spec.label_width, spec.halo, spec.blank)
    return width, height, kind, around, looks, curves


def _points(series: Series) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(series.xs[: len(series)]), tuple(series.values.values)


def _newest(columns: Columns) -> int:
    """Index of the last column that has points; 0 when none has."""
    return next((index for index in range(len(columns) - 1, 0, -1) if columns.count[index]), 0)


def _extremes(columns: Columns) -> tuple[float, ...]:
    """What decides whether an outlier is named: see `chart`."""
    highs = sorted(high for high in columns.hi if high > -math.inf)
    return (highs[-1 - len(highs) // 20], highs[-1], min(columns.lo)) if highs else ()
