"""The columns of a record, and what is remembered beside them."""

from __future__ import annotations

import json
import math

import pytest

from andrea_engine.run.loss_entry import LAST_STEP, LossEntry, decode_entries, entry_from, make_entry
from andrea_tui.feed.marks import (
    BRANCH_POINTS,
    BRANCHES_KEPT,
    MARKS_KEPT,
    Marks,
    RunMark,
    add_branch,
    thinned,
)
from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.record import SOURCES_KEPT, Record
from andrea_tui.feed.update import EntryBatch


def take(record: Record, *entries: LossEntry, drop_from: int | None = None) -> Series | None:
    return record.take(EntryBatch(entries, drop_from))


def test_every_column_has_one_value_for_each_entry_and_knows_how_many_are_known() -> None:
    record = Record()
    take(
        record,
        make_entry(step=1, loss=4.0, ema=4.0, lr=0.5, grad_norm=math.inf, seconds=2.0, source="chat"),
        make_entry(step=2, loss=math.nan, ema=4.0, lr=0.25, power_w=130.0, source="docs"),
        make_entry(step=5, loss=3.0, energy_j=9.0, source="chat"),
    )
    assert list(record.steps) == [1, 2, 5]
    assert record.known == {"ema": 2, "seconds": 1, "power_w": 1, "energy_j": 1, "lr": 2, "grad_norm": 1}
    assert record.facts["lr"].tolist()[:2] == [0.5, 0.25]
    assert record.facts["grad_norm"][0] == math.inf, "known to be no number"
    assert math.isnan(record.facts["grad_norm"][1])
    assert {len(column) for column in (*record.facts.values(), record.sources)} == {3}
    assert [record.source(i) for i in range(3)] == ["chat", "docs", "chat"]
    assert list(record.nonfinite_steps) == [1, 2]
    assert record.ema.value_at(2) == (2.0, 4.0)


def test_entries_taken_back_leave_no_trace_but_their_losses() -> None:
    record = Record()
    entries = [
        make_entry(
            step=s, loss=math.nan if s % 4 == 0 else float(s), ema=1.0 if s % 2 else None, seconds=1.0, source="a"
        )
        for s in range(1, 101)
    ]
    take(record, *entries)
    dropped = take(record, make_entry(step=50, loss=7.0), drop_from=50)
    fresh = Record()
    take(fresh, *entries[:49], make_entry(step=50, loss=7.0))
    assert dropped is not None
    assert (len(dropped), dropped.x_min, dropped.x_max) == (51, 50.0, 100.0)
    assert record.known == fresh.known
    assert record.steps == fresh.steps
    assert record.nonfinite_steps == fresh.nonfinite_steps
    assert list(record.sources) == list(fresh.sources)
    assert record.generation > fresh.generation
    assert take(record, drop_from=1000) is None


@pytest.mark.parametrize(("step", "index"), [(0, 0), (1, 0), (2, 1), (4, 1), (5, 2), (99, 2)])
def test_the_entry_of_a_step_or_the_one_before_it(step: float, index: int) -> None:
    record = Record()
    assert record.index_of(step) is None
    take(record, *[make_entry(step=s, loss=1.0) for s in (1, 2, 5)])
    assert record.index_of(step) == index


def test_a_record_that_invents_sources_does_not_fill_the_memory() -> None:
    record = Record()
    take(record, *[make_entry(step=s, loss=1.0, source=f"source {s}") for s in range(SOURCES_KEPT + 50)])
    assert len(record.source_names) == SOURCES_KEPT
    assert record.source(SOURCES_KEPT - 1) == f"source {SOURCES_KEPT - 1}"
    assert record.source(SOURCES_KEPT) == ""


def test_every_step_that_can_be_is_kept_as_it_is() -> None:
    record = Record()
    text = b'{"step": %d, "loss": null}'
    steps = (LAST_STEP - 1, LAST_STEP, LAST_STEP + 1, 2**63 - 1)
    entries = [entry_from(json.loads(text % step)) for step in steps]
    assert [entry is not None for entry in entries] == [True, True, False, False]
    take(record, *[entry for entry in entries if entry is not None])
    assert [int(step) for step in record.steps] == [LAST_STEP - 1, LAST_STEP]
    with pytest.raises(ValueError, match="step"):
        decode_entries(b"[" + text % (LAST_STEP + 1) + b"]")


def test_a_flood_of_saves_never_pushes_out_a_pivot() -> None:
    marks = Marks()
    marks.add(3, "pivot")
    for step in range(10 * MARKS_KEPT):
        marks.add(step, "save")
        marks.add(step, "save")
    assert len(marks) == MARKS_KEPT
    first, *others = marks
    assert first == RunMark(3, "pivot")
    assert [mark.step for mark in others] == list(range(10 * MARKS_KEPT - MARKS_KEPT + 1, 10 * MARKS_KEPT))


def test_branches_that_were_left_are_few_and_small_and_keep_their_extremes() -> None:
    losses = [3.0 + math.sin(i) for i in range(50_000)]
    losses[12_345], losses[40_000], losses[777] = 50.0, -9.0, math.nan
    branch = Series(range(50_000), losses)
    small = thinned(branch, BRANCH_POINTS)
    assert len(small) <= BRANCH_POINTS
    assert (small.x_min, small.x_max) == (0.0, 49_999.0)
    peak, trough = small.peak(0, 50_000), small.trough(0, 50_000)
    column = 49_999 / (BRANCH_POINTS // 4)
    assert peak is not None
    assert peak[1] == 50.0
    assert abs(peak[0] - 12_345) <= column
    assert trough is not None
    assert trough[1] == -9.0
    branches: list[Series] = []
    for _ in range(3 * BRANCHES_KEPT):
        add_branch(branches, branch)
    assert len(branches) == BRANCHES_KEPT
    assert thinned(Series([1, 2], [3, 4]), 8).value_at(2) == (2, 4)
    assert len(thinned(Series(range(100), [math.nan] * 100), 8)) == 0
