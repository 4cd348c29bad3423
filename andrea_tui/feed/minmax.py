"""Values in order, with a min/max pyramid above them: any slice of any length is answered in O(log values).

Level k holds, for every full bucket of 16**k consecutive values, the least value, the greatest value and the least
positive value. A slice is cut into a few slices of these levels, so the answer is exact: a spike of one value is
inside some bucket's maximum and cannot be averaged away. Non-finite values take part in no minimum or maximum; their
positions are kept beside the pyramid and counted.
"""

from __future__ import annotations

import itertools
import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

_SHIFT = 4
_BUCKET = 1 << _SHIFT
_MASK = _BUCKET - 1
_SCAN = 3 * _BUCKET  # shorter ranges are scanned: cutting them up costs more than it saves
_INF = math.inf
_MINS, _MAXS, _POSITIVES = 0, 1, 2


class MinMax:
    """Append-only values, any floats; about 9.6 bytes each. Positions are indices, slices half-open.

    One writer; no operation reads all values except `extend` (its own) and `truncate` (the dropped ones).
    """

    __slots__ = ("_levels", "generation", "nonfinite", "nonpositive", "values")

    def __init__(self, values: Iterable[float] = ()) -> None:
        self.values: array[float] = array("d")
        self.nonfinite: array[int] = array("q")  # indices, ascending
        self.nonpositive: array[int] = array("q")  # indices of finite values <= 0, ascending
        self.generation = 0  # grows whenever values are taken back
        self._levels: list[tuple[array[float], array[float], array[float]]] = []
        self.extend(values)

    def __len__(self) -> int:
        return len(self.values)

    # -- writing ----------------------------------------------------------------------------------------------------

    def append(self, value: float) -> None:
        """Add one value."""
        index = len(self.values)
        self.values.append(value)
        if value - value != 0.0:
            self.nonfinite.append(index)
        elif value <= 0.0:
            self.nonpositive.append(index)
        if index & _MASK == _MASK:
            self._close(index + 1)

    def extend(self, values: Iterable[float]) -> None:
        """Add many values at once, several times faster than `append`."""
        base = len(self.values)
        self.values.extend(values if isinstance(values, array) else array("d", values))
        new = self.values[base:].tolist()  # floats once, instead of once for each pass
        begun = min(-base & _MASK, len(new))  # values that belong to a bucket begun before
        whole = begun + (len(new) - begun & ~_MASK)  # where the whole buckets behind it end
        total = sum(new)
        if total - total == 0.0:
            lows, highs = _summaries(new, begun, whole)
            if min(itertools.chain(lows, new[:begun], new[whole:]), default=1.0) > 0.0:
                # All positive and finite, as losses are.
                if begun and base + begun & _MASK == 0:
                    self._close(base + begun)
                self._lift(lows, highs, lows)
                return
        for index in [i for i, value in enumerate(new, base) if not 0.0 < value < _INF]:
            (self.nonpositive if math.isfinite(self.values[index]) else self.nonfinite).append(index)
        for bucket_end in range((base | _MASK) + 1, len(self.values) + 1, _BUCKET):
            self._close(bucket_end)

    def truncate(self, keep: int) -> array[float]:
        """Drop all values from index `keep` on and return them."""
        dropped = self.values[keep:]
        if not dropped:
            return dropped
        del self.values[keep:]
        del self.nonfinite[bisect_left(self.nonfinite, keep) :]
        del self.nonpositive[bisect_left(self.nonpositive, keep) :]
        for depth, level in enumerate(self._levels, 1):
            for summaries in level:
                del summaries[keep >> (_SHIFT * depth) :]
        while self._levels and not self._levels[-1][_MINS]:
            self._levels.pop()
        self.generation += 1
        return dropped

    def _close(self, end: int) -> None:
        """Summarise the bucket of values that ends before index `end`, and each wider bucket that ends there too."""
        values = self.values[end - _BUCKET : end]
        total = sum(values)
        finite: array[float] | list[float] = values
        if total - total != 0.0:  # a non-finite value among them (or an overflow, where the filter does no harm)
            finite = [y for y in values if y - y == 0.0]
        lo = min(finite, default=_INF)
        hi = max(finite, default=-_INF)
        positive = lo if lo > 0.0 else min((y for y in finite if y > 0.0), default=_INF)
        self._lift([lo], [hi], [positive])

    def _lift(self, lows: Sequence[float], highs: Sequence[float], positives: Sequence[float], depth: int = 0) -> None:
        """Add the summaries of full buckets to a level, and those of the wider buckets that are full by them above."""
        if not lows:
            return
        if depth == len(self._levels):
            self._levels.append((array("d"), array("d"), array("d")))
        mins, maxs, least = self._levels[depth]
        start = len(mins) & ~_MASK
        mins.extend(lows)
        maxs.extend(highs)
        least.extend(positives)
        stop = len(mins) & ~_MASK
        if stop > start:
            self._lift(
                _summaries(mins, start, stop)[0],
                _summaries(maxs, start, stop)[1],
                _summaries(least, start, stop)[0],
                depth + 1,
            )

    # -- reading ----------------------------------------------------------------------------------------------------

    def range(self, i: int, j: int, positive: bool = False) -> tuple[float, float]:
        """Least and greatest finite (or positive) value of the slice i:j; (inf, -inf) if there is none."""
        lo, hi = _INF, -_INF
        levels = self._levels
        least = _POSITIVES if positive else _MINS
        for level, a, b in self._pieces(i, j):
            if level:
                summaries = levels[level - 1]
                low = min(summaries[least][a:b])
                high = max(summaries[_MAXS][a:b])
            else:
                values: array[float] | list[float] = self.values[a:b]
                if self.nonfinite or positive:
                    floor = 0.0 if positive else -_INF
                    values = [y for y in values if floor < y < _INF]
                    if not values:
                        continue
                low = min(values)
                high = max(values)
            lo = min(lo, low)
            hi = max(hi, high)
        return (lo, hi) if lo <= hi else (_INF, -_INF)

    def greatest(self, i: int, j: int) -> int | None:
        """Index of the first greatest finite value of the slice i:j."""
        return self._extreme(i, j, _MAXS)

    def least(self, i: int, j: int) -> int | None:
        """Index of the first least finite value of the slice i:j."""
        return self._extreme(i, j, _MINS)

    def count_nonfinite(self, i: int, j: int) -> int:
        p = bisect_left(self.nonfinite, i)
        return bisect_left(self.nonfinite, j, p) - p

    def count_nonpositive(self, i: int, j: int) -> int:
        """Finite values <= 0 in the slice i:j."""
        p = bisect_left(self.nonpositive, i)
        return bisect_left(self.nonpositive, j, p) - p

    def finite_ends(self, i: int, j: int) -> tuple[int, int] | None:
        """Indices of the first and the last finite value of the slice i:j; None if there is none.

        Inside a run of neighbours index - entry number is constant, so the run's end is found by bisection.
        """
        marks = self.nonfinite
        p = bisect_left(marks, i)
        q = bisect_left(marks, j, p)
        first, last = i, j - 1
        if q > p:
            if marks[p] == i:
                first = i + bisect_right(range(p, q), i - p, key=lambda entry: marks[entry] - entry)
            if marks[q - 1] == last:
                run = range(p, q)
                last -= len(run) - bisect_left(run, last - (q - 1), key=lambda entry: marks[entry] - entry)
        return (first, last) if first <= last else None

    def _pieces(self, i: int, j: int) -> list[tuple[int, int, int]]:
        """Cut the values i..j-1 into slices (level, start, stop); level 0 are the values themselves."""
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

    def _extreme(self, i: int, j: int, which: int) -> int | None:
        lo, hi = self.range(i, j)
        if lo > hi:
            return None
        wanted = hi if which == _MAXS else lo
        for level, a, b in sorted(self._pieces(i, j), key=lambda piece: piece[1] << (_SHIFT * piece[0])):
            start, stop = a, b
            for depth in range(level, -1, -1):
                values = self._levels[depth - 1][which] if depth else self.values
                try:
                    start = values.index(wanted, start, stop)
                except ValueError:
                    break
                if not depth:
                    return start
                start, stop = start << _SHIFT, (start + 1) << _SHIFT
        raise AssertionError("the pyramid disagrees with the values")


def _summaries(values: Sequence[float], start: int, stop: int) -> tuple[list[float], list[float]]:
    """Least and greatest of each bucket of values[start:stop], which are whole buckets of finite values.

    One slice for each place in a bucket, so that the loop over the buckets runs inside of `map`.
    """
    places = [values[start + place : stop : _BUCKET] for place in range(_BUCKET)]
    return list(map(min, *places)), list(map(max, *places))
