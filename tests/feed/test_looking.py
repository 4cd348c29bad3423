"""How often the run directory is looked at: often while an engine runs, seldom where nothing happens."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from andrea_engine.run.condition import Condition
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import Telemetry
from andrea_tui.feed import tailer as module
from andrea_tui.feed.tailer import (
    AGE_INTERVAL,
    ATTENDED_SECONDS,
    BUSY_INTERVAL,
    BUSY_PERCENT,
    IDLE_INTERVAL,
    INTERVAL,
    LONGEST_IDLE,
    DirectoryReader,
    Tailer,
)
from andrea_tui.feed.update import Update
from tests.run.helpers import beat

STOPPED = Update(1.0, Condition("stopped", alive=False, sentence=""), None)
RUNNING = replace(STOPPED, condition=Condition("training", alive=True, sentence=""))


class Pauses:
    """Stands in for the tailer's event: a pause passes at once, on a clock that starts at 0."""

    def __init__(self, tailer: Tailer, looks: int) -> None:
        self.taken: list[float] = []
        self.now = 0.0
        self._tailer, self._left = tailer, looks
        self._set = False

    def wait(self, seconds: float) -> None:
        self.taken.append(round(seconds, 3))
        self.now += seconds
        self._left -= 1
        self._tailer._stopped = self._left <= 0

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set

    def clear(self) -> None:
        self._set = False


def pauses(
    monkeypatch: pytest.MonkeyPatch, path: Path, updates: Iterator[Update], looks: int
) -> tuple[list[float], list[float]]:
    """The pauses between so many looks, and the moments at which something was handed out."""
    delivered: list[float] = []
    tailer = Tailer(RunDirectory(path), lambda update: (delivered.append(round(between.now, 3)), tailer.taken()))
    between = Pauses(tailer, looks)
    tailer._wake = between  # type: ignore[assignment]
    monkeypatch.setattr(DirectoryReader, "poll", lambda reader: next(updates))
    monkeypatch.setattr(module.time, "monotonic", lambda: between.now)
    tailer._run()
    return between.taken, delivered


def forever(*updates: Update) -> Iterator[Update]:
    yield from updates
    while True:
        yield updates[-1]


def test_where_nothing_happens_looks_get_rare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, delivered = pauses(monkeypatch, tmp_path, forever(STOPPED), 12)
    assert taken[0] == IDLE_INTERVAL
    assert taken == sorted(taken)
    assert taken[-1] == LONGEST_IDLE
    assert delivered == [0.0], "the first look only"


def test_an_engine_started_by_somebody_else_is_seen_within_three_seconds() -> None:
    assert LONGEST_IDLE + INTERVAL < 3.0


def test_news_make_it_look_closely_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    news = replace(STOPPED, checkpoints=3)
    taken, _ = pauses(monkeypatch, tmp_path, forever(*[STOPPED] * 8, news, STOPPED), 12)
    assert taken[7] == LONGEST_IDLE
    assert taken[8] == IDLE_INTERVAL


def test_somebody_who_expects_something_makes_it_look_closely_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = 0
    tailer = Tailer(RunDirectory(tmp_path), lambda update: tailer.taken())
    between = Pauses(tailer, 12)
    tailer._wake = between  # type: ignore[assignment]

    def poll(reader: DirectoryReader) -> Update:
        nonlocal looked
        looked += 1
        if looked == 9:
            tailer.look_now()
        return STOPPED

    monkeypatch.setattr(DirectoryReader, "poll", poll)
    monkeypatch.setattr(module.time, "monotonic", lambda: between.now)
    tailer._run()
    assert between.taken[7] == LONGEST_IDLE
    assert between.taken[8] == IDLE_INTERVAL


def test_with_an_engine_it_keeps_looking_and_ages_keep_moving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, delivered = pauses(monkeypatch, tmp_path, forever(RUNNING), 20)
    assert set(taken) == {INTERVAL}
    assert len(delivered) >= 20 * INTERVAL / (AGE_INTERVAL + INTERVAL)
    assert all(after - before <= AGE_INTERVAL + INTERVAL for before, after in pairwise(delivered))
    assert len(delivered) < 20, "a look that found nothing new is not worth a frame"


def with_all_processors_at(percent: float | None) -> Update:
    return replace(RUNNING, heartbeat=beat(telemetry=Telemetry(time=1.0, cpu_percent=percent)))


@pytest.mark.parametrize(("percent", "pause"), [(None, INTERVAL), (89.9, INTERVAL), (BUSY_PERCENT, BUSY_INTERVAL)])
def test_an_engine_that_needs_every_processor_is_seldom_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, percent: float | None, pause: float
) -> None:
    taken, delivered = pauses(monkeypatch, tmp_path, forever(with_all_processors_at(percent)), 10)
    assert set(taken) == {pause}
    assert all(after - before <= AGE_INTERVAL + pause for before, after in pairwise(delivered))


def test_whoever_is_at_the_console_sees_it_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tailer = Tailer(RunDirectory(tmp_path), lambda update: tailer.taken())
    between = Pauses(tailer, 200)
    tailer._wake = between  # type: ignore[assignment]
    monkeypatch.setattr(module.time, "monotonic", lambda: between.now)

    def poll(reader: DirectoryReader) -> Update:
        if len(between.taken) == 3:
            tailer.attended()
            assert between.is_set(), "what stands there is old"
        return with_all_processors_at(100.0)

    monkeypatch.setattr(DirectoryReader, "poll", poll)
    tailer._run()
    rest = round(ATTENDED_SECONDS / INTERVAL)
    assert between.taken[:3] == [BUSY_INTERVAL] * 3
    assert set(between.taken[3 : 2 + rest]) == {INTERVAL}
    assert set(between.taken[4 + rest :]) == {BUSY_INTERVAL}
