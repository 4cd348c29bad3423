"""Columns remembered from one frame to the next: while a view stands still, only its newest columns are made again."""

from __future__ import annotations

from bisect import bisect_right

from andrea_tui.feed.pyramid import Columns, Series


class ColumnMemo:
    """The last answer for one curve. `stamp`: whatever, besides the series itself, decides its x (its axis)."""

    __slots__ = ("_columns", "_count", "_key", "_series")

    def __init__(self) -> None:
        self._series: Series | None = None
        self._key: object = None
        self._columns: Columns | None = None
        self._count = 0

    def columns(self, series: Series, stamp: object, x0: float, x1: float, n: int, *, positive: bool) -> Columns:
        """As `Series.columns`. The result is changed in place by the next call."""
        known, before = self._columns, self._series
        key = (stamp, series.values.generation, x0, x1, n, positive)
        count = len(series)
        same = before is not None and before.values is series.values and before.xs is series.xs
        if known is None or not same or key != self._key or not 0 < self._count <= count:
            known = series.columns(x0, x1, n, positive=positive)
        elif count > self._count:
            column = bisect_right(range(n), series.xs[self._count - 1], key=lambda k: x0 + k * ((x1 - x0) / n)) - 1
            series.fill(known, max(column, 0), positive=positive)
        self._series, self._key, self._columns, self._count = series, key, known, count
        return known


class Remembered:
    """A series as a curve's source, with a memo behind its columns."""

    __slots__ = ("_memo", "_series", "_stamp")

    def __init__(self, series: Series, memo: ColumnMemo, stamp: object) -> None:
        self._series, self._memo, self._stamp = series, memo, stamp

    @property
    def identity(self) -> object:
        """Equal as long as all but the newest columns of an answer are."""
        return self._series.values, self._series.values.generation, self._stamp

    @property
    def x_min(self) -> float | None:
        return self._series.x_min

    def columns(self, x0: float, x1: float, n: int, *, positive: bool = False) -> Columns:
        return self._memo.columns(self._series, self._stamp, x0, x1, n, positive=positive)

    def peak(self, x0: float, x1: float) -> tuple[float, float] | None:
        return self._series.peak(x0, x1)

    def trough(self, x0: float, x1: float) -> tuple[float, float] | None:
        return self._series.trough(x0, x1)
