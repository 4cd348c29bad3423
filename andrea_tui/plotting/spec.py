"""What a chart is made from and what comes out: curves, marks, the specification, the layout, the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from .format import human_count, short_count
from .grid import Run
from .raster import Kind, dots_per_cell
from .scales import ColumnStats, Scale
from .ticks import Tick, count_ticks

_MIN_PLOT = 10  # cells; a narrower chart does without the y labels


class ColumnSource(Protocol):
    """What a curve is drawn from; `feed.pyramid.Series` has this shape. See there for the meaning."""

    @property
    def x_min(self) -> float | None: ...
    def columns(self, x0: float, x1: float, n: int, *, positive: bool = False) -> ColumnStats: ...
    def peak(self, x0: float, x1: float) -> tuple[float, float] | None: ...
    def trough(self, x0: float, x1: float) -> tuple[float, float] | None: ...


class Curve(msgspec.Struct, frozen=True):
    """One series. `band` draws it soft where the kind can. `join` connects neighbouring points, over at most
    `max_gap` of x. `report` marks and counts its non-finite and unplottable points and labels its outliers; switch
    it off for derived curves and abandoned branches. `dashed` leaves out every other cell, and `label` is written near
    the curve's end: told from another one without colour."""

    source: ColumnSource
    style: str = "line"
    band: bool = False
    join: bool = True
    max_gap: float = math.inf
    report: bool = True
    dashed: bool = False
    label: str = ""


class Mark(msgspec.Struct, frozen=True):
    """An event at x: a one-character label on the top row and a dotted line through the empty cells below it.

    In one cell the higher priority wins, then the later mark. Where lines would stand too close, only those with a
    priority above 0 keep theirs.
    """

    x: float
    label: str
    style: str = "mark"
    priority: int = 0


class ChartSpec(msgspec.Struct, frozen=True):
    """What to draw. Curves and their styles go from bottom to top. Bounds of y left out are found in the data
    (`robust_range` of all curves, rounded); use `YRange` to keep them still between frames.

    So that finished columns stay as they are while points arrive, take `x_lo` and `x_hi` from
    `feed.pyramid.stable_range(first, last, plot_columns(width, height, kind, label_width))`.
    """

    x_lo: float
    x_hi: float
    curves: Sequence[Curve] = ()
    y_lo: float | None = None
    y_hi: float | None = None
    log: bool = False
    marks: Sequence[Mark] = ()
    cursor: float | None = None
    x_unit: str = "step"
    x_ticks: Callable[[float, float, int], list[Tick]] = count_ticks
    x_end: Callable[[float], str] = short_count  # the right edge's x, in the one-line axis
    x_text: Callable[[float], str] = human_count  # an exact x, in labels
    label_width: int = 5
    message: str = ""  # shown where there is nothing to draw
    halo: bool = False  # the line clears the band around it: readable without colour
    blank: str = " "  # for empty cells of the plot; U+2800 keeps braille aligned in exported pictures


class Layout(msgspec.Struct, frozen=True):
    """Where the plot lies inside the chart, in cells; `axis_rows` (0-2) lie below it."""

    left: int
    width: int
    height: int
    axis_rows: int

    def column(self, x: Scale, value: float) -> int | None:
        """The chart's cell column of an x; None if it lies outside the plot."""
        lo, hi = x.lo, x.hi
        if not lo <= value <= hi or not self.width:
            return None
        return self.left + min(int((value - lo) / (hi - lo) * self.width), self.width - 1)


class Chart(msgspec.Struct, frozen=True):
    """`rows` are exactly as many as asked for, each of exactly the width asked for, as (text, style) runs.

    `nonfinite` and `unplottable` (values <= 0 on a log scale) count points in view, `clipped` whether a reporting
    curve leaves the y-range.
    """

    rows: list[list[Run]]
    layout: Layout
    x_lo: float
    x_hi: float
    y_lo: float
    y_hi: float
    nonfinite: int = 0
    unplottable: int = 0
    clipped: bool = False

    def x_at(self, col: int) -> float | None:
        """The x in the middle of a cell column of the chart; None beside the plot."""
        inside = col - self.layout.left
        if not 0 <= inside < self.layout.width:
            return None
        return self.x_lo + (inside + 0.5) / self.layout.width * (self.x_hi - self.x_lo)


def layout(width: int, height: int, label_width: int = 5) -> Layout:
    """The chart's division for a size: depends on nothing else, so that live numbers never move the plot."""
    width, height = max(width, 0), max(height, 0)
    axis_rows = 2 if height >= 7 else 1 if height >= 3 else 0
    gutter = label_width + 2
    left = gutter if label_width > 0 and width >= gutter + _MIN_PLOT and height >= 2 else 0
    return Layout(left, width - left, height - axis_rows, axis_rows)


def plot_columns(width: int, height: int, kind: Kind = "braille", label_width: int = 5) -> int:
    """Dot columns of the plot in a chart of this size: the `columns` to choose a stable x-range for (0 if none)."""
    return layout(width, height, label_width).width * dots_per_cell(kind)[0]
