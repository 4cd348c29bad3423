from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.train.schedule import learning_rate

PEAK = 3e-4


def test_warm_up_rises_in_equal_parts() -> None:
    # With a floor ratio of 1 the cosine is flat, so only the warm-up remains.
    rates = [learning_rate(t, PEAK, 1.0, warmup_steps=4, total_steps=100) for t in range(6)]
    assert rates == pytest.approx([PEAK / 4, PEAK / 2, 3 * PEAK / 4, PEAK, PEAK, PEAK])


@pytest.mark.parametrize(
    ("step0", "share"),
    [
        (0, 1.0),
        (250, 0.1 + 0.9 * (1 + math.sqrt(0.5)) / 2),
        (500, 0.55),
        (750, 0.1 + 0.9 * (1 - math.sqrt(0.5)) / 2),
        (1000, 0.1),
        (1001, 0.1),
        (10**9, 0.1),
    ],
)
def test_cosine_falls_from_the_peak_to_the_floor_and_stays(step0: int, share: float) -> None:
    assert learning_rate(step0, PEAK, 0.1, warmup_steps=0, total_steps=1000) == pytest.approx(share * PEAK)


def test_warm_up_multiplies_the_cosine() -> None:
    # Half way through the plan and a quarter into a warm-up of 2000.
    assert learning_rate(499, PEAK, 0.1, 2000, 998) == pytest.approx(0.55 * PEAK / 4)


def test_the_published_schedule_starts_and_ends_where_it_should() -> None:
    assert learning_rate(0, PEAK, 0.1, 2000, 200_000) == pytest.approx(PEAK / 2000)
    assert learning_rate(1999, PEAK, 0.1, 2000, 200_000) == pytest.approx(PEAK, rel=1e-3)
    assert learning_rate(199_999, PEAK, 0.1, 2000, 200_000) == pytest.approx(PEAK / 10)


@settings(deadline=None)
@given(
    step0=st.integers(0, 10**7),
    peak=st.floats(0, 10),
    floor_ratio=st.floats(0, 1),
    warmup=st.integers(0, 10**5),
    total=st.integers(1, 10**6),
)
def test_rate_stays_in_its_bounds(step0: int, peak: float, floor_ratio: float, warmup: int, total: int) -> None:
    rate = learning_rate(step0, peak, floor_ratio, warmup, total)
    assert 0 <= rate <= peak * (1 + 1e-12)
    if step0 + 1 >= warmup:
        assert rate >= peak * floor_ratio * (1 - 1e-12)
        assert learning_rate(step0 + 1, peak, floor_ratio, warmup, total) <= rate


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, PEAK, 0.1, 10, 100), "step must be 0 or more"),
        ((0, -PEAK, 0.1, 10, 100), "peak"),
        ((0, math.nan, 0.1, 10, 100), "peak"),
        ((0, math.inf, 0.1, 10, 100), "peak"),
        ((0, PEAK, -0.1, 10, 100), "floor"),
        ((0, PEAK, 1.1, 10, 100), "floor"),
        ((0, PEAK, 0.1, -1, 100), "warm-up"),
        ((0, PEAK, 0.1, 10, 0), "total steps"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: tuple[int, float, float, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learning_rate(*arguments)


def test_schedule_needs_no_torch() -> None:
    code = "import sys, andrea_engine.train.schedule; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
