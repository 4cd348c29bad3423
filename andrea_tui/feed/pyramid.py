"""Append-only series with a min/max pyramid: any range of any length is answered in O(log points).

Level k holds, for every full bucket of 16**k consecutive points, the least value, the greatest value and the least
positive value. A range is cut into a few slices of these levels, so the answer is exact: a spike of one step is
inside some bucket's maximum and cannot be averaged away. Non-finite values take part in no minimum or maximum; their
positions are kept beside the pyramid and counted.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from operator import le

_SHIFT = 4
_BUCKET = 1 << _SHIFT
_MASK = _BUCKET - 1
_SCAN = 3 * _BUCKET  # shorter ranges are scanned: cutting them up costs more than it saves
_INF = math.inf
_MINS, _MAXS, _POSITIVES = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Columns:
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


@dataclass(frozen=True, slots=True)
class StableRange:
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

    __slots__ = ("_generation", "_levels", "_nonfinite", "_nonpositive", "_xs", "_ys")

    def __init__(self, xs: Iterable[float] = (), ys: Iterable[float] = ()) -> None:
        self._xs: array[float] = array("d")
        self._ys: array[float] = array("d")
        self._levels: list[tuple[array[float], array[float], array[float]]] = []
        self._nonfinite: array[int] = array("q")  # indices, ascending
        self._nonpositive: array[int] = array("q")  # indices of finite values <= 0, ascending
        self._generation = 0
        self.extend(xs, ys)

    def __len__(self) -> int:
        return len(self._xs)

    def __repr__(self) -> str:
        return f"Series({len(self)} points)"

    @property
    def version(self) -> tuple[int, int]:
        """Changes whenever the data do; for caches."""
        return self._generation, len(self._xs)

    @property
    def x_min(self) -> float | None:
        return self._xs[0] if self._xs else None

    @property
    def x_max(self) -> float | None:
        return self._xs[-1] if self._xs else None

    @property
    def nonfinite_total(self) -> int:
        return len(self._nonfinite)

    # -- writing ----------------------------------------------------------------------------------------------------

    def append(self, x: float, y: float) -> None:
        """Add one point. ValueError if x is not finite or lies before the last x; then nothing is added."""
        x = float(x)
        y = float(y)
        xs = self._xs
        index = len(xs)
        if x - x != 0.0 or (index and x < xs[-1]):
            raise ValueError(_bad_x(x, xs[-1] if index else None))
        xs.append(x)
        self._ys.append(y)
        if y - y != 0.0:
            self._nonfinite.append(index)
        elif y <= 0.0:
            self._nonpositive.append(index)
        if index & _MASK == _MASK:
            self._close(index + 1)

    def extend(self, xs: Iterable[float], ys: Iterable[float]) -> None:
        """Add many points at once, several times faster than `append`. Errors as there; then nothing is added."""
        new_xs = array("d", xs)
        new_ys = array("d", ys)
        if len(new_xs) != len(new_ys):
            raise ValueError(f"{len(new_xs)} x values for {len(new_ys)} y values: give one y for each x")
        if not new_xs:
            return
        base = len(self._xs)
        last = self._xs[-1] if base else None
        sorted_ = all(map(le, new_xs, islice(new_xs, 1, None)))
        for x in (new_xs[0], new_xs[-1]) if sorted_ else new_xs:
            if not math.isfinite(x) or (last is not None and x < last):
                raise ValueError(_bad_x(x, last))
            last = x
        self._xs.extend(new_xs)
        self._ys.extend(new_ys)
        for index in [i for i, y in enumerate(new_ys, base) if not 0.0 < y < _INF]:
            (self._nonpositive if math.isfinite(self._ys[index]) else self._nonfinite).append(index)
        for end in range((base | _MASK) + 1, len(self._xs) + 1, _BUCKET):
            self._close(end)

    def truncate_from(self, x: float) -> Series:
        """Drop all points at or after `x` (steps trained again after a crash) and return them as a series of their
        own, to be drawn as the abandoned branch. ValueError if x is NaN."""
        if math.isnan(x):
            raise ValueError("x must be a number to truncate from, not NaN")
        keep = bisect_left(self._xs, x)
        dropped = Series(self._xs[keep:], self._ys[keep:])
        if not dropped:
            return dropped
        del self._xs[keep:]
        del self._ys[keep:]
        del self._nonfinite[bisect_left(self._nonfinite, keep) :]
        del self._nonpositive[bisect_left(self._nonpositive, keep) :]
        for depth, level in enumerate(self._levels, 1):
            for values in level:
                del values[keep >> (_SHIFT * depth) :]
        while self._levels and not self._levels[-1][_MINS]:
            self._levels.pop()
        self._generation += 1
        return dropped

    def _close(self, end: int) -> None:
        """Summarise the bucket of points that ends before index `end`, and each wider bucket that ends there too."""
        values = self._ys[end - _BUCKET : end]
        total = sum(values)
        finite: array[float] | list[float] = values
        if total - total != 0.0:  # a non-finite value among them (or an overflow, where the filter does no harm)
            finite = [y for y in values if y - y == 0.0]
        lo = min(finite, default=_INF)
        hi = max(finite, default=-_INF)
        positive = lo if lo > 0.0 else min((y for y in finite if y > 0.0), default=_INF)
        levels = self._levels
        depth = 0
        while True:
            if depth == len(levels):
                levels.append((array("d"), array("d"), array("d")))
            mins, maxs, positives = levels[depth]
            mins.append(lo)
            maxs.append(hi)
            positives.append(positive)
            if len(mins) & _MASK:
                return
            lo = min(mins[-_BUCKET:])
            hi = max(maxs[-_BUCKET:])
            positive = min(positives[-_BUCKET:])
            depth += 1

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
        xs, ys = self._xs, self._ys
        if not n or not xs or not x0 <= x1 or x1 < xs[0] or x0 > xs[-1]:
            return result
        lows, highs, firsts, lasts = result.lo, result.hi, result.first, result.last
        nonfinite, nonpositive = self._nonfinite, self._nonpositive
        range_of = self._range
        bisect = bisect_left
        width = (x1 - x0) / n
        end = bisect_right(xs, x1)
        i = bisect(xs, x0)
        for column in range(n):
            if i == end:
                break
            j = end if column == n - 1 else bisect(xs, x0 + (column + 1) * width, i, end)
            if j == i:
                continue
            result.count[column] = j - i
            first, last = i, j - 1
            if nonfinite:
                p = bisect(nonfinite, i)
                q = bisect(nonfinite, j, p)
                if q > p:
                    result.nonfinite[column] = q - p
                    first, last = self._finite_ends(p, q, i, j)
            if nonpositive:
                p = bisect(nonpositive, i)
                result.nonpositive[column] = bisect(nonpositive, j, p) - p
            if first <= last:
                firsts[column] = ys[first]
                lasts[column] = ys[last]
            lows[column], highs[column] = range_of(i, j, positive)
            i = j
        return result

    def range_minmax(self, x0: float, x1: float, *, positive: bool = False) -> tuple[float, float] | None:
        """Least and greatest finite (or positive) y with x0 <= x <= x1; None if there is none."""
        lo, hi = self._range(bisect_left(self._xs, x0), bisect_right(self._xs, x1), positive)
        return (lo, hi) if lo <= hi else None

    def peak(self, x0: float, x1: float) -> tuple[float, float] | None:
        """The first point (x, y) with the greatest finite y in x0 <= x <= x1."""
        return self._extreme(x0, x1, _MAXS)

    def trough(self, x0: float, x1: float) -> tuple[float, float] | None:
        """The first point (x, y) with the least finite y in x0 <= x <= x1."""
        return self._extreme(x0, x1, _MINS)

    def value_at(self, x: float) -> tuple[float, float] | None:
        """The point nearest to x (the earlier of two equally near; of equal x, the one added last); y may be NaN."""
        xs = self._xs
        if not xs or math.isnan(x):
            return None
        right = bisect_right(xs, x)
        if right == 0 or (right < len(xs) and xs[right] - x < x - xs[right - 1]):
            right = bisect_right(xs, xs[right])
        return xs[right - 1], self._ys[right - 1]

    def nonfinite_positions(self, x0: float, x1: float, n: int) -> list[tuple[int, int]]:
        """(column, count) of each of n equal columns of [x0, x1] that holds non-finite points."""
        xs, marks = self._xs, self._nonfinite
        found: list[tuple[int, int]] = []
        if n < 1 or not x0 <= x1:
            return found
        end = bisect_right(xs, x1)
        p = bisect_left(marks, bisect_left(xs, x0))
        last = bisect_left(marks, end)
        for column in range(n):
            if p == last:
                break
            j = end if column == n - 1 else bisect_left(xs, x0 + (column + 1) * ((x1 - x0) / n), 0, end)
            q = bisect_left(marks, j, p)
            if q > p:
                found.append((column, q - p))
            p = q
        return found

    def _pieces(self, i: int, j: int) -> list[tuple[int, int, int]]:
        """Cut the points i..j-1 into slices (level, start, stop); level 0 are the points themselves."""
        pieces: list[tuple[int, int, int]] = []
        top = len(self._levels)
        level = 0
        while j - i > _SCAN and level < top:
            a = (i + _MASK) >> _SHIFT
            b = j >> _SHIFT
            if i & _MASK:
                pieces.append((level, i, a << _SHIFT))
            if j & _MASK:
                pieces.append((level, b << _SHIFT, j))
            i, j = a, b
            level += 1
        if i < j:
            pieces.append((level, i, j))
        return pieces

    def _range(self, i: int, j: int, positive: bool) -> tuple[float, float]:
        lo, hi = _INF, -_INF
        levels = self._levels
        least = _POSITIVES if positive else _MINS
        for level, a, b in self._pieces(i, j):
            if level:
                arrays = levels[level - 1]
                low = min(arrays[least][a:b])
                high = max(arrays[_MAXS][a:b])
            else:
                values: array[float] | list[float] = self._ys[a:b]
                if self._nonfinite or positive:
                    floor = 0.0 if positive else -_INF
                    values = [y for y in values if floor < y < _INF]
                    if not values:
                        continue
                low = min(values)
                high = max(values)
            lo = min(lo, low)
            hi = max(hi, high)
        return (lo, hi) if lo <= hi else (_INF, -_INF)

    def _extreme(self, x0: float, x1: float, which: int) -> tuple[float, float] | None:
        i, j = bisect_left(self._xs, x0), bisect_right(self._xs, x1)
        lo, hi = self._range(i, j, False)
        if lo > hi:
            return None
        wanted = hi if which == _MAXS else lo
        for level, a, b in sorted(self._pieces(i, j), key=lambda piece: piece[1] << (_SHIFT * piece[0])):
            start, stop = a, b
            for depth in range(level, -1, -1):
                values = self._levels[depth - 1][which] if depth else self._ys
                try:
                    start = values.index(wanted, start, stop)
                except ValueError:
                    break
                if not depth:
                    return self._xs[start], wanted
                start, stop = start << _SHIFT, (start + 1) << _SHIFT
        raise AssertionError("the pyramid disagrees with the points")

    def _finite_ends(self, p: int, q: int, i: int, j: int) -> tuple[int, int]:
        """Indices of the first and last finite point of i..j-1, whose non-finite points are entries p..q-1.

        Inside a run of neighbours index - entry number is constant, so the run's end is found by bisection.
        """
        marks = self._nonfinite
        first, last = i, j - 1
        if marks[p] == i:
            first = i + bisect_right(range(p, q), i - p, key=lambda entry: marks[entry] - entry)
        if marks[q - 1] == last:
            run = range(p, q)
            last -= len(run) - bisect_left(run, last - (q - 1), key=lambda entry: marks[entry] - entry)
        return first, last


def _bad_x(x: float, last: float | None) -> str:
    if not math.isfinite(x):
        return f"x must be finite, not {x}"
    return f"x must not decrease: {x} comes after {last}; call truncate_from({x}) first"
