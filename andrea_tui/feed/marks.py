"""What is remembered beside the curve: events that are marks on it, and branches that were left. Both bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from andrea_tui.feed.pyramid import Series

MARKS_KEPT = 400
BRANCHES_KEPT = 8
BRANCH_POINTS = 2048


class RunMark(msgspec.Struct, frozen=True):
    """An event on the loss curve. `kind`: save, start, halt, pivot, alarm, nonfinite (a gradient)."""

    step: int
    kind: str


class Marks:
    """Each mark once, in the order in which they came. Where there are too many, the oldest of the most frequent kind
    goes: a flood of saves never pushes out a pivot."""

    def __init__(self) -> None:
        self._marks: dict[RunMark, None] = {}
        self._kinds: Counter[str] = Counter()

    def __iter__(self) -> Iterator[RunMark]:
        return iter(self._marks)

    def __len__(self) -> int:
        return len(self._marks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Marks) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def add(self, step: int, kind: str) -> None:
        mark = RunMark(step, kind)
        if mark in self._marks:
            return
        self._marks[mark] = None
        self._kinds[kind] += 1
        if len(self._marks) > MARKS_KEPT:
            often = max(self._kinds, key=self._kinds.__getitem__)
            self._remove(next(mark for mark in self._marks if mark.kind == often))

    def drop(self, kind: str, first: int) -> None:
        """Forget those of a kind from a step on."""
        for mark in [mark for mark in self._marks if mark.kind == kind and mark.step >= first]:
            self._remove(mark)

    def _remove(self, mark: RunMark) -> None:
        del self._marks[mark]
        self._kinds[mark.kind] -= 1


def add_branch(branches: list[Series], branch: Series) -> None:
    """Remember an abandoned branch, thinned to what a screen can show; the oldest gives way."""
    branches.append(thinned(branch, BRANCH_POINTS))
    del branches[:-BRANCHES_KEPT]


def thinned(series: Series, most: int) -> Series:
    """At most `most` (8 or more) points with the same ends and extremes: first, least, greatest and last of equal
    columns. Values that are not finite are left out where anything is."""
    if len(series) <= most or series.x_min is None or series.x_max is None:
        return series
    count = most // 4
    columns = series.columns(series.x_min, series.x_max, count)
    width = (series.x_max - series.x_min) / count
    points: list[tuple[float, float]] = []
    for number, (lo, hi) in enumerate(zip(columns.lo, columns.hi, strict=True)):
        if lo <= hi:
            at = series.x_min + number * width
            values = (columns.first[number], lo, hi, columns.last[number])
            points += [(at + share * width, value) for share, value in zip((0.0, 0.25, 0.75, 1.0), values, strict=True)]
    return Series([x for x, _ in points], [y for _, y in points])
