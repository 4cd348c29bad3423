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


# -- counters ---------------------------------------------------------------------------------------------------------


def test_counters_are_taken_at_their_word() -> None:
    meter = EnergyMeter()
    meter.add(0.0, 100.0, {"a": 5.0, "b": 1000.0})
    assert meter.joules is None
    meter.add(1.0, 100.0, {"a": 80.0, "b": 1010.0})
    assert (meter.joules, meter.complete, meter.estimated) == (85.0, True, False)


def test_counters_bridge_any_gap() -> None:
    meter = EnergyMeter()
    meter.add(0.0, 100.0, {"a": 5.0})
    meter.add(1.0, None)
    assert not meter.complete, "not yet"
    meter.add(5000.0, 100.0, {"a": 400_005.0})
    assert (meter.joules, meter.complete, meter.estimated) == (400_000.0, True, False)


def test_counters_that_began_anew_are_no_difference() -> None:
    """A driver that is loaded again counts from 0: between the readings the power is integrated."""
    meter = EnergyMeter()
    meter.add(0.0, 100.0, {"a": 5000.0})
    meter.add(2.0, 200.0, {"a": 3.0})
    assert (meter.joules, meter.complete, meter.estimated) == (300.0, True, True)
    meter.add(3.0, 200.0, {"a": 203.0})
    assert meter.joules == 500.0


def test_counters_that_began_anew_after_a_gap_leave_a_lower_bound() -> None:
    meter = EnergyMeter()
    meter.add(0.0, 100.0, {"a": 5000.0})
    meter.add(1.0, 100.0, {"a": 5100.0})
    meter.add(2.0, None)
    meter.add(3.0, 100.0, {"a": 50.0})
    meter.add(4.0, 100.0, {"a": 150.0})
    assert (meter.joules, meter.complete) == (200.0, False)


def test_other_devices_than_before_are_no_difference() -> None:
    meter = EnergyMeter()
    meter.add(0.0, None, {"a": 5000.0})
    meter.add(1.0, None, {"a": 5100.0, "b": 9000.0})
    assert (meter.joules, meter.complete) == (None, False)
    meter.add(2.0, None, {"a": 5150.0, "b": 9001.0})
    assert (meter.joules, meter.complete) == (51.0, False)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=20))
def test_the_sum_of_differences_is_the_difference(amounts: list[float]) -> None:
    meter, total = EnergyMeter(), 1e9
    for second, amount in enumerate(amounts):
        total += amount
        meter.add(float(second), None, {"a": total})
    assert meter.joules == pytest.approx(total - (1e9 + amounts[0]), rel=1e-9, abs=1e-6)
    assert meter.complete
    assert not meter.estimated


def test_how_it_was_measured_is_carried_on() -> None:
    meter = EnergyMeter(1000.0, complete=False, estimated=True)
    meter.add(0.0, 100.0, {"a": 10.0})
    meter.add(1.0, 100.0, {"a": 110.0})
    assert (meter.joules, meter.complete, meter.estimated) == (1100.0, False, True)
