"""Where a run stands: what was trained behind a roll-back or a resume is no longer the run."""

from __future__ import annotations

import pytest

from andrea_engine.run.events import BranchPoint, Event, branch_point


def event(kind: str, session: int, step: int | None = None) -> Event:
    return Event(1.0, kind, session, {} if step is None else {"step": step})


@pytest.mark.parametrize(
    ("events", "point"),
    [
        ([], None),
        ([event("start", 1), event("save_durable", 1, 100)], None),
        ([event("rollback", 2, 100)], BranchPoint(100, 2)),
        ([event("rollback", 2, 100), event("start", 3), event("resumed", 3, 100)], BranchPoint(100, 2)),
        ([event("resumed", 3, 100), event("rollback", 3, 50)], BranchPoint(50, 3)),
        ([event("rollback", 2)], None),
    ],
)
def test_the_newest_one_counts(events: list[Event], point: BranchPoint | None) -> None:
    assert branch_point(events) == point
    for cut in range(len(events) + 1):
        assert branch_point(events[cut:], branch_point(events[:cut])) == point, "also bit by bit"


@pytest.mark.parametrize(
    ("step", "session", "left"), [(100, 1, False), (101, 2, True), (101, 3, False), (99, 3, False), (101, None, False)]
)
def test_what_it_leaves_behind(step: int, session: int | None, left: bool) -> None:
    assert BranchPoint(100, 2).leaves_behind(step, session) is left
