from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andrea_tui.feed.pyramid import Series
from andrea_tui.plotting.scales import Scale, YRange, nice_bounds, robust_range
from andrea_tui.plotting.ticks import Tick, count_ticks, log_ticks, nice_ticks, time_ticks

# A busy machine must not fail a test.
STEADY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

ANY = st.floats(allow_nan=True, allow_infinity=True)


@pytest.mark.parametrize(
    ("ticks", "labels"),
    [
        (nice_ticks(3.0, 9.0, 3), ["4.0", "6.0", "8.0"]),
        (nice_ticks(0.0, 160.0, 3), ["0", "50", "100", "150"]),
        (nice_ticks(0.0, 3e-4, 3), ["0", "1e-4", "2e-4", "3e-4"]),
        (nice_ticks(1e-4, 3e-4, 4), ["1e-4", "1.5e-4", "2e-4", "2.5e-4", "3e-4"]),
        (nice_ticks(3.40, 3.42, 2), ["3.40", "3.41", "3.42"]),
        (nice_ticks(-1.0, 1.0, 2), ["-1.0", "0.0", "1.0"]),
        (count_ticks(0, 112_619, 5), ["0", "20k", "40k", "60k", "80k", "100k"]),
        (count_ticks(0, 110_000, 4), ["0", "25k", "50k", "75k", "100k"]),
        (count_ticks(0, 3, 10), ["0", "1", "2", "3"]),
        (count_ticks(123_456, 123_466, 2), ["123460", "123465"]),
        (log_ticks(1.0, 10.0, 3), ["1", "3", "10"]),
        (log_ticks(1.0, 10.0, 4), ["1", "2", "5", "10"]),
        (log_ticks(1e-6, 1.0, 4), ["1e-6", "1e-4", "0.01", "1"]),
        (log_ticks(3.4, 3.45, 3), ["3.40", "3.42", "3.44"]),
        (time_ticks(0, 36_000, 5), ["0", "2 h", "4 h", "6 h", "8 h", "10 h"]),
        (time_ticks(0, 600, 5), ["0", "2 min", "4 min", "6 min", "8 min", "10 min"]),
        (time_ticks(0, 9 * 86_400, 5), ["0", "2 d", "4 d", "6 d", "8 d"]),
        (time_ticks(0, 2, 4), ["0.0 s", "0.5 s", "1.0 s", "1.5 s", "2.0 s"]),
    ],
)
def test_tick_labels(ticks: list[Tick], labels: list[str]) -> None:
    assert [tick.label for tick in ticks] == labels


@STEADY
@given(ANY, ANY, st.integers(-1, 40))
def test_ticks_are_few_inside_rising_and_tell_each_other_apart(lo: float, hi: float, n: int) -> None:
    for make in (nice_ticks, count_ticks, log_ticks, time_ticks):
        ticks = make(lo, hi, n)
        assert len(ticks) <= max(n, 0) + 1
        values = [tick.value for tick in ticks]
        assert values == sorted(set(values))
        slack = (hi - lo) * 1e-6 if ticks else 0.0
        assert all(lo - slack <= value <= hi + slack for value in values)
        assert len({tick.label for tick in ticks}) == len(ticks)


@STEADY
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 20))
def test_ticks_label_what_they_stand_at_and_are_not_missing(lo: float, span: float, n: int) -> None:
    ticks = nice_ticks(lo, lo + span, n)
    assert len(ticks) >= n / 3
    for tick in ticks:
        number = tick.label
        for letter, factor in (("k", 1e3), ("M", 1e6)):
            if number.endswith(letter):
                value = float(number[:-1]) * factor
                break
        else:
            value = float(number)
        assert value == pytest.approx(tick.value, abs=span * 1e-4)


@STEADY
@given(ANY, ANY, st.booleans(), st.integers(2, 200), ANY)
def test_a_scale_is_usable_whatever_it_is_given(a: float, b: float, log: bool, rows: int, value: float) -> None:
    scale = Scale(a, b, log)
    assert scale.lo < scale.hi
    row_of = scale.row_of(rows)
    assert row_of(scale.hi) == 0
    assert row_of(scale.lo) == rows - 1
    row = row_of(value)
    assert (row is None) == (not scale.plottable(value)) == (scale.fraction(value) is None)
    if row is not None:
        assert abs(row) <= 1_000_000
        if scale.lo <= value <= scale.hi:
            assert 0 <= row < rows


def test_rows_follow_the_scale() -> None:
    row_of = Scale(0.0, 10.0).row_of(11)
    assert [row_of(v) for v in (10.0, 7.0, 0.0, 11.0, -1.0)] == [0, 3, 10, -1, 11]
    log_row = Scale(1.0, 1000.0, log=True).row_of(4)
    assert [log_row(v) for v in (1000.0, 100.0, 10.0, 1.0)] == [0, 1, 2, 3]
    assert [log_row(v) for v in (0.0, -0.5, math.nan, math.inf)] == [None] * 4
    assert Scale(1.0, 100.0, log=True).fraction(10.0) == pytest.approx(0.5)
    assert Scale(1.0, 100.0, log=True).value(0.5) == pytest.approx(10.0)
    assert Scale(2.0, 4.0).value(0.25) == 2.5


def test_nice_bounds_are_round_and_contain_the_data() -> None:
    assert nice_bounds(3.1, 8.7) == (3.0, 9.0)
    assert nice_bounds(0.0, 131.0) == (0.0, 150.0)
    assert nice_bounds(0.0, 0.0) == (0.0, 1.0)
    assert nice_bounds(3.2, 8.7, log=True) == (3.0, 10.0)
    assert nice_bounds(1.2e-4, 3e-4, log=True) == pytest.approx((1e-4, 3e-4))


@STEADY
@given(st.floats(-1e9, 1e9), st.floats(0, 1e9))
def test_nice_bounds_contain_any_data(lo: float, span: float) -> None:
    low, high = nice_bounds(lo, lo + span)
    slack = (high - low) * 1e-8
    assert low - slack <= lo
    assert lo + span <= high + slack


def test_y_range_grows_at_once_and_shrinks_only_after_patience() -> None:
    y = YRange(patience=3)
    assert y.update(3.1, 8.7) == (3.0, 9.0)
    assert y.update(3.1, 14.0)[1] >= 14.0
    grown = y.bounds
    assert y.update(3.1, 8.0) == grown
    assert y.update(3.1, 8.0) == grown
    assert y.update(3.1, 14.0) == grown  # the data fill it again: patience starts anew
    assert y.update(3.1, 8.0) == grown
    assert y.update(3.1, 8.0) == grown
    assert y.update(3.1, 8.0) == nice_bounds(3.1, 8.0)
    assert y.update(math.inf, -math.inf) == nice_bounds(3.1, 8.0)  # nothing to draw changes nothing
    y.reset(log=True)
    assert y.update(-1.0, 0.0) == (0.1, 1.0)
    assert y.update(3.2, 8.7) == (3.0, 10.0)


@STEADY
@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e6)), min_size=1, max_size=40), st.booleans())
def test_y_range_always_contains_the_data(updates: list[tuple[float, float]], log: bool) -> None:
    y = YRange(log=log, patience=2)
    for lo, span in updates:
        low, high = y.update(lo, lo + span)
        assert low < high
        if not log or lo > 1e-280:
            slack = 1e-7 * max(abs(lo), abs(lo + span), high - low)
            assert low - slack <= lo
            assert lo + span <= high + slack


def test_robust_range_leaves_out_warm_up_and_lone_spikes_but_not_the_curve() -> None:
    ys = [11.0 - i / 1000 if i < 1000 else 4.0 + (i % 7) / 10 for i in range(100_000)]
    ys[70_000] = 50.0
    columns = Series(range(100_000), ys).columns(0, 100_000, 200)
    assert robust_range(columns) == (4.0, 4.6)
    everything = robust_range(columns, skip=0.0)
    assert everything is not None
    assert everything[1] < 50.0
    few = Series(range(5), [1.0, 2.0, 50.0, 2.0, 1.0]).columns(0, 5, 100)
    assert robust_range(few) == (1.0, 50.0)
    rising = Series(range(1000), [float(i) for i in range(1000)]).columns(0, 999, 100)
    assert robust_range(rising, skip=0.0) == (0.0, 999.0)
    assert robust_range(Series([1], [math.nan]).columns(0, 2, 10)) is None
    assert robust_range(Series([1], [3.0]).columns(0, 2, 10)) == (3.0, 3.0)
