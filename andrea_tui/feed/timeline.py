"""When things of a recorded run become visible in its replay: its steps' own durations, one after the other.

The moment of an entry is the sum of `seconds` up to and including it, with one second for each pause between two
sessions. Time that is no step's (preparing, sampling, saving, validating) does not pass; events are put between the
steps by their distance to the events whose step is known.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import groupby

import msgspec

from andrea_engine.run.events import Event
from andrea_engine.run.loss_entry import LossEntry
from andrea_tui.feed.clock import ANCHORS, LONGEST_STEP

PAUSE = 1.0  # seconds that a pause between two sessions lasts in the replay
UNTIMED = 1.0  # seconds of a step before the first one whose duration is known


class Span(msgspec.Struct, frozen=True):
    """Entries [first, end) of one session; its first step began at `begin` (seconds of the replay)."""

    session: int
    first: int
    end: int
    begin: float


class Timeline:
    """Moments of entries in the order of the record, branches that were left included. 16 bytes an entry."""

    def __init__(self) -> None:
        self._ends: array[float] = array("d")
        self._steps: array[int] = array("q")
        self._starts: list[tuple[int, int, float]] = []  # session, first entry, begin
        self._usual = UNTIMED

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def end(self) -> float:
        """The moment of the last entry."""
        return self._ends[-1] if self._ends else 0.0

    def add(self, entries: Sequence[LossEntry]) -> None:
        """Append entries. A step without a duration takes as long as the one before it."""
        for entry in entries:
            session = entry.session or 0
            now = self.end
            if not self._starts or self._starts[-1][0] != session:
                now += PAUSE if self._starts else 0.0
                self._starts.append((session, len(self), now))
            if entry.seconds is not None and 0.0 <= entry.seconds <= LONGEST_STEP:
                self._usual = entry.seconds
            self._ends.append(now + self._usual)
            self._steps.append(entry.step)

    def count(self, moment: float) -> int:
        """How many entries have a moment at or before this one."""
        return bisect_right(self._ends, moment)

    def moment(self, index: int) -> float:
        return self._ends[index]

    def spans(self) -> list[Span]:
        """The sessions in their order."""
        lasts = [*(first for _, first, _ in self._starts[1:]), len(self)]
        return [
            Span(number, first, end, begin) for (number, first, begin), end in zip(self._starts, lasts, strict=True)
        ]

    def moment_in(self, span: Span, step: int) -> float | None:
        """When a step of this session had ended; None when it is none of its steps. The step before its first one
        had ended when it began."""
        index = bisect_left(self._steps, step, span.first, span.end)
        if index < span.end and self._steps[index] == step:
            return self._ends[index]
        return span.begin if step == self._steps[span.first] - 1 else None


def place(timeline: Timeline, events: Sequence[Event]) -> list[float]:
    """The moment of each event, never falling: not before its step, and as long after the last anchor as it was."""
    spans = {span.session: span for span in timeline.spans()}
    moments: list[float] = []
    for session, group in groupby(events, key=lambda event: event.session):
        before = moments[-1] if moments else 0.0
        span = spans.get(session)
        if span is None:  # a start that came to nothing: it falls into a pause
            moments += [before for _ in group]
        else:
            moments += _place_session(timeline, span, list(group), before)
    return moments


def _place_session(timeline: Timeline, span: Span, events: Sequence[Event], before: float) -> list[float]:
    known = [None if event.step is None else timeline.moment_in(span, event.step) for event in events]
    limits = _next_anchors(events, known, timeline.moment(span.end - 1))
    moments: list[float] = []
    anchor: tuple[float, float] | None = None  # time of the event, its moment
    now = max(before, span.begin)
    for event, moment, limit in zip(events, known, limits, strict=True):
        if event.kind in ANCHORS and moment is not None:
            anchor = event.time, moment
        elapsed = 0.0 if anchor is None else max(0.0, event.time - anchor[0])
        guess = span.begin if anchor is None else min(anchor[1] + elapsed, limit)
        now = max(now, guess, -math.inf if moment is None else moment)
        moments.append(now)
    return moments


def _next_anchors(events: Sequence[Event], known: Sequence[float | None], end: float) -> list[float]:
    """For each event the moment of the next anchor at or after it, else the end of the session."""
    limits: list[float] = []
    limit = end
    for event, moment in zip(reversed(events), reversed(known), strict=True):
        if event.kind in ANCHORS and moment is not None:
            limit = moment
        limits.append(limit)
    limits.reverse()
    return limits


class WallTime:
    """What time it was at a moment of the replay: that of the last event before it, and what has passed since.

    `last`: seconds since the epoch at `end`, for a run without events.
    """

    def __init__(self, moments: Sequence[float], events: Sequence[Event], end: float, last: float) -> None:
        self._moments = list(moments)
        self._times = [event.time for event in events]
        self._first = last - end

    def at(self, moment: float) -> float:
        """Seconds since the epoch."""
        index = bisect_right(self._moments, moment) - 1
        if index < 0:
            return self._times[0] if self._times else self._first + moment
        now = self._times[index] + moment - self._moments[index]
        later = index + 1 < len(self._times) and self._times[index + 1] >= self._times[index]
        return min(now, self._times[index + 1]) if later else now
