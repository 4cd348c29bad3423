"""The keep rule (case C09)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_engine.run.retention import steps_to_remove

some_steps = st.lists(st.integers(1, 2_000_000), max_size=60)


@given(some_steps, st.sets(st.integers(1, 2_000_000), max_size=10), st.integers(-3, 15), st.none() | st.integers(0, 9))
def test_what_always_stays(valid: list[int], pinned: set[int], keep_last: int, keep_every: int | None) -> None:
    removed = steps_to_remove(valid, pinned, keep_last, keep_every)
    kept = set(valid) - set(removed)
    newest = sorted(set(valid))[-max(2, keep_last) :]
    assert kept >= set(newest)
    assert len(kept) >= min(2, len(set(valid)))
    assert kept >= pinned & set(valid)
    if keep_every:
        assert kept >= {step for step in valid if step % keep_every == 0}
    assert set(removed) <= set(valid)
    assert len(removed) == len(set(removed))
    expected = {s for s in valid if s not in newest and s not in pinned and not (keep_every and s % keep_every == 0)}
    assert set(removed) == expected
    assert steps_to_remove(kept, pinned, keep_last, keep_every) == []


def test_across_a_million_numbers_count_and_not_texts() -> None:
    valid = [999_700, 999_800, 999_900, 1_000_000, 1_000_100]
    assert sorted(steps_to_remove(valid, set(), 2, None)) == [999_700, 999_800, 999_900]


@pytest.mark.parametrize("keep_last", [-1, 0, 1, 2])
def test_fewer_than_two_are_never_left(keep_last: int) -> None:
    assert steps_to_remove([100, 200, 300], set(), keep_last, None) == [100]


def test_the_documented_example() -> None:
    valid = range(100, 10_001, 100)
    kept = set(valid) - set(steps_to_remove(valid, {300}, 10, 5000))
    assert kept == {300, 5000, *range(9100, 10_001, 100)}
