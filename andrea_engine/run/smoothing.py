"""Debiased exponential moving average, computed once over the full record."""

from __future__ import annotations

import math


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
