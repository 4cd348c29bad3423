"""Rewards, loss EMA, UCB1 and the focus set, against arithmetic done by hand or by the standard library."""

from __future__ import annotations

import math
from statistics import fmean, stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.curriculum.bandit import LOSS_LIMIT, ArmState, bonus, top_arms


def by_name(name: str) -> float:
    return ord(name[0]) / 1000


def test_the_first_pull_sets_the_ema_and_earns_nothing() -> None:
    arm = ArmState()
    assert arm.observe(5.0) == 0.0
    assert (arm.pulls, arm.ema, arm.mean, arm.spread) == (1, 5.0, 0.0, None)


def test_the_reward_is_measured_before_the_ema_moves() -> None:
    arm = ArmState()
    arm.observe(5.0)
    assert arm.observe(4.5) == pytest.approx(500.0)
    assert arm.ema == pytest.approx(4.95)
    assert arm.observe(6.0) == 0.0
    assert arm.ema == pytest.approx(5.055)
    assert arm.mean == pytest.approx(500 / 3)


@settings(deadline=None)
@given(st.lists(st.floats(0, LOSS_LIMIT), min_size=2, max_size=60))
def test_statistics_agree_with_a_naive_reference(losses: list[float]) -> None:
    arm, ema, rewards = ArmState(), losses[0], []
    for loss in losses:
        rewards.append(max(0.0, ema - loss) * 1000)
        ema = 0.9 * ema + 0.1 * loss
        arm.observe(loss)
    assert arm.ema == pytest.approx(ema, rel=1e-9, abs=1e-9)
    assert arm.mean == pytest.approx(fmean(rewards), rel=1e-9, abs=1e-6)
    assert arm.spread == pytest.approx(stdev(rewards), rel=1e-6, abs=1e-4)


@pytest.mark.parametrize("loss", [None, math.nan, math.inf, -math.inf, 1e308, -1e308, -0.001, LOSS_LIMIT + 1])
def test_a_bad_loss_is_counted_and_moves_nothing(loss: float | None) -> None:
    arm = ArmState()
    for value in (5.0, 4.0):
        arm.observe(value)
    ema, mean, spread = arm.ema, arm.mean, arm.spread
    assert arm.observe(loss) is None
    assert (arm.pulls, arm.rejected) == (3, 1)
    assert (arm.ema, arm.mean, arm.spread) == (ema, mean, spread)
    assert arm.observe(4.0) == pytest.approx(900.0)
    assert arm.mean == pytest.approx((0 + 1000 + 900) / 3)


def test_a_bad_first_loss_leaves_the_arm_fresh() -> None:
    arm = ArmState()
    arm.observe(math.nan)
    assert (arm.pulls, arm.ema) == (1, None)
    assert arm.observe(3.0) == 0.0
    after = (arm.pulls, arm.ema)
    assert after == (2, 3.0)


def test_the_bonus_is_ucb1() -> None:
    assert bonus(2.0, 4, 100) == pytest.approx(2.0 * math.sqrt(math.log(100) / 4))
    assert bonus(2.0, 1, 1) == 0.0
    assert bonus(0.0, 5, 9) == 0.0
    assert bonus(0.0, 0, 9) == math.inf


def test_the_focus_set_is_the_top_third_rounded_up() -> None:
    standing = {name: (10, reward) for name, reward in zip("abcdefg", (1, 7, 3, 6, 2, 5, 4), strict=True)}
    assert top_arms(standing, standing, None, 0.0, by_name) == ("b", "d", "f")
    assert top_arms(standing, standing, 1, 0.0, by_name) == ("b",)
    assert len(top_arms(standing, standing, 50, 0.0, by_name)) == 7
    assert top_arms({"a": (3, 0.0)}, ["a"], None, 1.0, by_name) == ("a",)


def test_an_unpulled_arm_ranks_first_even_without_exploration() -> None:
    standing = {"a": (5, 900.0), "b": (0, 0.0), "c": (5, 100.0)}
    assert top_arms(standing, standing, 2, 0.0, by_name) == ("b", "a")


def test_exploration_favours_the_arm_pulled_less() -> None:
    standing = {"a": (90, 100.0), "b": (10, 95.0)}  # bonuses at c = 10: 2.26 and 6.79
    assert top_arms(standing, standing, 1, 0.0, by_name) == ("a",)
    assert top_arms(standing, standing, 1, 10.0, by_name) == ("a",)
    assert top_arms(standing, standing, 1, 12.0, by_name) == ("b",)


def test_ties_follow_the_tie_break_and_not_the_order_of_the_dictionary() -> None:
    forward = {"a": (3, 1.0), "b": (3, 1.0), "c": (3, 1.0)}
    backward = dict(reversed(forward.items()))
    for size in (1, 2, 3):
        expected = ("c", "b", "a")[:size]
        assert top_arms(forward, forward, size, 1.0, lambda name: -by_name(name)) == expected
        assert top_arms(backward, backward, size, 1.0, lambda name: -by_name(name)) == expected
