"""What the store keeps for the chart from events and entries."""

from __future__ import annotations

import math
import time

from andrea_engine.run.condition import Condition
from andrea_engine.run.events import Event
from andrea_engine.run.loss_entry import LossEntry, make_entry
from andrea_tui.feed.marks import MARKS_KEPT, RunMark
from andrea_tui.feed.store import ARMS_VALIDATED, Store
from andrea_tui.feed.update import EntryBatch, Update

TRAINING = Condition("training", alive=True, sentence="")


def look(store: Store, *entries: LossEntry, events: tuple[Event, ...] = (), drop_from: int | None = None) -> None:
    batches = (EntryBatch(entries, drop_from),) if entries or drop_from is not None else ()
    store.apply(Update(time.time(), TRAINING, None, batches=batches, events=events))


def event(kind: str, step: int, at: float = 9.0, **facts: object) -> Event:
    return Event(at, kind, 1, {"step": step, **facts})


def test_alarms_and_gradients_that_are_not_finite_are_marks() -> None:
    store = Store()
    look(
        store,
        make_entry(step=1, loss=2.0, grad_norm=math.inf),
        make_entry(step=2, loss=math.nan, grad_norm=math.nan),
        make_entry(step=3, loss=2.0),
        events=(event("gate", 3, alarm="consecutive"), event("gate", 4, alarm="recovered")),
    )
    assert list(store.marks) == [RunMark(3, "alarm"), RunMark(1, "nonfinite")], "a loss that is not finite marks itself"
    look(store, drop_from=1)
    assert list(store.marks) == [RunMark(3, "alarm")]


def test_a_run_of_a_thousand_restarts_keeps_its_memory() -> None:
    store = Store()
    for session in range(1000):
        look(store, make_entry(step=1, loss=2.0), make_entry(step=2, loss=3.0), drop_from=1 if session else None)
        look(store, events=(event("resumed", session + 1), event("save_durable", session, pinned=True)))
    assert len(store.abandoned) == 8
    assert len(store.marks) == MARKS_KEPT


def test_validation_by_arm_and_arms_without_end() -> None:
    store = Store()
    arms: dict[str, object] = {f"arm {i}": float(i) for i in range(ARMS_VALIDATED + 20)}
    arms["bad"] = "rubbish"
    look(store, events=(event("validation", 500, loss=3.0, arms=arms), event("validation", 1000, loss=2.0, arms=[])))
    look(store, events=(event("validation", 500, loss=4.0, arms={"arm 7": 9.0}),))
    assert len(store.arm_validation) == ARMS_VALIDATED
    assert store.arm_validation["arm 7"].value_at(500) == (500, 9.0)
    assert [store.validation.value_at(x) for x in (500, 1000)] == [(500, 4.0)] * 2, "made again from step 500 on"


def test_the_wall_clock_is_fed_by_events_in_the_order_in_which_a_tailer_reads_them() -> None:
    """Entries of a look may lie after its events, never before those of an earlier look."""
    store = Store()
    look(store, make_entry(step=1, loss=1.0, seconds=1.0), events=(event("resumed", 0, 100.0),))
    look(store, make_entry(step=2, loss=1.0, seconds=1.0), events=(event("sample", 1, 150.0),))
    assert (store.record.clock.steps, store.record.clock.origin) == ([0, 1], 100.0)
    assert store.record.clock.generation == 0, "nothing known before has changed"
    look(store, events=(event("resumed", 1, 90.0),))
    assert store.record.clock.steps == [0, 1], "the clock was set back"
    look(store, events=(event("resumed", 1, 190.0),))
    assert (store.record.clock.times, store.record.clock.generation) == ([100.0, 190.0], 1)
