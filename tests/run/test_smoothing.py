"""The debiased moving average, against its formula (case C12)."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_engine.run.smoothing import Ema

losses = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


@given(losses, st.sampled_from([0.0, 0.5, 0.9, 0.99, 0.999]))
def test_it_equals_the_weighted_mean(values: list[float], beta: float) -> None:
    """sum of beta^(n-k) x_k over sum of beta^(n-k), in exact arithmetic."""
    ema, b = Ema(beta), Fraction(beta)
    for count in range(1, len(values) + 1):
        got = ema.update(values[count - 1])
        weights = [b ** (count - k) for k in range(1, count + 1)]
        exact = sum(w * Fraction(x) for w, x in zip(weights, values, strict=False)) / sum(weights)
        assert got == pytest.approx(float(exact), rel=1e-9, abs=1e-9 * max(map(abs, values)))


def test_the_first_value_is_not_sticky() -> None:
    """12, then 3 for 200 steps, weight 0.99: biased towards the first value it would stand at 4.2."""
    ema = Ema(0.99)
    assert ema.update(12.0) == pytest.approx(12.0, abs=1e-12)
    for _ in range(200):
        ema.update(3.0)
    weight = 0.01 * 0.99**200 / (1 - 0.99**201)
    assert ema.value == pytest.approx(12 * weight + 3 * (1 - weight), abs=1e-9)
    assert ema.value is not None
    assert ema.value < 3.02


@given(st.floats(-1e6, 1e6), st.integers(1, 300))
def test_a_constant_stays_a_constant(value: float, count: int) -> None:
    ema = Ema()
    for _ in range(count):
        assert ema.update(value) == pytest.approx(value, rel=1e-9)


@given(losses, st.data())
def test_what_is_not_finite_is_left_out(values: list[float], data: st.DataObject) -> None:
    plain, mixed = Ema(), Ema()
    for value in values:
        mixed.update(data.draw(st.sampled_from([None, math.nan, math.inf, -math.inf])))
        assert mixed.update(value) == plain.update(value)


def test_nothing_is_unknown() -> None:
    assert Ema().value is None
    assert Ema().update(math.nan) is None
