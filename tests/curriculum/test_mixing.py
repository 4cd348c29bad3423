"""Weights and draws: floors, caps, penalty, and the law the draws follow."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from andrea_engine.curriculum.draws import uniform
from andrea_engine.curriculum.mixing import normalise, pick, reach, weigh
from andrea_engine.run.errors import ConfigError

weights = st.floats(0, 1e6)


@pytest.mark.parametrize(
    ("in_focus", "epochs", "floor", "cap", "weight", "held_by"),
    [
        (True, 0.0, 0.0, None, 1.0, "focus"),
        (False, 0.0, 0.0, None, 0.15, "background"),
        (True, 0.25, 0.0, None, 0.8, "focus"),
        (True, 1.0, 0.0, None, 0.5, "penalty"),
        (False, 2.0, 0.0, None, 0.05, "penalty"),
        (False, 0.0, 0.8, None, 0.8, "floor"),
        (True, 9.0, 0.7, None, 0.7, "floor"),
        (True, 0.0, 1.5, None, 1.5, "floor"),
        (True, 0.0, 0.0, 0.3, 0.3, "cap"),
        (False, 0.0, 0.0, 0.3, 0.15, "background"),
        (False, 0.0, 0.4, 0.4, 0.4, "floor"),
        (True, 0.0, 0.0, 0.0, 0.0, "cap"),
    ],
)
def test_weight_and_what_decided_it(
    in_focus: bool, epochs: float, floor: float, cap: float | None, weight: float, held_by: str
) -> None:
    result = weigh(in_focus, 0.15, epochs, floor, cap)
    assert result.weight == pytest.approx(weight)
    assert result.held_by == held_by
    assert result.tentative == (1.0 if in_focus else 0.15)


@settings(deadline=None)
@given(st.booleans(), st.floats(0, 1), st.floats(0, 1e9), weights, st.none() | weights)
def test_the_weight_stays_between_floor_and_cap(
    in_focus: bool, background: float, epochs: float, floor: float, cap: float | None
) -> None:
    assume(cap is None or floor <= cap)
    weight = weigh(in_focus, background, epochs, floor, cap).weight
    assert floor <= weight
    assert cap is None or weight <= cap


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=4), weights, min_size=1, max_size=20), st.floats(0, 1, exclude_max=True))
def test_probabilities_sum_to_one_and_only_weighted_arms_are_picked(mix: dict[str, float], u: float) -> None:
    assume(any(mix.values()))
    assert sum(normalise(mix).values()) == pytest.approx(1.0)
    assert mix[pick(mix, u)] > 0.0
    assert pick(mix, u) == pick(dict(reversed(mix.items())), u)


def test_weights_lie_end_to_end_in_the_order_of_their_names() -> None:
    mix = {"c": 1.0, "a": 1.0, "b": 2.0, "0": 0.0}
    picked = [pick(mix, u) for u in (0.0, 0.2499, 0.25, 0.7499, 0.75, 0.9999)]
    assert picked == ["a", "a", "b", "b", "c", "c"]


def test_no_weight_at_all_is_refused() -> None:
    for mix in ({}, {"a": 0.0, "b": 0.0}):
        with pytest.raises(ConfigError, match="all arms have weight zero"):
            pick(mix, 0.5)


def test_draws_follow_the_normalised_weights() -> None:
    mix = {"chat": 0.8, "dictionary": 0.7, "gutenberg": 1.3, "irc": 0.15, "off": 0.0, "repo-docs": 0.05}
    draws = 100_000
    counts = Counter(pick(mix, uniform(11, "arm", step)) for step in range(draws))
    assert counts["off"] == 0
    expected = {name: draws * weight / 3.0 for name, weight in mix.items() if weight}
    chi_square = sum((counts[name] - mean) ** 2 / mean for name, mean in expected.items())
    assert chi_square < 18.5  # 99.9 % quantile, 4 degrees of freedom


pairs = st.tuples(st.floats(0, 10), st.floats(0, 10)).map(lambda pair: (min(pair), max(pair)))


@settings(deadline=None)
@given(st.lists(pairs, min_size=1, max_size=6), st.integers(1, 6))
def test_reach_agrees_with_trying_every_focus_set(arms: list[tuple[float, float]], size: int) -> None:
    size = min(size, len(arms))
    names = "abcdef"[: len(arms)]
    assume(all(inside > 0.01 for _, inside in arms))
    seen: dict[str, list[float]] = {name: [] for name in names}
    for focus in combinations(names, size):
        mix = {name: arm[name in focus] for name, arm in zip(names, arms, strict=True)}
        for name, probability in normalise(mix).items():
            seen[name].append(probability)
    for name, (least, most) in reach(dict(zip(names, arms, strict=True)), size).items():
        assert least == pytest.approx(min(seen[name]), abs=1e-9)
        assert most == pytest.approx(max(seen[name]), abs=1e-9)
