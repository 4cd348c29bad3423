"""The minutes before this console was opened: what the record tells of the rate and the power of the newest steps."""

from __future__ import annotations

import math
from bisect import bisect_right
from statistics import median

from andrea_tui.feed.clock import LONGEST_STEP
from andrea_tui.feed.record import Record

MOST_STEPS = 20_000  # that are looked through: two hundred a second would be that many in a hundred seconds
RECENT_STEPS = 100  # whose median is the rate, as in the engine's own


class Past:
    """The steps of one session that ended in the `seconds` before `ended`, the moment at which the step `step` did.

    `begun`: the step that the session went on from. `moments` are seconds since the epoch, ascending, one a step.
    Moments lie as far apart as the steps took; where the clock of the record knows an earlier one, that is taken.
    """

    def __init__(self, record: Record, step: int, ended: float, begun: int, seconds: float) -> None:
        self._record = record
        self.moments: list[float] = []
        last = record.index_of(step)
        self._first = self._end = 0 if last is None else last + 1
        moment, clock = ended, record.clock
        while self._first > 0 and self._end - self._first < MOST_STEPS:
            index = self._first - 1
            number, took = record.steps[index], record.facts["seconds"][index]
            anchor = clock.after(number)
            if anchor < len(clock.steps) and clock.steps[anchor] == number:
                moment = min(moment, clock.times[anchor])
            if number <= begun or not 0.0 <= took <= LONGEST_STEP or ended - moment > seconds:
                break
            self.moments.append(moment)
            self._first = index
            moment -= took
        self.moments.reverse()

    def rates(self, tokens_per_step: int) -> list[float]:
        """Tokens a second at each second of the past."""
        took = self._record.facts["seconds"][self._first : self._end]
        found: list[float] = []
        for number in self._each_second():
            typical = median(took[max(0, number + 1 - RECENT_STEPS) : number + 1])
            if typical > 0:
                found.append(tokens_per_step / typical)
        return found

    def watts(self) -> list[tuple[float, float]]:
        """(moment, watts) of the steps whose power is known, one a second at most."""
        power = self._record.facts["power_w"]
        numbers = dict.fromkeys(self._each_second())  # of a step that took longer there is one
        known = [(self.moments[number], power[self._first + number]) for number in numbers]
        return [(moment, watts) for moment, watts in known if math.isfinite(watts)]

    def _each_second(self) -> list[int]:
        """For each second of the past the last step that had ended by then, as an index of `moments`."""
        if not self.moments:
            return []
        first, last = self.moments[0], self.moments[-1]
        return [bisect_right(self.moments, last - ago) - 1 for ago in range(int(last - first), -1, -1)]
