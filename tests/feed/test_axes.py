"""From steps to tokens, hours and kWh and back: by arithmetic, and whatever the order in which things become known."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.run.loss_entry import make_entry
from andrea_tui.feed.axes import AXES, AxisMap, Mapped, unknown
from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.record import Record
from andrea_tui.feed.update import EntryBatch

STEADY = settings(deadline=None)


def record_of(rows: list[tuple[int, float | None, float | None]]) -> Record:
    """From (step, seconds, joules)."""
    record = Record()
    add(record, rows)
    return record


def add(record: Record, rows: list[tuple[int, float | None, float | None]], drop_from: int | None = None) -> None:
    entries = tuple(make_entry(step=s, loss=1.0, seconds=t, energy_j=j) for s, t, j in rows)
    record.take(EntryBatch(entries, drop_from))


def synced(record: Record, axis: str) -> AxisMap:
    mapped = AxisMap(record, axis)
    mapped.sync()
    return mapped


def test_each_axis_by_arithmetic() -> None:
    record = record_of([(1, 10.0, 3.6e6), (2, 20.0, 7.2e6), (5, 30.0, 3.6e7)])
    record.tokens_per_step = 8192
    record.clock.add(0, 1000.0, None)
    assert list(synced(record, "step").xs) == [1, 2, 5]
    assert list(synced(record, "tokens").xs) == [8192, 2 * 8192, 5 * 8192]
    assert list(synced(record, "active").xs) == [10, 30, 60]
    assert list(synced(record, "wall").xs) == [10, 30, 60]
    assert list(synced(record, "energy").xs) == [1, 2, 10]


def test_wall_time_takes_in_samples_and_the_night_between_two_sessions() -> None:
    record = record_of([(s, 10.0, None) for s in range(1, 7)])
    record.clock.add(0, 1000.0, None)
    record.clock.add(2, 1035.0, None)  # a sample after step 2 was ready 15 s after that step had ended
    record.clock.add(4, 40_000.0, None)  # stopped, and resumed from step 4
    record.clock.add(5, 39_000.0, None)  # the machine's clock was set back: left out
    assert list(synced(record, "wall").xs) == [10, 20, 45, 55, 39_010, 39_020]


def test_a_moment_that_becomes_known_late_is_taken_in() -> None:
    record = record_of([(s, 10.0, None) for s in range(1, 5)])
    record.clock.add(0, 0.0, record.loss.x_max)
    axis = synced(record, "wall")
    assert list(axis.xs) == [10, 20, 30, 40]
    record.clock.add(2, 100.0, record.loss.x_max)
    axis.sync()
    assert list(axis.xs) == [10, 20, 110, 120]
    assert axis.generation == 1


def test_a_rollback_and_its_clock() -> None:
    record = record_of([(s, 10.0, None) for s in range(1, 6)])
    record.clock.add(0, 0.0, None)
    axis = synced(record, "wall")
    record.clock.add(3, 500.0, record.loss.x_max)
    add(record, [(4, 10.0, None)], drop_from=4)
    axis.sync()
    assert list(axis.xs) == [10, 20, 30, 510]


@pytest.mark.parametrize(
    ("axis", "words"),
    [("step", ""), ("tokens", "run.toml"), ("active", "how long"), ("wall", "how long"), ("energy", "power")],
)
def test_what_is_not_known_is_said(axis: str, words: str) -> None:
    reason = unknown(record_of([(1, None, None)]), axis)
    assert words in reason
    assert bool(reason) == (axis != "step")


def test_a_fork_does_not_know_when_its_first_steps_were_trained() -> None:
    record = record_of([(s, 1.0, None) for s in range(1, 9)])
    record.clock.add(6, 100.0, None)
    assert "first steps" in unknown(record, "wall")


def test_unknown_times_and_energy_add_nothing() -> None:
    record = record_of([(1, None, None), (2, 5.0, 3.6e6), (3, None, None), (4, -2.0, 1.8e6)])
    assert list(synced(record, "active").xs) == [0, 5, 5, 5]
    assert list(synced(record, "energy").xs) == [0, 1, 1, 1]


ROWS = st.lists(
    st.tuples(st.integers(1, 5), st.one_of(st.none(), st.floats(-1, 100)), st.one_of(st.none(), st.floats(0, 1e7))),
    min_size=1,
    max_size=60,
)


@STEADY
@given(
    ROWS,
    st.lists(st.tuples(st.integers(0, 150), st.floats(0, 1e5)), max_size=6),
    st.integers(1, 60),
    st.sampled_from(AXES),
    st.one_of(st.none(), st.integers(1, 100)),
)
def test_an_axis_never_falls_and_is_the_same_at_once_and_bit_by_bit(
    gaps: list[tuple[int, float | None, float | None]],
    moments: list[tuple[int, float]],
    piece: int,
    axis: str,
    back: int | None,
) -> None:
    steps = accumulate(gap for gap, _, _ in gaps)
    rows = [(step, t, j) for step, (_, t, j) in zip(steps, gaps, strict=True)]
    live, late = Record(), Record()
    live.tokens_per_step = late.tokens_per_step = 4
    mapped = AxisMap(live, axis)
    mapped.sync()
    before: list[float] = []
    for start in range(0, len(rows), piece):
        add(live, rows[start : start + piece])
        mapped.sync()
        assert list(mapped.xs)[: len(before)] == before, "the past stays"
        before = list(mapped.xs)
    for step, moment in moments:
        live.clock.add(step, moment, live.loss.x_max)
        late.clock.add(step, moment, None)
    if back is not None:
        add(live, [], drop_from=back)
        rows = [row for row in rows if row[0] < back]
    mapped.sync()
    add(late, rows)
    at_once = synced(late, axis)
    assert list(mapped.xs) == list(at_once.xs)
    assert all(a <= b for a, b in pairwise(mapped.xs))
    for index, (step, _, _) in enumerate(rows):
        assert mapped.x_of(step) == mapped.xs[index]
        assert mapped.x_of(mapped.step_at(mapped.xs[index])) == pytest.approx(mapped.xs[index], abs=1e-6)


def test_between_and_beyond_the_entries() -> None:
    axis = synced(record_of([(10, 5.0, None), (20, 10.0, None), (30, 15.0, None)]), "active")
    assert list(axis.xs) == [5, 15, 30]
    assert axis.x_of(15) == 10
    assert axis.x_of(5) == 5
    assert axis.x_of(50) == 30 + 20 * 25 / 20
    assert axis.step_at(10) == 15
    assert axis.step_at(-3) == 10
    assert axis.step_at(99) == 30


def test_measurements_are_mapped_and_made_again_where_they_were_estimates() -> None:
    record = record_of([(1, 1.0, None), (2, 1.0, None)])
    axis = synced(record, "active")
    mapped = Mapped(Series([2, 4], [70.0, 80.0]))
    assert mapped.series.over(axis.xs) is not mapped.series
    assert list(mapped.over(axis).xs) == [2, 4]
    add(record, [(3, 10.0, None), (4, 10.0, None)])
    axis.sync()
    assert list(mapped.over(axis).xs) == [2, 22]
    assert mapped.over(AxisMap(record, "step")) is mapped.series


def test_an_axis_of_nothing() -> None:
    for name in AXES:
        axis = synced(Record(), name)
        assert not axis.xs
        assert math.isfinite(axis.x_of(3))
        assert math.isfinite(axis.step_at(3))
