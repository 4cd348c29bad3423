"""What the record tells of the minutes before the console was opened."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from andrea_engine.run.events import Event
from andrea_engine.run.heartbeat import Gpu, Telemetry
from andrea_engine.run.loss_entry import LossEntry, make_entry
from andrea_tui.feed.load import MOST_READINGS, POWER_SECONDS, LoadHistory
from andrea_tui.feed.past import Past
from andrea_tui.feed.record import Record
from andrea_tui.feed.store import RATES_KEPT, Store
from andrea_tui.feed.update import EntryBatch, Update
from tests.feed.test_store import STOPPED, TRAINING, beat

ENDED = 50_000.0


def record_of(*seconds: float | None, watts: float | None = 100.0) -> Record:
    record = Record()
    record.take(EntryBatch(steps(*seconds, watts=watts)))
    return record


def steps(*seconds: float | None, watts: float | None = 100.0) -> tuple[LossEntry, ...]:
    return tuple(make_entry(step=i, loss=2.0, seconds=s, power_w=watts) for i, s in enumerate(seconds, 1))


def test_steps_lie_behind_each_other() -> None:
    assert Past(record_of(1.0, 2.0, 4.0), 3, ENDED, -1, 600.0).moments == [ENDED - 6.0, ENDED - 4.0, ENDED]


def test_what_the_engine_has_not_told_of_is_left_out() -> None:
    assert Past(record_of(1.0, 2.0, 4.0), 2, ENDED, -1, 600.0).moments == [ENDED - 2.0, ENDED]


def test_it_ends_with_the_session_with_the_time_and_where_a_duration_is_unknown() -> None:
    even = record_of(*[1.0] * 20)
    assert len(Past(even, 20, ENDED, 15, 600.0).moments) == 5
    assert len(Past(even, 20, ENDED, -1, 7.0).moments) == 8
    assert len(Past(record_of(1.0, None, 1.0, 1.0), 4, ENDED, -1, 600.0).moments) == 2
    assert Past(Record(), 20, ENDED, -1, 600.0).moments == []


def test_where_the_clock_knows_better_it_is_believed() -> None:
    record = record_of(1.0, 1.0, 1.0)
    record.clock.add(2, ENDED - 31.0, 3)  # a sample was made for 30 seconds
    assert Past(record, 3, ENDED, -1, 600.0).moments == [ENDED - 32.0, ENDED - 31.0, ENDED]


def test_a_rate_a_second() -> None:
    slow = Past(record_of(4.0, 4.0), 2, ENDED, -1, 600.0)
    assert slow.rates(100) == [25.0] * 5
    fast = Past(record_of(*[0.125] * 81), 81, ENDED, -1, 600.0)
    assert fast.rates(100) == [800.0] * 11
    assert Past(record_of(0.0, 0.0), 2, ENDED, -1, 600.0).rates(100) == []


def test_power_is_thinned_and_gaps_stay_gaps() -> None:
    assert Past(record_of(*[0.5] * 5), 5, ENDED, -1, 600.0).watts() == [
        (ENDED - 2.0, 100.0),
        (ENDED - 1.0, 100.0),
        (ENDED, 100.0),
    ]
    assert Past(record_of(1.0, 1.0, watts=None), 2, ENDED, -1, 600.0).watts() == []


def reading(time: float, *powers: float) -> Telemetry:
    gpus = [Gpu(uuid=f"GPU-{i}", name="GPU", used=True, power_w=power) for i, power in enumerate(powers)]
    return Telemetry(time=time, gpus=gpus)


def opened(entries: tuple[LossEntry, ...], telemetry: Telemetry, *events: Event, complete: bool = True) -> Update:
    at = telemetry.time
    alive = beat(len(entries), time=at, step_time=at, tokens_per_second=7.0, telemetry=telemetry)
    return Update(at, TRAINING, alive, batches=(EntryBatch(entries),), events=events, complete=complete)


def store_of(*updates: Update) -> Store:
    store = Store()
    store.record.tokens_per_step = 100
    for update in updates:
        store.apply(update)
    return store


def test_whoever_opens_the_console_late_sees_the_last_minutes() -> None:
    store = store_of(opened(steps(*[2.0] * 400), reading(ENDED, 130.0)))
    (line,) = store.load.series().values()
    assert list(line.xs) == [ENDED - ago for ago in range(int(POWER_SECONDS) - 2, -2, -2)]
    assert line.value_at(ENDED - 100) == (ENDED - 100, 100.0)
    assert line.value_at(ENDED) == (ENDED, 130.0)
    assert list(store.rates) == [50.0] * (RATES_KEPT - 1) + [7.0]


def test_the_power_of_several_devices_is_not_that_of_each() -> None:
    store = store_of(opened(steps(*[2.0] * 400), reading(ENDED, 130.0, 120.0)))
    assert [len(line) for line in store.load.series().values()] == [1, 1]


def test_a_long_record_tells_when_it_is_read_and_only_once() -> None:
    first = opened(steps(*[2.0] * 10), reading(ENDED, 130.0), complete=False)
    store = store_of(first)
    assert len(store.rates) == 1
    store.apply(replace(first, batches=(), complete=True))
    assert list(store.rates) == [50.0] * 18 + [7.0]
    store.apply(replace(first, batches=(), complete=True))
    assert len(store.rates) == 19


def test_the_rates_of_a_run_that_has_ended_are_told_too_and_only_once() -> None:
    ended = replace(opened(steps(*[2.0] * 10), reading(ENDED, 130.0)), condition=STOPPED)
    store = store_of(ended)
    assert list(store.rates) == [50.0] * 19
    assert store.load.series() == {}
    store.apply(replace(ended, batches=()))
    assert len(store.rates) == 19
    store.apply(opened((), reading(ENDED + 60.0, 130.0)))
    assert list(store.rates) == [50.0] * 19 + [7.0], "resumed"


def test_an_engine_that_has_just_started_takes_nothing_from_the_chart() -> None:
    history = LoadHistory()
    history.take(Telemetry(time=ENDED, cpu_percent=80.0))
    history.take(Telemetry(time=ENDED + 30.0))
    history.take(Telemetry(time=ENDED + 31.0, cpu_percent=70.0))
    assert not history.is_power
    assert [list(line.values.values) for line in history.series().values()] == [[80.0, 70.0]]


def test_a_session_does_not_begin_before_its_resume() -> None:
    resumed = Event(ENDED - 100.0, "resumed", 2, {"step": 390})
    store = store_of(opened(steps(*[2.0] * 400), reading(ENDED, 130.0), resumed))
    assert list(store.rates) == [50.0] * 18 + [7.0]


def test_after_a_roll_back_the_session_is_what_the_newest_resume_says() -> None:
    events = [Event(ENDED - 900.0, "resumed", 2, {"step": 390}), Event(ENDED - 800.0, "resumed", 3, {"step": 0})]
    store = store_of(opened(steps(*[2.0] * 50), reading(ENDED, 130.0), *events))
    assert len(store.rates) == 99


def test_durations_that_cannot_be_end_the_past() -> None:
    for odd in (-1.0, -1e30, 1e9, None):
        past = Past(record_of(1.0, 1.0, odd, 1.0, 1.0), 5, ENDED, -1, 600.0)
        assert past.moments == [ENDED - 1.0, ENDED]
        assert past.rates(100) == [100.0, 100.0]


def test_a_flood_of_readings_is_bounded() -> None:
    history = LoadHistory()
    for number in range(10 * MOST_READINGS):
        history.take(reading(ENDED + number / 1e6, 100.0))
    assert [len(line) for line in history.series().values()] == [MOST_READINGS]


def test_a_console_that_looks_seldom_still_counts_seconds() -> None:
    store = store_of(opened((), reading(ENDED, 130.0)))
    for at in (ENDED + 1.0, ENDED + 6.0, ENDED + 600.0):
        store.apply(opened((), reading(at, 130.0)))
    assert len(store.rates) == 1 + 1 + 5 + 10


@pytest.mark.parametrize("time", [-1.7e308, 0.0, 1.7e308])
def test_no_time_is_absurd_enough_to_end_it(time: float) -> None:
    store = store_of(opened(steps(1.0, -1e30, 1e-38, 1e38), reading(-time, 1e308)))
    store.apply(opened((), reading(time, 1e308)))
    assert 1 <= len(store.rates) <= RATES_KEPT
