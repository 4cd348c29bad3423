"""The smoothed line: the engine's own average, over all values, and never changed afterwards."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.run.smoothing import Ema
from andrea_tui.feed.minmax import MinMax
from andrea_tui.feed.smoothing import BETAS, Smoothed

VALUES = st.lists(st.one_of(st.floats(-100, 100), st.sampled_from([math.nan, math.inf, -math.inf])), max_size=300)
STEADY = settings(deadline=None)


def line_of(values: list[float], beta: float) -> list[float]:
    smoothed = Smoothed(MinMax(values), beta)
    assert smoothed.sync()
    return list(smoothed.line.values)


@STEADY
@given(VALUES, st.sampled_from([b for b in BETAS.values() if b]))
def test_it_is_the_average_that_the_engine_records(values: list[float], beta: float) -> None:
    ema = Ema(beta)
    expected = [ema.update(value) for value in values]
    for got, wanted in zip(line_of(values, beta), expected, strict=True):
        assert math.isnan(got) if wanted is None else got == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@STEADY
@given(VALUES, VALUES, st.sampled_from(list(BETAS.values())), st.integers(1, 40))
def test_the_past_of_the_line_never_changes(values: list[float], more: list[float], beta: float, limit: int) -> None:
    raw = MinMax(values)
    live = Smoothed(raw, beta)
    while not live.sync(limit):
        pass
    before = [repr(value) for value in live.line.values]
    raw.extend(more)
    while not live.sync(limit):
        pass
    after = [repr(value) for value in live.line.values]
    assert after[: len(before)] == before
    assert after == [repr(value) for value in line_of(values + more, beta)]


def test_a_constant_stays_one_and_nan_costs_nothing_but_its_step() -> None:
    assert line_of([math.nan, 5.0, math.nan, 5.0], 0.999)[1:] == pytest.approx([5.0, 5.0, 5.0])
    assert math.isnan(line_of([math.nan, 5.0], 0.999)[0])
    assert line_of([1.0, 3.0], 0.5) == pytest.approx([1.0, (0.25 * 1 + 0.5 * 3) / 0.75])


def test_values_taken_back_are_taken_out_of_the_line() -> None:
    raw = MinMax([1.0, 2.0, 50.0, 60.0])
    smoothed = Smoothed(raw, 0.9)
    smoothed.sync()
    raw.truncate(2)
    raw.extend([3.0])
    smoothed.sync()
    assert list(smoothed.line.values) == line_of([1.0, 2.0, 3.0], 0.9)
