"""Debiased exponential moving average, computed once over the full record."""

from __future__ import annotations

import math
from collections.abc import Callable

TREND_STEPS = 1000
TREND_NEEDS = 20  # entries


class Ema:
    """Bias-corrected moving average: `value = s / (1 - beta**n)` with `s = beta*s + (1-beta)*x`.

    Equals the first value after one update, and a constant for a constant series. Values that are not finite are
    left out.
    """

    __slots__ = ("beta", "count", "total")

    def __init__(self, beta: float = 0.99) -> None:
        self.beta = beta
        self.total = 0.0
        self.count = 0

    def update(self, value: float | None) -> float | None:
        """Take one value and return the average so far (None before the first finite value)."""
        if value is not None and math.isfinite(value):
            self.total = self.beta * self.total + (1.0 - self.beta) * value
            self.count += 1
        return self.value

    @property
    def value(self) -> float | None:
        if self.count == 0:
            return None
        return self.total / (1.0 - self.beta**self.count)


def trend(
    count: int, first: float, last: float, value_at: Callable[[float], tuple[float, float] | None]
) -> float | None:
    """Change a thousand steps of a line of `count` points from step `first` to `last`: over the last `TREND_STEPS`, or
    half the line, if shorter. None when it is too short or not known.

    `value_at` gives the point (step, value) that is nearest to a step.
    """
    if count < TREND_NEEDS:
        return None
    now, before = value_at(last), value_at(last - min(TREND_STEPS, (last - first) / 2))
    if now is None or before is None or now[0] <= before[0] or math.isnan(now[1] - before[1]):
        return None
    return (now[1] - before[1]) / (now[0] - before[0]) * 1000
