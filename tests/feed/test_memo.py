"""Columns that are remembered are the columns that a fresh look would give."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_tui.feed.memo import ColumnMemo, Remembered
from andrea_tui.feed.pyramid import Columns, Series

VALUES = st.lists(st.one_of(st.floats(-9, 9), st.sampled_from([math.nan, math.inf, 0.0])), max_size=80)
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["append", "append", "append", "look", "truncate", "window", "log"]), VALUES), max_size=25
)


def content(columns: Columns) -> list[object]:
    arrays = (columns.lo, columns.hi, columns.first, columns.last)
    return [repr(list(a)) for a in arrays] + [list(columns.count), list(columns.nonfinite), list(columns.nonpositive)]


@settings(deadline=None, max_examples=100)
@given(ACTIONS, st.integers(1, 40))
def test_whatever_happens_between_two_looks(actions: list[tuple[str, list[float]]], n: int) -> None:
    series, memo = Series(), ColumnMemo()
    x0, x1, positive = 0.0, 200.0, False
    for what, values in actions:
        if what == "append":
            start = len(series)
            series.extend([i / 2 for i in range(start, start + len(values))], values)
        elif what == "truncate":
            series.truncate_from(len(values))
        elif what == "window":
            x0, x1 = x0 + len(values), x1 + 2 * len(values)
        elif what == "log":
            positive = not positive
        source = Remembered(series.over(series.xs), memo, "axis")
        got = source.columns(x0, x1, n, positive=positive)
        assert content(got) == content(series.columns(x0, x1, n, positive=positive))


def test_another_axis_is_looked_at_anew() -> None:
    series, memo = Series([1, 2, 3], [1.0, 2.0, 3.0]), ColumnMemo()
    memo.columns(series, "one", 0, 10, 5, positive=False)
    series.xs[2] = 9.0
    assert list(memo.columns(series, "one", 0, 10, 5, positive=False).count) == [1, 2, 0, 0, 0], "not looked at"
    assert list(memo.columns(series, "two", 0, 10, 5, positive=False).count) == [1, 1, 0, 0, 1]
