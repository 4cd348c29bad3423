"""When steps were trained: the moments that the event log tells, for the wall-clock axis.

An entry of the loss record holds how long its step took, not when it was. The event log has both a step and a time
where the engine stood still between two steps: at a resume, a sample, a validation. Between these moments the
steps' own durations are added up.
"""

from __future__ import annotations

from bisect import bisect_left

MOST_SECONDS = 1e11  # the year 5138: a damaged event log
LONGEST_STEP = 7 * 86_400.0  # seconds; beyond, the entry is damaged
ANCHORS = ("resumed", "sample", "validation")  # written by the training loop itself, between two steps


class WallClock:
    """`steps[i]` had ended at `times[i]` (seconds since the epoch); both strictly and never falling.

    A later anchor at an earlier step (a rollback, a resume) stands in for all beyond it; a time before the last one
    (the machine's clock was set back) is left out. `generation` grows when something known before is no longer true.
    """

    __slots__ = ("generation", "origin", "steps", "times")

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.times: list[float] = []
        self.origin: float | None = None  # the first start
        self.generation = 0

    def add(self, step: int, time: float, recorded: float | None) -> None:
        """An anchor; `recorded` is the newest step that the record holds already."""
        if not 0.0 <= time < MOST_SECONDS or (self.times and time < self.times[-1]):
            return
        if self.origin is None:
            self.origin = time
        while self.steps and self.steps[-1] >= step:
            self.steps.pop()
            self.times.pop()
        self.steps.append(step)
        self.times.append(time)
        if recorded is not None and step < recorded:
            self.generation += 1

    def after(self, step: float) -> int:
        """Index of the first anchor at or after `step`."""
        return bisect_left(self.steps, step)
