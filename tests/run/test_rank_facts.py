"""Which of several processes holds the others back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_engine.run.rank_facts import SLOW, Rank, straggler


def ranks(*seconds: float | None) -> list[Rank]:
    return [Rank(rank=n, host=f"node{n}", pid=100 + n, step_seconds=own) for n, own in enumerate(seconds)]


@pytest.mark.parametrize(
    ("seconds", "slow", "others"),
    [
        ((), None, None),
        ((1.0,), None, None),
        ((1.0, 1.2), None, None),
        ((1.0, 1.3), 1, 1.0),
        ((2.0, 1.0, 1.1, 1.2), 0, 1.1),
        ((1.0, 3.0, 3.0, 3.0), None, None),  # one is fast, and nobody waits for that
        ((1.0, None, 5.0), None, None),
        ((0.0, 0.0, 1.0), None, None),  # no time at all is no measure
    ],
)
def test_the_slowest_is_named_where_the_others_wait(
    seconds: tuple[float | None, ...], slow: int | None, others: float | None
) -> None:
    found = straggler(ranks(*seconds))
    assert (None if found is None else (found.rank.rank, found.others)) == (None if slow is None else (slow, others))


def test_the_sentence_names_rank_machine_and_factor() -> None:
    found = straggler(ranks(1.0, 1.5))
    assert found is not None
    assert found.sentence == "rank 1 on node1 needs 1.5 x the time of the others, and each step waits for it"


@given(st.lists(st.floats(0.001, 1000.0), min_size=2, max_size=9))
def test_only_the_slowest_is_ever_named(seconds: list[float]) -> None:
    found = straggler(ranks(*seconds))
    if found is not None:
        assert found.rank.step_seconds == max(seconds)
        assert found.ratio > SLOW
