"""Points (x, y) in order of x, summarised for drawing: any x-range in any number of columns, in O(columns log points).

The y values stand in a `MinMax` pyramid, so that the least and greatest value of a column are exact. The x values are
an array beside it; several series may share one, and one series may be seen over another array of x (`over`): the
same losses over steps, over hours, over kWh.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import islice
from operator import le

import msgspec

from andrea_tui.feed.minmax import MinMax

_INF = math.inf


class Columns(msgspec.Struct, frozen=True):
    """Summary of n equal x-columns of [x0, x1]; every array has length n.

    A column is half-open, the last one also contains x1. Where a column has nothing to draw, `lo` is +inf and `hi`
    is -inf, so `lo <= hi` says whether there is something. `first` and `last` are the first and last finite value
    (NaN if there is none), for joining neighbours. `count` counts all points, `nonfinite` NaN and infinities,
    `nonpositive` the finite values <= 0.
    """

    x0: float
    x1: float
    lo: array[float]
    hi: array[float]
    first: array[float]
    last: array[float]
    count: array[int]
    nonfinite: array[int]
    nonpositive: array[int]

    def __len__(self) -> int:
        return len(self.lo)


class StableRange(msgspec.Struct, frozen=True):
    """An x-range cut into columns of `width`, a power of two (possibly below 1), that start at multiples of it."""

    x0: float
    x1: float
    width: float


def stable_range(
    x_min: float, x_max: float, columns: int, *, follow: bool = False, min_span: float = 1.0
) -> StableRange:
    """The range to ask `Series.columns` for, so that finished columns never change while points arrive.

    The width depends only on `columns` and the span `x_max - x_min` (at least `min_span`): it is the least power of
    two with which any alignment of that span fits. Hence:

    - whole run: pass the run's first and last x; the start stays, the right part is room to grow (at most about
      half), and all widths double at once when it is used up;
    - `follow=True`, sliding window: pass `x_max - span` and `x_max`; the last point is always in the last column, and
      the view moves by whole columns (it may show up to twice the span asked for).

    A single column is twice as wide, since it may lie across a multiple. Raises ValueError if the bounds are not
    finite, too far apart to draw (over 1e300), or `columns` is not positive.
    """
    span = max(x_max - x_min, min_span)
    if columns < 1 or not (math.isfinite(x_min) and math.isfinite(x_max) and span <= 1e300):
        raise ValueError(
            f"cannot cut x from {x_min} to {x_max} into {columns} columns: give finite bounds and columns >= 1"
        )
    # Finer columns could not be told apart in a double at this distance from zero.
    least = max(abs(x_min), abs(x_max), 1e-280) * 2.0**-48
    mantissa, exponent = math.frexp(max(span / max(columns - 1, 1), least))
    width = math.ldexp(1.0, exponent - 1 if mantissa == 0.5 else exponent)
    size = width * max(columns, 2)
    start = (math.floor(x_max / width) + 1) * width - size if follow else math.floor(x_min / width) * width
    return StableRange(start, start + size, size / columns)


class Series:
    """Points (x, y) with x non-decreasing and finite and y any float; about 18 bytes a point.

    One writer; no operation reads all points except `extend` (its own) and `truncate_from` (the dropped ones).
    """

    __slots__ = ("_values", "_xs")

    def __init__(self, xs: Iterable[float] = (), ys: Iterable[float] = ()) -> None:
        self._xs: array[float] = array("d")
        self._values = MinMax()
        self.extend(xs, ys)

    @classmethod
    def _sharing(cls, xs: array[float], values: MinMax) -> Series:
        series = cls.__new__(cls)
        series._xs, series._values = xs, values
        return series

    def over(self, xs: array[float]) -> Series:
        """The same values over other x, which somebody else extends. Nothing is copied; the result is only read.

        `xs` is non-decreasing and may run ahead of the values, never behind.
        """
        return Series._sharing(xs, self._values)

    def over_values(self, values: MinMax) -> Series:
        """Other values over the same x: the first x belongs to the first value, and so on. See `over`."""
        return Series._sharing(self._xs, values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Series({len(self)} points)"

    @property
    def version(self) -> tuple[int, int]:
        """Changes whenever the data do; for caches."""
        return self._values.generation, len(self._values)

    @property
    def xs(self) -> array[float]:
        """All x, for sharing; not to be changed by anybody else."""
        return self._xs

    @property
    def values(self) -> MinMax:
        """All y, for sharing; not to be changed by anybody else."""
        return self._values

    @property
    def x_min(self) -> float | None:
        return self._xs[0] if len(self._values) else None

    @property
    def x_max(self) -> float | None:
        count = len(self._values)
        return self._xs[count - 1] if count else None

    @property
    def nonfinite_total(self) -> int:
        return len(self._values.nonfinite)

    # -- writing ----------------------------------------------------------------------------------------------------

    def append(self, x: float, y: float) -> None:
        """Add one point. ValueError if x is not finite or lies before the last x; then nothing is added."""
        x = float(x)
        xs = self._xs
        if x - x != 0.0 or (xs and x < xs[-1]):
            raise ValueError(_bad_x(x, xs[-1] if xs else None))
        y = float(y)
        xs.append(x)
        self._values.append(y)

    def extend(self, xs: Iterable[float], ys: Iterable[float]) -> None:
        """Add many points at once, several times faster than `append`. Errors as there; then nothing is added."""
        new_xs = array("d", xs)
        new_ys = array("d", ys)
        if len(new_xs) != len(new_ys):
            raise ValueError(f"{len(new_xs)} x values for {len(new_ys)} y values: give one y for each x")
        if not new_xs:
            return
        last = self._xs[-1] if self._xs else None
        sorted_ = all(map(le, new_xs, islice(new_xs, 1, None)))
        for x in (new_xs[0], new_xs[-1]) if sorted_ else new_xs:
            if not math.isfinite(x) or (last is not None and x < last):
                raise ValueError(_bad_x(x, last))
            last = x
        self._xs.extend(new_xs)
        self._values.extend(new_ys)

    def truncate_from(self, x: float) -> Series:
        """Drop all points at or after `x` (steps trained again after a crash) and return them as a series of their
        own, to be drawn as the abandoned branch. ValueError if x is NaN."""
        if math.isnan(x):
            raise ValueError("x must be a number to truncate from, not NaN")
        keep = bisect_left(self._xs, x)
        dropped = Series(self._xs[keep:], self._values.truncate(keep))
        del self._xs[keep:]
        return dropped

    # -- reading ----------------------------------------------------------------------------------------------------

    def columns(self, x0: float, x1: float, n: int, *, positive: bool = False) -> Columns:
        """Summaries of n equal columns of [x0, x1], about 4 us a column whatever the number of points.

        With `positive` (log scales) `lo` and `hi` are taken over the values > 0 only.
        """
        n = max(n, 0)
        result = Columns(
            x0,
            x1,
            array("d", [_INF]) * n,
            array("d", [-_INF]) * n,
            array("d", [math.nan]) * n,
            array("d", [math.nan]) * n,
            array("q", [0]) * n,
            array("q", [0]) * n,
            array("q", [0]) * n,
        )
        if n and x0 <= x1:
            self.fill(result, 0, positive=positive)
        return result

    def fill(self, columns: Columns, first_column: int, *, positive: bool) -> None:
        """Make the columns from `first_column` on, of a summary whose points have only become more since."""
        x0, x1, n = columns.x0, columns.x1, len(columns)
        width = (x1 - x0) / n
        i, end = self._slice(x0 + first_column * width, x1)
        lows, highs, firsts, lasts = columns.lo, columns.hi, columns.first, columns.last
        xs, values = self._xs, self._values
        ys, nonfinite, nonpositive = values.values, values.nonfinite, values.nonpositive
        range_of = values.range
        bisect = bisect_left
        for column in range(first_column, n):
            if i >= end:
                break
            j = end if column == n - 1 else bisect(xs, x0 + (column + 1) * width, i, end)
            if j == i:
                continue
            columns.count[column] = j - i
            ends: tuple[int, int] | None = (i, j - 1)
            if nonfinite and (bad := values.count_nonfinite(i, j)):
                columns.nonfinite[column] = bad
                ends = values.finite_ends(i, j)
            if nonpositive:
                columns.nonpositive[column] = values.count_nonpositive(i, j)
            if ends is not None:
                firsts[column] = ys[ends[0]]
                lasts[column] = ys[ends[1]]
            lows[column], highs[column] = range_of(i, j, positive)
            i = j

    def range_minmax(self, x0: float, x1: float, *, positive: bool = False) -> tuple[float, float] | None:
        """Least and greatest finite (or positive) y with x0 <= x <= x1; None if there is none."""
        lo, hi = self._values.range(*self._slice(x0, x1), positive)
        return (lo, hi) if lo <= hi else None

    def peak(self, x0: float, x1: float) -> tuple[float, float] | None:
        """The first point (x, y) with the greatest finite y in x0 <= x <= x1."""
        return self._point(self._values.greatest(*self._slice(x0, x1)))

    def trough(self, x0: float, x1: float) -> tuple[float, float] | None:
        """The first point (x, y) with the least finite y in x0 <= x <= x1."""
        return self._point(self._values.least(*self._slice(x0, x1)))

    def value_at(self, x: float) -> tuple[float, float] | None:
        """The point nearest to x (the earlier of two equally near; of equal x, the one added last); y may be NaN."""
        xs, count = self._xs, len(self._values)
        if not count or math.isnan(x):
            return None
        right = bisect_right(xs, x, 0, count)
        if right == 0 or (right < count and xs[right] - x < x - xs[right - 1]):
            right = bisect_right(xs, xs[right], 0, count)
        return self._point(right - 1)

    def index_before(self, x: float) -> int | None:
        """Index of the last point at or before x; None where the series begins later."""
        index = bisect_right(self._xs, x, 0, len(self._values)) - 1
        return index if index >= 0 else None

    def _slice(self, x0: float, x1: float) -> tuple[int, int]:
        """Indices start, end of the points with x0 <= x <= x1; start >= end where there is none."""
        count = len(self._values)
        return bisect_left(self._xs, x0, 0, count), bisect_right(self._xs, x1, 0, count)

    def _point(self, index: int | None) -> tuple[float, float] | None:
        return None if index is None else (self._xs[index], self._values.values[index])


def _bad_x(x: float, last: float | None) -> str:
    if not math.isfinite(x):
        return f"x must be finite, not {x}"
    return f"x must not decrease: {x} comes after {last}; call truncate_from({x}) first"
