"""The smoothed line of any series: computed once over all of its values, and only ever continued."""

from __future__ import annotations

import math

from andrea_tui.feed.minmax import MinMax

CHUNK = 250_000  # values a call, so that a change of the smoothing never holds up the screen: about 0.1 s
PIECE = 10_000  # values at a time: lists of them are for a moment many times as large as what is kept
BETAS = {"off": 0.0, "0.9": 0.9, "0.99": 0.99, "0.999": 0.999, "0.9999": 0.9999}


class Smoothed:
    """Debiased exponential moving average of `raw`: `line.values[i]` is made from the values up to i, and stays.

    Values that are not finite are left out; the line stands still there, and is NaN before the first finite one. The
    same numbers as `andrea_engine.run.smoothing.Ema`, whose `1 - beta**n` grows here step by step.
    """

    def __init__(self, raw: MinMax, beta: float) -> None:
        self.raw = raw
        self.beta = beta
        self._begin()

    def _begin(self) -> None:
        self.line = MinMax()
        self._generation = self.raw.generation
        self._total = self._weight = 0.0

    def sync(self, limit: int = CHUNK) -> bool:
        """Take at most `limit` new values in; True when all are."""
        if self._generation != self.raw.generation:
            self._begin()
        start = len(self.line)
        end = min(len(self.raw), start + limit)
        for begin in range(start, end, PIECE):
            self._continue(begin, min(begin + PIECE, end))
        return end == len(self.raw)

    def _continue(self, start: int, end: int) -> None:
        beta, rest = self.beta, 1.0 - self.beta
        total, weight = self._total, self._weight
        value = self.line.values[-1] if start else math.nan
        found = []
        for raw in self.raw.values[start:end]:
            if raw - raw == 0.0:
                total = beta * total + rest * raw
                weight = beta * weight + rest
                value = total / weight
            found.append(value)
        self._total, self._weight = total, weight
        self.line.extend(found)
