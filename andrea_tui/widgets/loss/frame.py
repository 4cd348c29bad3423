"""The part of the x axis that is drawn, and how keys and wheel move it. Pure arithmetic, in units of the axis."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left

import msgspec

from andrea_tui.view import Window

LEAST_STEPS = 50  # a young run is not stretched over the whole width
CLOSEST_STEPS = 4  # as far as zooming in goes
FINEST = 1e-9  # of x: columns that are narrower could not be told apart in doubles


class Frame(msgspec.Struct, frozen=True):
    """Drawn from `lo` to `hi` over `cells` columns of cells; the data go from `first` to `last`.

    `pace`: mean x of one step.
    """

    axis: str
    lo: float
    hi: float
    cells: int
    first: float
    last: float
    pace: float

    @property
    def cell(self) -> float:
        """Width of a column of cells in x."""
        return (self.hi - self.lo) / max(self.cells, 1)

    def column(self, x: float) -> tuple[float, float]:
        """Edges of the column of cells that x lies in."""
        left = self.lo + math.floor((x - self.lo) / self.cell) * self.cell
        return left, left + self.cell


def pace_of(steps: array[float], xs: array[float]) -> float:
    """Mean x of one step, 1 where that is not known yet."""
    count = min(len(steps), len(xs))
    if count < 2 or steps[count - 1] <= steps[0] or xs[count - 1] <= xs[0]:
        return xs[0] / steps[0] if count and xs[0] > 0 and steps[0] > 0 else 1.0
    return (xs[count - 1] - xs[0]) / (steps[count - 1] - steps[0])


def make_frame(
    axis: str, window: Window | None, first: float, last: float, pace: float, cells: int, dots: int
) -> Frame:
    """The frame of a window, or of everything from `first` to `last`; `dots` columns of dots make a cell.

    Everything: columns of steady width that stand still while points arrive, filled to at least 80 %. A window that
    follows: the same, moving by whole cells with the newest point in the last one. Any other window is drawn as it is.
    """
    cells = max(cells, 1)
    if window is None:
        columns = cells * dots
        width = steady_width(max(last - first, LEAST_STEPS * pace, _finest(first, last)) / columns)
        lo = math.floor(first / width) * width
        if lo + columns * width < last:
            width = steady_width(width * 1.01)
            lo = math.floor(first / width) * width
        return Frame(axis, lo, lo + columns * width, cells, first, last, pace)
    if window.follows:
        width = steady_width((window.hi - window.lo) / cells)
        hi = (math.floor(last / width) + 1) * width
        return Frame(axis, hi - cells * width, hi, cells, first, last, pace)
    return Frame(axis, window.lo, window.hi, cells, first, last, pace)


def zoomed(window: Window | None, frame: Frame, factor: float, about: float | None) -> Window | None:
    """The window scaled by `factor` (below 1: closer). `about` keeps its place, by default the newest point where that
    is the right edge, else the middle. None: everything is in view again."""
    lo, hi = _edges(window, frame)
    if about is None:
        about = hi if window is None or window.follows else (lo + hi) / 2
    about = max(lo, min(about, hi))
    width = max((hi - lo) * factor, CLOSEST_STEPS * frame.pace, _finest(frame.first, frame.last))
    if width >= frame.last - frame.first:
        return None
    return _placed(about - (about - lo) * width / (hi - lo), width, frame)


def panned(window: Window | None, frame: Frame, share: float) -> Window | None:
    """The window moved by a share of its width (infinite: to the end), within the data. Everything cannot be moved."""
    if window is None:
        return None
    lo, hi = _edges(window, frame)
    return _placed(lo + share * (hi - lo), hi - lo, frame)


def showing(window: Window | None, frame: Frame, x: float) -> Window | None:
    """The window, moved just so far that x lies in it."""
    if window is None:
        return None
    lo, hi = _edges(window, frame)
    if lo <= x <= hi:
        return window
    return _placed(x if x < lo else x - (hi - lo), hi - lo, frame)


def neighbour(xs: array[float], index: int, target: float, direction: int) -> int:
    """Index of the entry nearest to `target`, at least one further than `index` in that direction, within the ends."""
    nearest = bisect_left(xs, target)
    if nearest == len(xs) or (nearest > 0 and target - xs[nearest - 1] <= xs[nearest] - target):
        nearest -= 1
    nearest = max(nearest, index + 1) if direction > 0 else min(nearest, index - 1)
    return max(0, min(nearest, len(xs) - 1))


def steady_width(least: float) -> float:
    """The smallest of 1, 1.25, 1.5, 1.75 times a power of two that is not below `least`.

    Column widths from this list change rarely, so finished columns do not shimmer, and waste at most a fifth.
    """
    power = 2.0 ** math.floor(math.log2(least))
    return next(power * quarter / 4 for quarter in (4, 5, 6, 7, 8) if power * quarter / 4 >= least)


def _finest(first: float, last: float) -> float:
    return max(abs(first), abs(last)) * FINEST


def _edges(window: Window | None, frame: Frame) -> tuple[float, float]:
    """What is looked at, without the room that steady columns leave."""
    if window is None:
        return frame.first, max(frame.last, frame.first + frame.pace)
    if window.follows:
        return frame.last - (window.hi - window.lo), frame.last
    return window.lo, window.hi


def _placed(lo: float, width: float, frame: Frame) -> Window:
    """A window of this width inside the data; at the newest point it follows."""
    lo = max(frame.first, min(lo, frame.last - width))
    return Window(frame.axis, lo, lo + width, follows=lo + width >= frame.last - frame.pace * 0.5)
