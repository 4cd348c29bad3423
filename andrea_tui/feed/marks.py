"""What is remembered beside the curve: events that are marks on it, and branches that were left. Both bounded."""

from __future__ import annotations

from collections import Counter

import msgspec

from andrea_tui.feed.pyramid import Series

MARKS_KEPT = 400
BRANCHES_KEPT = 8
BRANCH_POINTS = 2048


class RunMark(msgspec.Struct, frozen=True):
    """An event on the loss curve. `kind`: save, start, halt, pivot, alarm, nonfinite (a gradient)."""

    step: int
    kind: str


def add_mark(marks: list[RunMark], mark: RunMark) -> None:
    """Remember a mark once. Where there are too many, the oldest of the most frequent kind goes: a flood of saves
    never pushes out a pivot."""
    if mark in marks:
        return
    marks.append(mark)
    if len(marks) > MARKS_KEPT:
        kinds = Counter(mark.kind for mark in marks)
        often = max(kinds, key=lambda kind: kinds[kind])
        marks.remove(next(mark for mark in marks if mark.kind == often))


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
