"""Scales and the y-range: from values to dot rows, and which values to show."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from .ticks import multiple, nice_steps

_BIG = 1e300  # keeps differences finite
_FAR = 1_000_000  # rows; far enough for the slope of a line that leaves the plot


class ColumnStats(Protocol):
    """What is read of a column summary (`feed.pyramid.Columns` has this shape); all sequences have one length.

    `lo <= hi` only where a column has something to draw; `first` and `last` are NaN where it has no finite value.
    """

    @property
    def lo(self) -> Sequence[float]: ...
    @property
    def hi(self) -> Sequence[float]: ...
    @property
    def first(self) -> Sequence[float]: ...
    @property
    def last(self) -> Sequence[float]: ...
    @property
    def nonfinite(self) -> Sequence[int]: ...
    @property
    def nonpositive(self) -> Sequence[int]: ...


class Scale(msgspec.Struct, frozen=True):
    """Values from `lo` to `hi`, linear or logarithmic. Any bounds are accepted and made usable: ordered, finite,
    apart, and above zero for a log scale."""

    lo: float
    hi: float
    log: bool = False

    def __post_init__(self) -> None:
        lo, hi = (max(-_BIG, min(_BIG, v)) if not math.isnan(v) else 0.0 for v in (self.lo, self.hi))
        lo, hi = min(lo, hi), max(lo, hi)
        if self.log:
            hi = hi if hi > 1e-290 else 1.0
            lo = lo if lo > 1e-290 else hi / 1e3
            if hi <= lo * (1.0 + 1e-9):
                lo, hi = lo / 2, hi * 2
        elif hi - lo <= max(abs(lo), abs(hi), 1e-280) * 1e-12:
            margin = max(abs(hi) * 0.05, 1e-280) if hi else 0.5
            lo, hi = lo - margin, hi + margin
        msgspec.structs.force_setattr(self, "lo", lo)
        msgspec.structs.force_setattr(self, "hi", hi)

    def plottable(self, value: float) -> bool:
        """False for NaN and infinities and, on a log scale, for values <= 0: they have no place here."""
        return math.isfinite(value) and (not self.log or value > 0.0)

    def fraction(self, value: float) -> float | None:
        """0 at `lo`, 1 at `hi`, beyond outside; None if the value is unplottable."""
        if not self.plottable(value):
            return None
        if self.log:
            return (math.log(value) - math.log(self.lo)) / (math.log(self.hi) - math.log(self.lo))
        return (max(-_BIG, min(_BIG, value)) - self.lo) / (self.hi - self.lo)

    def value(self, fraction: float) -> float:
        """The inverse of `fraction`."""
        if self.log:
            return math.exp(math.log(self.lo) + fraction * (math.log(self.hi) - math.log(self.lo)))
        return self.lo + fraction * (self.hi - self.lo)

    def row_of(self, rows: int) -> Callable[[float], int | None]:
        """A fast function from a value to its dot row, 0 at the top for `hi`, rows-1 for `lo`.

        Values outside give rows outside, at most a million away; unplottable values give None.
        """
        top, far = -_FAR, _FAR
        floor, isfinite, log = math.floor, math.isfinite, math.log
        if self.log:
            log_hi = log(self.hi)
            log_factor = (rows - 1) / (log_hi - log(self.lo))

            def log_row(value: float) -> int | None:
                if not value > 0.0 or not isfinite(value):
                    return None
                row = (log_hi - log(value)) * log_factor + 0.5
                return top if row < top else far if row > far else floor(row)

            return log_row
        hi = self.hi
        factor = (rows - 1) / (hi - self.lo)

        def linear_row(value: float) -> int | None:
            if not isfinite(value):
                return None
            row = (hi - value) * factor + 0.5
            return top if row < top else far if row > far else floor(row)

        return linear_row


def nice_bounds(lo: float, hi: float, *, log: bool = False, n: int = 6) -> tuple[float, float]:
    """The range widened to round numbers, so that it rests while the data move a little."""
    if lo == hi == 0.0 and not log:
        return 0.0, 1.0
    scale = Scale(lo, hi, log)
    lo, hi = scale.lo, scale.hi
    if log:
        return _round_digit(lo, up=False), _round_digit(hi, up=True)
    for step in nice_steps(lo, hi, n):
        first, last = math.floor(lo / step + 1e-9), math.ceil(hi / step - 1e-9)
        if last - first <= n:
            return multiple(first, step), multiple(last, step)
    return lo, hi


class YRange:
    """Bounds of a y-axis that do not flicker.

    They grow at once when data leave them; they shrink only after the data have filled less than `fill` of them for
    `patience` updates in a row. Bounds are round numbers.
    """

    __slots__ = ("_calm", "_fill", "_patience", "bounds", "log")

    def __init__(self, *, log: bool = False, fill: float = 0.7, patience: int = 8) -> None:
        self.log = log
        self.bounds: tuple[float, float] | None = None
        self._fill = fill
        self._patience = patience
        self._calm = 0

    def reset(self, *, log: bool | None = None) -> None:
        """Forget the bounds (the view changed, not the data); optionally switch the scale."""
        self.bounds = None
        self._calm = 0
        if log is not None:
            self.log = log

    def update(self, lo: float, hi: float) -> tuple[float, float]:
        """Take the range of the data now shown; gives the bounds to draw with.

        Bounds that are NaN or infinite (nothing to draw) change nothing."""
        if not (math.isfinite(lo) and math.isfinite(hi)) or lo > hi or (self.log and hi <= 0.0):
            return self.bounds or ((0.1, 1.0) if self.log else (0.0, 1.0))
        wanted = nice_bounds(lo, hi, log=self.log)
        if self.bounds is None:
            self.bounds = wanted
            return wanted
        low, high = self.bounds
        if lo < low or hi > high:
            self.bounds = min(low, wanted[0]), max(high, wanted[1])
            self._calm = 0
        elif self._used(lo, hi) >= self._fill:
            self._calm = 0
        else:
            self._calm += 1
            if self._calm >= self._patience:
                self.bounds = wanted
                self._calm = 0
        return self.bounds

    def _used(self, lo: float, hi: float) -> float:
        scale = Scale(*(self.bounds or (lo, hi)), self.log)
        low, high = scale.fraction(lo), scale.fraction(hi)
        return 1.0 if low is None or high is None else high - low


def robust_range(columns: ColumnStats, *, skip: float = 0.01) -> tuple[float, float] | None:
    """The y-range worth showing by default; None without data.

    Leaves out the first `skip` of the columns that hold data: the warm-up, where a loss falls from its ceiling (pass
    0 for a view that does not begin at the run's start; below fifty columns none are left out anyway). Leaves out
    single columns, 2 % on each side and none below twenty columns, that stand out by more than half of the range of
    the others. What is left out is clipped and labelled.
    """
    drawn = [(lo, hi) for lo, hi in zip(columns.lo, columns.hi, strict=True) if lo <= hi]
    drawn = drawn[int(skip * len(drawn) + 0.5) :]
    if not drawn:
        return None
    lows = sorted(lo for lo, _ in drawn)
    highs = sorted(hi for _, hi in drawn)
    if len(drawn) < 20:
        return lows[0], highs[-1]
    outside = math.ceil(len(drawn) * 0.02)
    low, high = lows[outside], highs[-1 - outside]
    margin = (high - low) / 2
    return (
        lows[0] if lows[0] >= low - margin else low,
        highs[-1] if highs[-1] <= high + margin else high,
    )


def _round_digit(value: float, *, up: bool) -> float:
    """The next 1, 1.5, 2, 3, 5 or 7 times a power of ten, at or beyond `value`."""
    power = 10.0 ** math.floor(math.log10(value))
    digits = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)
    if up:
        return next((d * power for d in digits if d * power >= value * (1 - 1e-9)), 10.0 * power)
    return next((d * power for d in reversed(digits) if d * power <= value * (1 + 1e-9)), power)
