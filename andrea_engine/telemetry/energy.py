"""Energy in joules: from the counters of the hardware where it has them, else the integral of watts over time."""

from __future__ import annotations

from collections.abc import Mapping


class EnergyMeter:
    """Sums what was used between readings.

    A counter also knows what was used while nobody read it. Without one the trapezoid rule is used, the sum is
    `estimated`, and a gap longer than `longest_gap` seconds is not bridged: the sum is then no longer `complete`.
    `joules` is None until two readings allowed a difference: unknown is not zero.
    """

    def __init__(
        self,
        joules: float | None = None,
        longest_gap: float = 10.0,
        *,
        complete: bool = True,
        estimated: bool = False,
    ) -> None:
        self.joules = joules
        self.longest_gap = longest_gap
        self.estimated = estimated
        self._broken = not complete
        self._begun = joules is not None
        self._missing = False  # no reading since the last good one
        self._last: tuple[float, float] | None = None
        self._counters: dict[str, float] = {}

    @property
    def complete(self) -> bool:
        """False when some energy since the first reading is not in the sum, or not yet."""
        return not (self._broken or (self._missing and self._begun))

    def add(self, time: float, watts: float | None, counters: Mapping[str, float] | None = None) -> None:
        """A reading at `time` (monotonic seconds): the power of all devices, None when it could not be read, and the
        counter of each device in joules where every one of them has one."""
        if watts is None and not counters:
            self._missing, self._last = True, None
            return
        counted = self._counted(counters or {})
        if counted is not None:
            self.joules = (self.joules or 0.0) + counted
        else:
            self._integrate(time, watts)
        self._begun, self._missing = True, False
        self._last = None if watts is None else (time, watts)
        self._counters = dict(counters or {})

    def _counted(self, counters: Mapping[str, float]) -> float | None:
        """Energy since the last counters; None when they are of other devices or began anew."""
        before = self._counters
        if not counters or counters.keys() != before.keys():
            return None
        used = [counters[name] - before[name] for name in counters]
        return sum(used) if min(used) >= 0 else None

    def _integrate(self, time: float, watts: float | None) -> None:
        if not self._missing and self._last is None and not self._counters:
            return  # the first reading of all, or of this session
        if self._missing or self._last is None or watts is None or not 0 <= time - self._last[0] <= self.longest_gap:
            self._broken = self._broken or self._begun
            return
        self.joules = (self.joules or 0.0) + (time - self._last[0]) * (self._last[1] + watts) / 2
        self.estimated = True
