"""Energy from power readings: the integral of watts over time, in joules."""

from __future__ import annotations


class EnergyMeter:
    """Trapezoid rule over readings. A gap longer than `longest_gap` seconds is not bridged but reported.

    `joules` is None until two readings allowed an integral: unknown is not zero.
    """

    def __init__(self, joules: float | None = None, longest_gap: float = 10.0) -> None:
        self.joules = joules
        self.longest_gap = longest_gap
        self.complete = True
        self._last: tuple[float, float] | None = None

    def add(self, time: float, watts: float | None) -> None:
        """A reading at `time` (monotonic seconds); None when the power could not be read."""
        if watts is None:
            self.complete = self.complete and self._last is None and self.joules is None
            self._last = None
            return
        if self._last is not None:
            before, power = self._last
            gap = time - before
            if 0 <= gap <= self.longest_gap:
                self.joules = (self.joules or 0.0) + gap * (power + watts) / 2
            else:
                self.complete = False
        self._last = (time, watts)
