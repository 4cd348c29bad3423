"""Counter-based draws: in range, reproducible, and different for different labels."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.curriculum.draws import integer, uniform

labels = st.lists(st.integers() | st.text(st.characters()), max_size=4)


@settings(deadline=None)
@given(st.integers(), labels)
def test_a_draw_is_in_range_and_repeats(seed: int, given_labels: list[int | str]) -> None:
    drawn = uniform(seed, *given_labels)
    assert 0.0 <= drawn < 1.0
    assert drawn == uniform(seed, *given_labels)
    assert drawn * 2**53 == int(drawn * 2**53)


@settings(deadline=None)
@given(labels, labels)
def test_different_labels_draw_different_numbers(first: list[int | str], second: list[int | str]) -> None:
    if first != second:
        assert uniform(0, *first) != uniform(0, *second)


def test_labels_cannot_run_into_each_other() -> None:
    tuples: list[tuple[int | str, ...]] = [
        (1, 23), (12, 3), (123,), ("123",), ("1", "23"), ("12", "3"), ("1", 23), ("i1:1",), ("", "123"), ("123", ""),
    ]  # fmt: skip
    assert len({uniform(7, *labels) for labels in tuples}) == len(tuples)
    assert len({uniform(seed, "arm", 5) for seed in range(-50, 50)}) == 100


def test_the_numbers_never_change_between_versions() -> None:
    """Independent recomputation: a changed stream would silently change the data order of every stored run."""
    from hashlib import blake2b

    bits = int.from_bytes(blake2b(b"i2:42s3:armi1:0i2:-7", digest_size=16).digest(), "big")
    assert uniform(42, "arm", 0, -7) == (bits // 2**75) / 2**53
    assert integer(7, 42, 42, "arm", 0, -7) == 7 + bits * 36 // 2**128


def test_uniform_fills_the_range_evenly() -> None:
    bins = Counter(int(uniform(3, step) * 16) for step in range(16_000))
    chi_square = sum((bins[i] - 1000) ** 2 / 1000 for i in range(16))
    assert chi_square < 37.7  # 99.9 % quantile, 15 degrees of freedom


def test_integer_reaches_both_ends_evenly() -> None:
    drawn = Counter(integer(7, 42, 3, "span", i) for i in range(36_000))
    assert set(drawn) == set(range(7, 43))
    chi_square = sum((count - 1000) ** 2 / 1000 for count in drawn.values())
    assert chi_square < 66.6  # 99.9 % quantile, 35 degrees of freedom
    assert integer(5, 5, 3) == 5
    with pytest.raises(ValueError, match="empty"):
        integer(6, 5, 3)
