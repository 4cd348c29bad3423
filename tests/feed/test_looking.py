"""How often the run directory is looked at: often while an engine runs, seldom where nothing happens."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from andrea_engine.run.condition import Condition
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import Telemetry
from andrea_tui.feed import tailer as module
from andrea_tui.feed.pace import (
    ATTENDED_SECONDS,
    IDLE_INTERVAL,
    INTERVAL,
    LONGEST_BUSY,
    LONGEST_IDLE,
    SHARE,
)
from andrea_tui.feed.tailer import AGE_INTERVAL, DirectoryReader, Tailer
from andrea_tui.feed.update import Update
from tests.run.helpers import beat

STOPPED = Update(1.0, Condition("stopped", alive=False, sentence=""), None)
RUNNING = replace(STOPPED, condition=Condition("training", alive=True, sentence=""))


class Pauses:
    """Stands in for the tailer's event: a pause passes at once, on a clock that starts at 0."""

    def __init__(self, looks: int) -> None:
        self.taken: list[float] = []
        self.now = 0.0
        self.tailer: Tailer | None = None  # is stopped after so many looks
        self._left = looks
        self._set = False

    def wait(self, seconds: float) -> None:
        self.taken.append(round(seconds, 3))
        self.now += seconds
        self._left -= 1
        assert self.tailer is not None
        self.tailer._stopped = self._left <= 0

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
    between = Pauses(looks)
    monkeypatch.setattr(module.time, "monotonic", lambda: between.now)
    tailer = Tailer(RunDirectory(path), lambda update: (delivered.append(round(between.now, 3)), tailer.taken()))
    between.tailer, tailer._wake = tailer, between  # type: ignore[assignment]
    monkeypatch.setattr(DirectoryReader, "poll", lambda reader: next(updates))
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
    between = Pauses(12)
    between.tailer, tailer._wake = tailer, between  # type: ignore[assignment]

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


def with_processors_at(percent: float | None, host: str = socket.gethostname()) -> Update:
    return replace(RUNNING, heartbeat=beat(host=host, telemetry=Telemetry(time=1.0, cpu_percent=percent)))


COSTLY = 1.0  # CPU seconds of a look and its frame: more than any share of five seconds allows


def rhythm(
    monkeypatch: pytest.MonkeyPatch, path: Path, update: Update, cost: float, looks: int = 400
) -> tuple[list[float], list[float]]:
    """`pauses` where each look and its frame take `cost` seconds of CPU time, and there are two processors."""
    used = count(0.0, cost)
    monkeypatch.setattr(module.time, "process_time", lambda: next(used))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    return pauses(monkeypatch, path, forever(update), looks)


@pytest.mark.parametrize(
    ("percent", "pause"),
    [(None, INTERVAL), (50.0, INTERVAL), (75.0, INTERVAL), (75.1, LONGEST_BUSY), (100.0, LONGEST_BUSY)],
)
def test_an_engine_that_needs_every_processor_is_seldom_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, percent: float | None, pause: float
) -> None:
    taken, delivered = rhythm(monkeypatch, tmp_path, with_processors_at(percent), COSTLY)
    at_first = round(ATTENDED_SECONDS / INTERVAL)  # whoever has opened the console looks at it
    assert set(taken[: at_first - 1]) == {INTERVAL}
    assert set(taken[at_first + 1 :]) == {pause}
    assert all(after - before <= AGE_INTERVAL + pause for before, after in pairwise(delivered))


@pytest.mark.parametrize("cost", [0.0001, 0.004, 0.02])
def test_the_less_it_costs_the_more_often_it_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: float
) -> None:
    taken, _ = rhythm(monkeypatch, tmp_path, with_processors_at(100.0), cost)
    assert taken[-1] == round(max(INTERVAL, cost / SHARE), 3)


def test_an_engine_on_another_machine_is_not_disturbed_by_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, _ = rhythm(monkeypatch, tmp_path, with_processors_at(100.0, "elsewhere"), COSTLY)
    assert set(taken) == {INTERVAL}


def test_whoever_is_at_the_console_sees_it_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = count(0.0, COSTLY)
    monkeypatch.setattr(module.time, "process_time", lambda: next(used))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    rest = round(ATTENDED_SECONDS / INTERVAL)
    pressed = rest + 5  # looks before the key
    between = Pauses(looks=pressed + rest + 10)
    monkeypatch.setattr(module.time, "monotonic", lambda: between.now)
    shown: list[float | None] = []
    tailer = Tailer(RunDirectory(tmp_path), lambda update: (shown.append(update.pause), tailer.taken()))
    between.tailer, tailer._wake = tailer, between  # type: ignore[assignment]

    def poll(reader: DirectoryReader) -> Update:
        if len(between.taken) == pressed:
            tailer.attended()
            assert between.is_set(), "what stands there is old"
        return with_processors_at(100.0)

    monkeypatch.setattr(DirectoryReader, "poll", poll)
    tailer._run()
    assert set(between.taken[rest + 1 : pressed]) == {LONGEST_BUSY}
    assert set(between.taken[pressed : pressed + rest - 1]) == {INTERVAL}
    assert set(between.taken[pressed + rest + 1 :]) == {LONGEST_BUSY}
    assert (shown[0], shown[-1]) == (INTERVAL, LONGEST_BUSY), "the screen can say how often it moves"
