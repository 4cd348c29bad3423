"""What a curve may be drawn against: from the steps of a record to tokens, hours and kWh, and back.

Each axis is a fold over the record's entries, so that new entries cost O(1) each and the past of the mapping stays
(it is made again only when entries or moments of the clock are taken back). It never falls. 8 bytes an entry, kept for
the axis in use only.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice

from andrea_engine.run.energy_facts import JOULES_PER_KWH
from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.record import Record

AXES = ("step", "tokens", "active", "wall", "energy")
MOST_SECONDS = 1e9  # a step of 30 years, or
MOST_JOULES = 1e15  # the energy of a power station's year: a damaged record


def unknown(record: Record, axis: str) -> str:
    """Why this record cannot be drawn against an axis, as a clause; '' when it can."""
    if axis == "tokens" and record.tokens_per_step is None:
        return "the tokens of a step are not known without a run.toml"
    if axis in ("active", "wall") and not record.known["seconds"]:
        return "the record does not tell how long its steps took"
    if axis == "wall":
        if not record.clock.steps:
            return "no start is in the event log"
        if len(record) and record.clock.steps[0] >= record.steps[0]:
            return "the event log does not tell when the first steps were trained"
    if axis == "energy" and not record.known["energy_j"]:
        return "the record has no energy: no device told its power"
    return ""


class AxisMap:
    """x of every entry of a record. `sync` brings it up to the record; `xs` belongs to entries 0, 1, and so on.

    Units: steps, tokens, seconds of training (durations of the steps, added up; an unknown one adds nothing), seconds
    since the first start, kWh (unknown energy adds nothing).
    """

    def __init__(self, record: Record, axis: str) -> None:
        self.record = record
        self.axis = axis
        self.generation = 0  # grows when x already handed out have changed
        self.xs: array[float] = record.steps if axis == "step" else array("d")
        self._made_for = self._state
        self._at = 0.0  # the fold so far

    @property
    def _state(self) -> tuple[int, int, int | None]:
        clock = self.record.clock.generation if self.axis == "wall" else 0
        return self.record.generation, clock, self.record.tokens_per_step if self.axis == "tokens" else None

    def sync(self) -> None:
        """Take all new entries in: 0.1 us each."""
        state = self._state
        if state != self._made_for:
            self._made_for = state
            self.generation += 1
            self._at = 0.0
            if self.axis != "step":
                del self.xs[:]
        start, end = len(self.xs), len(self.record)
        if self.axis != "step" and start < end:
            getattr(self, f"_add_{self.axis}")(start, end)

    def x_of(self, step: float) -> float:
        """x of any step: between two entries in proportion, beyond the last one at the mean pace so far."""
        steps, xs = self.record.steps, self.xs
        count = len(xs)
        if self.axis == "step" or not count:
            return step
        if self.axis == "tokens":
            return step * (self.record.tokens_per_step or 0)
        right = bisect_left(steps, step, 0, count)
        if right == count:
            span = steps[count - 1] - steps[0]
            pace = (xs[count - 1] - xs[0]) / span if span > 0 else 0.0
            return xs[count - 1] + (step - steps[count - 1]) * pace
        if steps[right] == step or right == 0:
            return xs[right]
        share = (step - steps[right - 1]) / (steps[right] - steps[right - 1])
        return xs[right - 1] + share * (xs[right] - xs[right - 1])

    def step_at(self, x: float) -> float:
        """The step at an x; the first and the last step beyond the ends."""
        steps, xs = self.record.steps, self.xs
        count = len(xs)
        if self.axis == "step" or not count:
            return x
        right = bisect_left(xs, x)
        if right in (0, count):
            return steps[min(right, count - 1)]
        width = xs[right] - xs[right - 1]
        share = (x - xs[right - 1]) / width if width > 0 else 1.0
        return steps[right - 1] + share * (steps[right] - steps[right - 1])

    # -- the folds --------------------------------------------------------------------------------------------------

    def _add_tokens(self, start: int, end: int) -> None:
        tokens = self.record.tokens_per_step or 0
        self.xs.extend(step * tokens for step in self.record.steps[start:end])

    def _add_active(self, start: int, end: int) -> None:
        at, add = self._at, self.xs.append
        for seconds in self.record.facts["seconds"][start:end]:
            if 0.0 < seconds < MOST_SECONDS:
                at += seconds
            add(at)
        self._at = at

    def _add_wall(self, start: int, end: int) -> None:
        """An entry ends its own duration after the one before it, or after the last anchor before its step."""
        clock, add = self.record.clock, self.xs.append
        origin = clock.origin or 0.0
        steps, durations = self.record.steps, self.record.facts["seconds"]
        anchor = clock.after(steps[start - 1]) if start else 0
        at, count = self._at, len(clock.steps)
        for step, seconds in zip(steps[start:end], durations[start:end], strict=True):
            while anchor < count and clock.steps[anchor] < step:
                at = max(at, clock.times[anchor] - origin)
                anchor += 1
            if 0.0 < seconds < MOST_SECONDS:
                at += seconds
            add(at)
        self._at = at

    def _add_energy(self, start: int, end: int) -> None:
        at, add = self._at, self.xs.append
        for joules in self.record.facts["energy_j"][start:end]:
            if at * JOULES_PER_KWH < joules < MOST_JOULES:
                at = joules / JOULES_PER_KWH
            add(at)
        self._at = at


class Mapped:
    """A series over steps, seen over an axis: x by x, for series with few points.

    What lies beyond the axis's last entry has an estimated x, which is made again as entries come.
    """

    def __init__(self, series: Series) -> None:
        self.series = series
        self._xs: array[float] = array("d")
        self._final = 0  # points whose x will not change
        self._made_for: object = None

    def over(self, axis: AxisMap) -> Series:
        """The series over the axis as it is now."""
        if axis.axis == "step":
            return self.series
        made_for = (axis, axis.generation, self.series.version[0])
        if made_for != self._made_for:
            self._made_for, self._final = made_for, 0
        steps, count = self.series.xs, len(self.series)
        del self._xs[self._final :]
        self._xs.extend([axis.x_of(step) for step in islice(steps, self._final, count)])
        last = axis.record.steps[len(axis.xs) - 1] if axis.xs else -math.inf
        self._final = bisect_right(steps, last, 0, count)
        return self.series.over(self._xs)
