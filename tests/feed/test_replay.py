"""A replay against the record it plays: at each moment exactly what had happened by then, at the end all of it."""

from __future__ import annotations

import json
import math
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog
from andrea_engine.run.loss_entry import LossEntry, current_branch
from andrea_engine.run.samples import Sample, write_samples
from andrea_engine.run.state import write_state
from andrea_tui.feed.recording import Recording
from andrea_tui.feed.replay import Replay, ReplayClock
from andrea_tui.feed.sample_history import history
from andrea_tui.feed.store import Store
from andrea_tui.feed.tailer import DirectoryReader
from andrea_tui.feed.update import Update
from tests.conftest import TrainedRun
from tests.feed.writer import entry

START = 1_796_000_000.0


def write_record(directory: RunDirectory, entries: Iterable[LossEntry], journal: Iterable[LossEntry] = ()) -> None:
    directory.loss.write_bytes(b"[\n" + b",\n".join(e.to_line() for e in entries) + b"\n]\n")
    directory.journal.write_bytes(b"".join(e.to_line() + b"\n" for e in journal))


def recorded(directory: RunDirectory) -> Recording:
    recording = Recording(directory)
    while not recording.read():
        pass
    return recording


def play(recording: Recording, store: Store, moment: float) -> Update:
    update = recording.at(moment, "replay")
    store.apply(update)
    return update


def curve(store: Store) -> list[tuple[float, float]]:
    return list(zip(store.loss.xs, store.loss.values.values, strict=True))


def expected(entries: Iterable[LossEntry]) -> list[tuple[float, float | None]]:
    return [(e.step, e.loss) for e in current_branch(entries)]


@st.composite
def sessions(draw: st.DrawFn) -> list[LossEntry]:
    """A record as crashes and rollbacks leave it: each session begins at or before the end of the last one."""
    entries: list[LossEntry] = []
    for session in range(1, draw(st.integers(1, 4)) + 1):
        last = entries[-1].step if entries else 0
        first = draw(st.integers(1, last + 1))
        for step in range(first, first + draw(st.integers(1, 6))):
            seconds = draw(st.none() | st.floats(0, 50, allow_subnormal=False))
            entries.append(entry(step, session, seconds=seconds, source="chat"))
    return entries


def naive_moments(entries: list[LossEntry]) -> list[float]:
    """The rule, spelt out: durations added up, a second for each pause, an unknown duration like the one before."""
    moments, now, usual, session = [], 0.0, 1.0, entries[0].session
    for one in entries:
        if one.session != session:
            now, session = now + 1.0, one.session
        usual = usual if one.seconds is None else one.seconds
        now += usual
        moments.append(now)
    return moments


@settings(deadline=None, max_examples=60)
@given(sessions(), st.integers(0, 3), st.lists(st.floats(0, 300), max_size=5))
def test_at_each_moment_exactly_the_entries_that_had_ended(
    entries: list[LossEntry], uncommitted: int, moments: list[float]
) -> None:
    with tempfile.TemporaryDirectory() as path:
        directory = RunDirectory(Path(path))
        last = [e for e in entries if e.session == entries[-1].session]
        in_journal = min(uncommitted, len(last))
        write_record(directory, entries[: len(entries) - in_journal], entries[len(entries) - in_journal :])
        recording, store = recorded(directory), Store()
        ends = naive_moments(entries)
        assert len(recording.timeline) == len(entries)
        for moment in sorted([*moments, ends[len(ends) // 2], math.nextafter(ends[-1], 0.0), ends[-1]]):
            play(recording, store, moment)
            assert curve(store) == expected(e for e, end in zip(entries, ends, strict=True) if end <= moment)
        assert recording.end == ends[-1]


def test_steps_without_a_duration_take_a_second_each(tmp_path: Path) -> None:
    (tmp_path / "andrea.loss.json").write_text(json.dumps([[s, 9.0 - s / 100] for s in range(1, 11)]))
    recording, store = recorded(RunDirectory(tmp_path)), Store()
    play(recording, store, 3.5)
    assert [x for x, _ in curve(store)] == [1, 2, 3]
    assert store.condition.word == "replay"
    play(recording, store, 1e9)
    assert len(curve(store)) == 10
    assert "it can only be looked at" in store.condition.sentence


def test_a_record_longer_than_one_read_is_played_to_its_end(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    entries = [entry(step, seconds=0.5) for step in range(1, 60_001)]
    write_record(directory, entries)
    recording = Recording(directory)
    shares = []
    while not recording.read():
        shares.append(recording.share)
    assert len(shares) > 1
    assert shares == sorted(shares)
    store = Store()
    for moment in (0.49, 10_000.0, 30_000.0):
        play(recording, store, moment)
        assert len(curve(store)) == int(moment / 0.5)
    assert curve(store) == expected(entries)


@pytest.fixture
def two_sessions(tmp_path: Path) -> RunDirectory:
    """Steps 1-4 and 5-6 of two seconds each; two hours of pause; a sample at step 3, a pinned save, a pivot at 4."""
    directory = RunDirectory(tmp_path)
    first = [entry(s, 1, seconds=2.0, source="chat", policy=0, power_w=100.0 + s) for s in (1, 2, 3, 4)]
    second = [entry(s, 2, seconds=2.0, source="irc", policy=1) for s in (5, 6)]
    write_record(directory, first + second)
    log = EventLog(directory.events, 1)
    log.append("start", at=START - 30, pid=7)
    log.append("resumed", at=START, step=0, environment={"device": "cpu"})
    log.append("notice", at=START + 3.0, text="in step 2")
    log.append("sample", at=START + 16.0, step=3, total=88.0, consecutive_low=0)  # the sample took ten seconds
    log.append("save_writing", at=START + 17.0, step=3)
    log.append("save_durable", at=START + 17.5, step=3, bytes=10, seconds=0.5, pinned=True)
    log.append("stop", at=START + 18.0, step=4, phase="stopped")
    later = EventLog(directory.events, 2)
    later.append("pivot", at=START + 7000.0, step=4)
    later.append("start", at=START + 7200.0, pid=8)
    later.append("resumed", at=START + 7210.0, step=4)
    write_state(directory.state, {"arms": {"irc": {"pulls": 2, "weight": 0.5}}})
    archive = directory.archive / "pivot-0001-step-000004"
    archive.mkdir(parents=True)
    write_samples(archive / ".samples.json", [Sample(step=3, text="before the pivot")])
    write_samples(directory.samples, [Sample(step=6, text="after it")])
    return directory


def test_events_come_between_the_steps_between_which_they_happened(two_sessions: RunDirectory) -> None:
    recording = recorded(two_sessions)
    seen: list[tuple[float, str]] = []
    for tenth in range(150):
        seen += [(tenth / 10, event.kind) for event in recording.at(tenth / 10, "replay").events]
    assert seen == [
        (0.0, "start"),
        (0.0, "resumed"),
        (3.0, "notice"),
        (6.0, "sample"),
        (7.0, "save_writing"),
        (7.5, "save_durable"),
        (8.0, "stop"),
        (9.0, "pivot"),  # belongs to the second session, which begins after the pause of a second
        (9.0, "start"),
        (9.0, "resumed"),
    ]
    assert recording.end == 13.0


def test_the_clock_on_the_screen_is_that_of_the_run(two_sessions: RunDirectory) -> None:
    recording = recorded(two_sessions)
    times = [recording.at(moment, "replay").time - START for moment in (0.0, 2.0, 3.0, 5.9, 6.0, 7.0, 9.0, 11.0)]
    assert times == pytest.approx([0.0, 2.0, 3.0, 5.9, 16.0, 17.0, 7210.0, 7212.0])


def test_samples_are_seen_from_their_event_until_a_pivot_takes_them(two_sessions: RunDirectory) -> None:
    recording, store = recorded(two_sessions), Store()
    texts, reached = [], []
    for moment in (5.9, 6.0, 8.9, 9.0, 12.9, 13.0):
        play(recording, store, moment)
        texts.append([sample.text for sample in store.samples])
        if texts[-1] != ["before the pivot"]:
            reached.append([sample.text for sample in history(store)])
    assert texts == [[], ["before the pivot"], ["before the pivot"], [], [], ["after it"]]
    assert reached == [[], ["before the pivot"], ["before the pivot"], ["before the pivot", "after it"]]


def test_a_rollback_takes_the_later_samples(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    write_record(directory, [entry(s, 1, seconds=1.0) for s in (1, 2, 3)] + [entry(2, 2, seconds=1.0)])
    log = EventLog(directory.events, 1)
    log.append("resumed", at=START, step=0)
    for step in (1, 2):
        log.append("sample", at=START + step, step=step, total=50.0)
    log.append("rollback", at=START + 100.0, step=1)
    EventLog(directory.events, 2).append("resumed", at=START + 200.0, step=1)
    archive = directory.archive / "rollback-0001-from-3-to-1"
    archive.mkdir(parents=True)
    write_samples(archive / ".samples.json", [Sample(step=2, text="b")])
    write_samples(directory.samples, [Sample(step=1, text="a")])
    recording, store = recorded(directory), Store()
    seen = []
    for moment in (1.0, 2.0, 2.9, 3.0, 5.0):
        play(recording, store, moment)
        seen.append([sample.text for sample in store.samples])
    assert seen == [["a"], ["a", "b"], ["a", "b"], ["a"], ["a"]]


def test_arms_are_counted_from_the_record_until_the_state_that_is_left(two_sessions: RunDirectory) -> None:
    recording, store = recorded(two_sessions), Store()
    play(recording, store, 7.0)
    assert [(arm.name, arm.pulls, arm.share, arm.weight) for arm in store.arms] == [("chat", 3, 1.0, None)]
    play(recording, store, 12.0)
    assert [(arm.name, arm.pulls, arm.share) for arm in store.arms] == [("irc", 1, 1.0)], "a pivot begins afresh"
    play(recording, store, 13.0)
    assert [(arm.name, arm.pulls, arm.weight) for arm in store.arms] == [("irc", 2, 0.5)]


@given(sessions(), st.data())
@settings(deadline=None, max_examples=40)
def test_pulls_are_those_of_the_branch(entries: list[LossEntry], data: st.DataObject) -> None:
    arms = st.sampled_from(["chat", "irc", None])
    known = [
        entry(e.step, e.session or 0, seconds=1.0, source=data.draw(arms), policy=data.draw(st.integers(0, 1)))
        for e in entries
    ]
    with tempfile.TemporaryDirectory() as path:
        write_record(RunDirectory(Path(path)), known)
        recording, store = recorded(RunDirectory(Path(path))), Store()
        play(recording, store, 1e9)
    branch = current_branch(known)
    tail: list[LossEntry] = []
    while branch and branch[-1].policy == known[-1].policy:
        tail.append(branch.pop())
    pulls = {name: sum(e.source == name for e in tail) for name in ("chat", "irc")}
    assert {arm.name: arm.pulls for arm in store.arms} == {name: count for name, count in pulls.items() if count}


def test_power_is_shown_as_what_the_record_knows_of_it(two_sessions: RunDirectory) -> None:
    recording, store = recorded(two_sessions), Store()
    play(recording, store, 4.0)
    assert store.telemetry is not None
    assert (store.telemetry.cpu_power_w, store.telemetry.counts_cpu, store.telemetry.gpus) == (102.0, True, [])
    assert store.heartbeat is not None
    assert (store.heartbeat.step, store.heartbeat.step_seconds) == (2, 2.0)
    play(recording, store, 11.0)
    assert store.telemetry is None, "unknown is not the last value"
    text = two_sessions.events.read_text().replace('"cpu"', '"cuda:0"')
    two_sessions.events.write_text(text)
    recording, store = recorded(two_sessions), Store()
    play(recording, store, 4.0)
    assert store.telemetry is not None
    assert [(gpu.power_w, gpu.utilisation) for gpu in store.telemetry.gpus] == [(102.0, None)]


def test_at_its_end_a_replay_shows_what_the_console_shows(trained: TrainedRun) -> None:
    assert trained.code == 0, trained.output
    live, reader = Store(), DirectoryReader(trained.directory)
    while not live.complete:
        live.apply(reader.poll())
    recording, store = recorded(trained.directory), Store()
    moment = 0.0
    while moment < recording.end:
        play(recording, store, moment)
        assert store.condition.alive
        moment += recording.end / 7
    play(recording, store, recording.end)
    assert curve(store) == curve(live)
    assert len(curve(store)) == trained.steps
    for name in ("samples", "marks", "config", "arms", "alarm", "problems", "energy", "step", "total_steps"):
        assert getattr(store, name) == getattr(live, name), name
    assert list(store.events) == list(live.events)
    assert list(store.score.xs) == list(live.score.xs)
    assert not store.condition.alive


def test_what_cannot_be_read_is_said_and_the_rest_is_played(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.config.write_text("this is = not = toml")
    directory.loss.write_bytes(b'[\n{"step": 1, "loss": 5.0},\nrubbish,\n{"step": 2, "loss": 4.0}\n]\n')
    for file in (directory.samples, directory.state, directory.events):
        file.write_bytes(b"\xff\x00[{[rubbish\n")
    recording, store = recorded(directory), Store()
    play(recording, store, 1e9)
    assert [x for x, _ in curve(store)] == [1, 2]
    assert len(store.problems) == 3


def test_the_clock_pauses_and_goes_on() -> None:
    now = 100.0
    clock = ReplayClock(60.0, lambda: now)
    assert (clock.now(), clock.paused) == (0.0, True)
    clock.toggle()
    now = 102.0
    assert (clock.now(), clock.paused) == (120.0, False)
    clock.toggle()
    now = 500.0
    assert (clock.now(), clock.paused) == (120.0, True)
    clock.toggle()
    now = 500.5
    assert clock.now() == 150.0


class Screen:
    """Takes updates as the app does; `wait` for one that fits."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self.news = threading.Condition()
        self.replay: Replay | None = None

    def deliver(self, update: Update) -> None:
        with self.news:
            self.updates.append(update)
            self.news.notify_all()
        if self.replay is not None:
            self.replay.taken()

    def wait(self, word: str) -> Update:
        with self.news:
            assert self.news.wait_for(lambda: any(u.complete and u.condition.word == word for u in self.updates), 20.0)
        return next(u for u in self.updates if u.complete and u.condition.word == word)


def test_the_feed_plays_pauses_and_ends(two_sessions: RunDirectory) -> None:
    screen = Screen()
    screen.replay = replay = Replay(two_sessions, 0.001, screen.deliver)
    replay.start()
    try:
        screen.wait("replay x0.001")
        replay.toggle()
        screen.wait("replay x0.001, paused")
        count = len(screen.updates)
        assert not replay.ended
    finally:
        replay.stop()
    assert not replay._thread.is_alive()
    assert len(screen.updates) == count

    screen = Screen()
    screen.replay = replay = Replay(two_sessions, 1e6, screen.deliver)
    replay.start()
    last = screen.wait("replay x1000000, ended")
    assert replay.ended
    assert not last.condition.alive
    assert "space plays it again" in last.condition.sentence
    assert sum(len(batch.entries) for update in screen.updates for batch in update.batches) == 6
    replay.stop()


def test_a_screen_that_takes_nothing_stops_neither_the_feed_nor_itself(two_sessions: RunDirectory) -> None:
    got = threading.Event()
    replay = Replay(two_sessions, 0.001, lambda update: got.set())
    replay.start()
    assert got.wait(20.0)
    replay.stop()
    assert not replay._thread.is_alive()
