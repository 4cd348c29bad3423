"""What the screen knows, from updates that tell only what is new."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from andrea_engine.run.arms import MOST_ARMS
from andrea_engine.run.condition import Condition
from andrea_engine.run.config import parse_config
from andrea_engine.run.events import Event
from andrea_engine.run.heartbeat import Gpu, Heartbeat, Telemetry
from andrea_engine.run.loss_entry import LossEntry, make_entry
from andrea_engine.run.samples import Sample
from andrea_tui.feed.load import total_power
from andrea_tui.feed.marks import RunMark
from andrea_tui.feed.store import EVENTS_KEPT, Store
from andrea_tui.feed.update import EntryBatch, Update

TRAINING = Condition("training", alive=True, sentence="training")
STOPPED = Condition("stopped", alive=False, sentence="saved and stopped")


def update(*entries: LossEntry, drop_from: int | None = None, condition: Condition = TRAINING) -> Update:
    batches = (EntryBatch(entries, drop_from),) if entries else ()
    return Update(time.time(), condition, None, batches=batches)


def entries(first: int, last: int, ema: float = 3.0, slope: float = 0.0) -> list[LossEntry]:
    return [make_entry(step=s, loss=4.0, ema=ema + slope * s, energy_j=10.0 * s) for s in range(first, last + 1)]


def event(kind: str, step: int | None = None, **facts: object) -> Event:
    return Event(time.time(), kind, 1, facts if step is None else {"step": step, **facts})


def with_events(*events: Event) -> Update:
    return replace(update(), events=events)


def beat(step: int = 7, **fields: object) -> Heartbeat:
    known: dict[str, object] = {
        "pid": 1,
        "process_start": 1,
        "boot_id": "",
        "host": "",
        "session": 1,
        "phase": "training",
        "phase_since": 0.0,
        "time": 1000.0,
        "step": step,
    }
    return Heartbeat(**(known | fields))  # type: ignore[arg-type]


def test_an_empty_store_answers_everything_with_unknown() -> None:
    store = Store()
    assert (store.step, store.total_steps, store.n_params, store.gate_low) == (0, None, None, None)
    assert (store.arms, store.focus, store.telemetry, store.ema_trend(), store.age()) == ([], "", None, None, None)
    assert store.nonfinite == 0


def test_entries_and_what_is_abandoned() -> None:
    store = Store()
    store.apply(update(*entries(1, 10)))
    store.apply(update(*entries(8, 9, ema=2.5), drop_from=8))
    assert (len(store.loss), store.step) == (9, 9)
    assert store.ema.value_at(9) == (9.0, 2.5)
    assert [(series.x_min, series.x_max) for series in store.abandoned] == [(8.0, 10.0)]
    assert store.energy_j == 90.0
    store.apply(Update(time.time(), TRAINING, None, batches=(EntryBatch((), 9, entries(8, 8)[0]),)))
    assert store.step == 8
    store.apply(Update(time.time(), TRAINING, None, batches=(EntryBatch((), 0),)))
    assert (store.step, store.last, len(store.loss)) == (0, None, 0)


def test_each_update_is_a_new_version() -> None:
    store = Store()
    store.apply(update())
    store.apply(update())
    assert store.version == 2


def test_what_an_update_does_not_tell_stays() -> None:
    store = Store()
    config = parse_config('preset = "demo"', "run.toml")
    sample = Sample(step=3, text="x")
    store.apply(replace(update(), config=config, samples=(sample,), snapshot={"arms": {"chat": {}}}, disk_free=5))
    store.apply(update())
    assert (store.config, store.samples, store.disk_free) == (config, (sample,), 5)
    assert [arm.name for arm in store.arms] == ["chat"]
    assert (store.total_steps, store.n_params) == (config.schedule.steps, config.n_params)


def test_problems_go_when_they_are_solved() -> None:
    store = Store()
    store.apply(replace(update(), problems=("run.toml is not valid TOML",)))
    assert store.problems
    store.apply(update())
    assert store.problems == ()


def test_a_loss_that_is_not_finite_is_counted_by_step() -> None:
    store = Store()
    bad = [make_entry(step=s, loss=math.nan, grad_norm=math.inf) for s in (1, 2)]
    store.apply(update(*bad, make_entry(step=3, loss=2.0, grad_norm=math.inf), make_entry(step=4, loss=2.0)))
    assert store.nonfinite == 3
    assert store.loss.nonfinite_total == 2
    store.apply(update(make_entry(step=2, loss=2.0), drop_from=2))
    assert store.nonfinite == 1


def test_marks_on_the_curve() -> None:
    store = Store()
    store.apply(
        with_events(
            event("start"),
            event("resumed", 0),
            event("save_durable", 100, reason="cadence", pinned=False),
            event("save_durable", 137, reason="operator", pinned=True),
            event("resumed", 137),
            event("pivot", 200),
            event("halt", 300),
            event("halt"),
        )
    )
    assert list(store.marks) == [
        RunMark(137, "save"),
        RunMark(137, "start"),
        RunMark(200, "pivot"),
        RunMark(300, "halt"),
    ]


def test_scores_by_step_and_a_sample_made_again() -> None:
    store = Store()
    for step, total in ((100, 80.0), (200, 85.0), (300, 20.0), (200, 90.0)):
        store.apply(with_events(event("sample", step, total=total, consecutive_low=1 if total < 30 else 0)))
    assert len(store.score) == 2
    assert store.score.value_at(200) == (200.0, 90.0)
    assert store.gate_low == 0
    store.apply(with_events(event("sample", 300, total="rubbish"), event("sample", None, total=1.0)))
    assert len(store.score) == 2


def test_an_alarm_stands_until_it_is_over() -> None:
    store = Store()
    store.apply(with_events(event("gate", 300, alarm="consecutive", text="3 samples in a row below 30")))
    assert store.alarm == "3 samples in a row below 30"
    store.apply(with_events(event("gate", 400, alarm="recovered", text="recovered")))
    assert store.alarm == ""
    store.apply(with_events(event("save_failed", 400, error="disk full")))
    assert store.alarm == "disk full"
    store.apply(with_events(event("save_durable", 500)))
    assert store.alarm == ""


def test_the_event_log_is_bounded() -> None:
    store = Store()
    store.apply(with_events(*(event("notice", text=str(i)) for i in range(EVENTS_KEPT + 50))))
    assert len(store.events) == EVENTS_KEPT
    assert store.events[-1].text("text") == str(EVENTS_KEPT + 49)


def test_what_is_deep_or_long_in_an_event_is_not_kept() -> None:
    store = Store()
    deep: dict[str, object] = {"a": [{}] * 1000, "text": "short", "long": "x" * 100_000, "n" * 1000: 1}
    store.apply(with_events(Event(1.0, "notice", 1, deep), event("notice", text="plain")))
    assert [kept.facts for kept in store.events] == [{"text": "short", "n" * 64: 1}, {"text": "plain"}]


def test_arms_are_bounded_and_made_once_for_each_snapshot() -> None:
    store = Store()
    store.apply(replace(update(), snapshot={"arms": {f"arm {n}": {} for n in range(2 * MOST_ARMS)}}))
    assert len(store.arms) == MOST_ARMS
    assert store.arms is store.arms
    store.apply(replace(update(), snapshot={"arms": {"one": {}}}))
    assert [arm.name for arm in store.arms] == ["one"]


def test_a_dead_engines_heartbeat_is_not_the_present() -> None:
    store = Store()
    telemetry = Telemetry(time=5.0, cpu_percent=50.0)
    store.apply(replace(update(*entries(1, 3)), heartbeat=beat(900, telemetry=telemetry)))
    assert (store.step, store.telemetry) == (900, telemetry)
    store.apply(replace(update(condition=STOPPED), heartbeat=beat(900, telemetry=telemetry)))
    assert (store.step, store.telemetry) == (3, None)


@pytest.mark.parametrize(
    ("powers", "total"), [([], None), ([131.0], 131.0), ([131.0, 100.0], 231.0), ([131.0, None], None), ([None], None)]
)
def test_power_is_never_a_sum_with_holes(powers: list[float | None], total: float | None) -> None:
    gpus = [Gpu(uuid=str(i), name="GPU", power_w=power) for i, power in enumerate(powers)]
    assert total_power(Telemetry(gpus=gpus)) == total


def test_the_trend_is_per_thousand_steps() -> None:
    store = Store()
    store.apply(update(*entries(1, 19, slope=-0.002)))
    assert store.ema_trend() is None, "too young"
    store.apply(update(*entries(20, 5000, slope=-0.002)))
    assert store.ema_trend() == pytest.approx(-2.0)


def test_the_live_snapshot_wins_over_an_older_one() -> None:
    store = Store()
    store.apply(replace(update(), heartbeat=beat(50, curriculum={"arms": {"live": {}}})))
    assert [arm.name for arm in store.arms] == ["live"]
    store.apply(replace(update(), heartbeat=beat(49, curriculum={"arms": {"older": {}}})))
    assert [arm.name for arm in store.arms] == ["live"]


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
KINDS = [
    "start",
    "resumed",
    "save_durable",
    "save_failed",
    "save_seen",
    "save_writing",
    "sample",
    "gate",
    "halt",
    "pivot",
]
FACTS = ["step", "total", "text", "error", "alarm", "pinned", "bytes", "seconds", "reason", "consecutive_low"]


@settings(deadline=None)
@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FACTS), JSON), JSON)
def test_events_and_snapshots_of_any_shape_are_taken(kind: str, facts: dict[str, object], snapshot: object) -> None:
    store = Store()
    whole = snapshot if isinstance(snapshot, dict) else {"arms": {"x": snapshot}, "focus": snapshot}
    store.apply(replace(update(*entries(1, 30)), events=(Event(1.0, kind, 1, facts),) * 2, snapshot=whole))
    assert isinstance(store.gate_low, int | None)
    assert isinstance(store.alarm, str)
    assert isinstance(store.focus, str)
    assert all(isinstance(arm.name, str) for arm in store.arms)
