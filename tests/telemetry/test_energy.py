"""Energy as the integral of power."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_engine.telemetry.energy import EnergyMeter

readings = st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1000)), min_size=2, max_size=30)


def test_unknown_is_not_zero() -> None:
    meter = EnergyMeter()
    assert meter.joules is None
    meter.add(0.0, 130.0)
    assert meter.joules is None
    meter.add(1.0, 130.0)
    assert meter.joules == 130.0
    assert meter.complete


def test_a_trapezoid_by_hand() -> None:
    meter = EnergyMeter()
    for time, watts in ((0.0, 100.0), (2.0, 200.0), (3.0, 0.0)):
        meter.add(time, watts)
    assert meter.joules == 2 * 150 + 1 * 100


@given(readings)
def test_the_trapezoid_rule_in_exact_arithmetic(steps: list[tuple[float, float]]) -> None:
    meter, time, exact, before = EnergyMeter(), 0.0, Fraction(0), None
    for gap, watts in steps:
        later = time + gap
        if later - time > 10:
            later = time
        meter.add(later, watts)
        if before is not None:
            exact += (Fraction(later) - Fraction(time)) * (Fraction(before) + Fraction(watts)) / 2
        time, before = later, watts
    assert meter.joules == pytest.approx(float(exact), rel=1e-9, abs=1e-9)
    assert meter.complete


def test_sixteen_days_at_130_watts() -> None:
    """Readings once a second for a day, times 16.1: about 50 kWh."""
    meter = EnergyMeter()
    for second in range(86_401):
        meter.add(float(second), 130.0)
    assert meter.joules == 130.0 * 86_400
    assert 16.1 * meter.joules / 3.6e6 == pytest.approx(50.2, abs=0.1)


@pytest.mark.parametrize("gap", [10.001, 3600.0, -1.0])
def test_a_gap_is_reported_and_not_bridged(gap: float) -> None:
    meter = EnergyMeter()
    meter.add(100.0, 130.0)
    meter.add(101.0, 130.0)
    meter.add(101.0 + gap, 130.0)
    meter.add(102.0 + gap, 130.0)
    assert meter.joules == 260.0
    assert not meter.complete


def test_a_reading_that_is_missing_makes_the_sum_incomplete() -> None:
    meter = EnergyMeter()
    meter.add(0.0, None)  # nothing was measured yet: unknown, not incomplete
    assert (meter.joules, meter.complete) == (None, True)
    meter.add(1.0, 130.0)
    meter.add(2.0, 130.0)
    meter.add(3.0, None)
    meter.add(4.0, 130.0)
    assert (meter.joules, meter.complete) == (130.0, False)


def test_a_sum_is_carried_on() -> None:
    meter = EnergyMeter(1000.0)
    meter.add(0.0, 100.0)
    assert meter.joules == 1000.0
    meter.add(1.0, 100.0)
    assert (meter.joules, meter.complete) == (1100.0, True)
    unmeasured = EnergyMeter(1000.0)
    unmeasured.add(0.0, None)
    assert (unmeasured.joules, unmeasured.complete) == (1000.0, False)
