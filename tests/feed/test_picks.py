"""Other series than the loss, against a naive selection."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.run.loss_entry import LossEntry, make_entry
from andrea_tui.feed.axes import AxisMap
from andrea_tui.feed.picks import Pick
from andrea_tui.feed.record import Record
from andrea_tui.feed.update import EntryBatch

NUMBER = st.one_of(st.none(), st.floats(-10, 10, width=32), st.sampled_from([math.nan, math.inf]))
ENTRIES = st.lists(
    st.tuples(
        st.floats(0, 10), NUMBER, NUMBER, st.one_of(st.none(), st.floats(-1, 9, width=32)), st.sampled_from("ab")
    ),
    max_size=50,
)
KEYS = ["loss", "lr", "grad_norm", "power_w", "rate", "arm:a", "arm:nobody"]


def naive(entries: list[LossEntry], key: str) -> list[tuple[int, float]]:
    """(step, value) of the entries that have the fact; NaN where it is not finite."""
    found = []
    for entry in entries:
        value: float | None
        if key == "loss":
            value = math.nan if entry.loss is None else entry.loss
        elif key.startswith("arm:"):
            value = (math.nan if entry.loss is None else entry.loss) if entry.source == key[4:] else None
        elif key == "rate":
            value = 512 / entry.seconds if entry.seconds is not None and entry.seconds > 0 else None
        else:
            value = math.nan if key in (entry.nonfinite or ()) else getattr(entry, key)
        if value is not None:
            found.append((entry.step, value))
    return found


@settings(deadline=None, max_examples=150)
@given(ENTRIES, st.sampled_from(KEYS), st.integers(1, 50), st.one_of(st.none(), st.integers(1, 50)))
def test_a_pick_is_what_the_entries_hold_at_once_or_bit_by_bit(
    rows: list[tuple[float, float | None, float | None, float | None, str]], key: str, piece: int, back: int | None
) -> None:
    entries = [
        make_entry(step=i, loss=loss if i % 7 else math.nan, lr=lr, grad_norm=grad, power_w=lr, seconds=t, source=arm)
        for i, (loss, lr, grad, t, arm) in enumerate(rows, 1)
    ]
    record = Record()
    record.tokens_per_step = 512
    pick, axis = Pick(record, key), AxisMap(record, "tokens")
    for start in range(0, len(entries), piece):
        record.take(EntryBatch(tuple(entries[start : start + piece])))
        assert pick.sync()
        axis.sync()
        pick.over(axis)
    if back is not None:
        record.take(EntryBatch((), back))
        entries = entries[: back - 1]
    while not pick.sync(3):
        pass
    axis.sync()
    series = pick.over(axis)
    expected = naive(entries, key)
    assert [x / 512 for x in series.xs[: len(series)]] == [step for step, _ in expected]
    for got, (_, wanted) in zip(series.values.values, expected, strict=True):
        assert math.isnan(got) if math.isnan(wanted) else got == pytest.approx(wanted, rel=1e-6)


def test_while_every_entry_has_the_fact_nothing_is_kept_twice() -> None:
    record = Record()
    record.take(EntryBatch(tuple(make_entry(step=s, loss=1.0, lr=0.5) for s in range(1, 30))))
    pick, axis = Pick(record, "lr"), AxisMap(record, "step")
    pick.sync()
    assert pick.rows is None
    assert pick.over(axis).xs is record.steps
    record.take(EntryBatch((make_entry(step=30, loss=1.0), make_entry(step=31, loss=1.0, lr=0.25))))
    pick.sync()
    assert pick.over(axis).value_at(31) == (31, 0.25)
    assert len(pick.over(axis)) == 30


def test_a_rate_needs_the_tokens_of_a_step() -> None:
    record = Record()
    record.take(EntryBatch((make_entry(step=1, loss=1.0, seconds=2.0),)))
    pick = Pick(record, "rate")
    pick.sync()
    assert not len(pick.values)
    record.tokens_per_step = 100
    pick.sync()
    assert list(pick.values.values) == [50.0]
