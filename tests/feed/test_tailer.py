"""The tailer against a real loss record: whatever happens to the files, the curve is what is on disk."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from andrea_engine.run.condition import Condition
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.loss_entry import LossEntry
from andrea_tui.feed.store import Store
from andrea_tui.feed.tailer import MOST_PENDING, DirectoryReader, Tailer
from andrea_tui.feed.update import Update
from tests.feed.writer import Writer, assert_shows, entry, on_disk

SCHEDULE = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4)),
        st.tuples(st.sampled_from(["save", "save without commit"]), st.just(0)),
        st.tuples(st.just("crash"), st.sampled_from([0, 0, 0, 1, 2])),
        st.tuples(st.just("poll"), st.just(0)),
    ),
    max_size=40,
)


class Console:
    """A reader and the store it fills."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self.reader = DirectoryReader(directory)
        self.store = Store()

    def poll(self) -> Update:
        update = self.reader.poll()
        self.store.apply(update)
        return update

    def assert_up_to_date(self) -> None:
        self.poll()
        assert_shows(self.store, on_disk(self.directory))


@pytest.fixture
def console(tmp_path: Path) -> Console:
    return Console(RunDirectory(tmp_path))


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durability is not what is tested here, and it is slow."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.usefixtures("no_sync")
@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(SCHEDULE)
def test_the_store_is_the_branch_on_disk_whatever_happens_between_two_looks(
    schedule: list[tuple[str, int]],
) -> None:
    with tempfile.TemporaryDirectory() as path:
        directory = RunDirectory(Path(path))
        writer, console = Writer(directory), Console(directory)
        for what, number in schedule:
            if what == "append":
                for _ in range(number):
                    writer.append()
            elif what == "crash":
                writer.crash(number)
            elif what == "poll":
                console.assert_up_to_date()
            else:
                writer.save(committed=what == "save")
                if what == "save without commit":
                    writer.crash()
        console.assert_up_to_date()
        late = Console(directory)
        late.assert_up_to_date()
        assert not late.store.abandoned or on_disk(directory)


@pytest.mark.usefixtures("no_sync")
def test_a_commit_between_reading_the_two_files_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine may commit at any moment of a look: also just after one of the files was read."""
    from andrea_engine.run.loss_reader import LossReader

    directory = RunDirectory(tmp_path)
    writer, console = Writer(directory), Console(directory)
    for _ in range(3):
        writer.append()
    console.poll()
    for _ in range(4):
        writer.append()
    original, reads = LossReader.read, []

    def read_then_commit(reader: LossReader, limit: int = 4 * 1024 * 1024) -> list[LossEntry]:
        found = original(reader, limit)
        reads.append(reader.path)
        if len(reads) == 1:
            writer.save()
            writer.append()
        return found

    monkeypatch.setattr(LossReader, "read", read_then_commit)
    console.poll()
    monkeypatch.undo()
    assert len(reads) > 1
    console.assert_up_to_date()


@pytest.mark.usefixtures("no_sync")
def test_the_abandoned_branch_stays_visible_after_a_crash(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    writer, console = Writer(directory), Console(directory)
    for step in range(1, 9):
        writer.append()
        if step == 5:
            writer.save()
    console.assert_up_to_date()
    writer.crash()
    for _ in range(4):
        writer.append()
    console.assert_up_to_date()
    assert sorted(on_disk(directory)) == list(range(1, 10))
    old = {step: series.value_at(step) for series in console.store.abandoned for step in (6, 7, 8)}
    assert old == {step: (step, entry(step, 1).loss) for step in (6, 7, 8)}
    assert console.store.loss.value_at(6) == (6, entry(6, 2).loss)


def test_steps_recorded_again_in_a_foreign_record_replace_the_old_ones(console: Console) -> None:
    """Case C15: 901-1000 appended again with other values to a record of 1,000 entries."""
    path = console.directory.path / "model.loss.json"
    pairs = [[step, 9.0 - step / 1000] for step in range(1, 1001)]
    path.write_text(json.dumps(pairs))
    console.assert_up_to_date()
    before = path.read_text()
    path.write_text(json.dumps(pairs + [[step, 5.0 + step / 1000] for step in range(901, 1001)]))
    assert path.read_text().startswith(before[:-1])
    console.assert_up_to_date()
    assert console.store.loss.value_at(950) == (950, 5.95)
    assert console.store.loss.value_at(900) == (900, 8.1)
    assert [len(series) for series in console.store.abandoned] == [100]


def test_a_foreign_record_that_grows_leaves_no_abandoned_copies(console: Console) -> None:
    path = console.directory.path / "model.loss.json"
    for count in range(1, 30):
        path.write_text(json.dumps([[step, 1.0 / step] for step in range(1, count + 1)]))
        console.assert_up_to_date()
    assert console.store.abandoned == []
    assert console.store.condition.word == "recorded"


@pytest.mark.parametrize("name", [".loss.json", "old.loss.json"])
def test_json_lines_are_followed(console: Console, name: str) -> None:
    path = console.directory.path / name
    path.write_bytes(b"")
    expected = {}
    for step in range(1, 40):
        with path.open("ab") as file:
            file.write(entry(step).to_line() + b"\n")
        expected[step] = entry(step).loss
        if step % 7 == 0:
            console.poll()
            assert_shows(console.store, expected)
    assert console.store.abandoned == []


def _array(*entries: LossEntry) -> bytes:
    return b"[\n" + b",\n".join(e.to_line() for e in entries) + b"\n]\n" if entries else b"[\n]\n"


@pytest.mark.parametrize("new", [(), (1, 2), tuple(range(1, 30))])
@pytest.mark.parametrize("replaced", [True, False])
def test_a_record_that_was_replaced_or_cut_is_read_again(
    console: Console, new: tuple[int, ...], replaced: bool
) -> None:
    record = console.directory.loss
    record.write_bytes(_array(*(entry(step) for step in range(1, 21))))
    console.assert_up_to_date()
    text = _array(*(entry(step, 1, loss=0.5) for step in new))
    if replaced:
        other = record.with_name("other")
        other.write_bytes(text)
        other.replace(record)
    elif len(new) > 20:
        return  # written over in place and longer: no longer the same kind of event
    else:
        record.write_bytes(text)
    console.assert_up_to_date()
    if not replaced:
        console.poll()
    for step in range(len(new) + 1, len(new) + 4):  # and it goes on from there
        record.write_bytes(_array(*(entry(known, 1, loss=0.5) for known in range(1, step + 1))))
        console.assert_up_to_date()


def test_a_record_that_got_shorter_is_reported(console: Console) -> None:
    console.directory.loss.write_bytes(_array(*(entry(step) for step in range(1, 9))))
    console.poll()
    console.directory.loss.write_bytes(_array(entry(1)))
    assert "got shorter" in console.poll().problems[0]


@pytest.mark.parametrize(
    "tail", [b"", b"\n]\n", b',\n{"step": 4, "lo', b",\n\n\n\n\n\n\n\n]\n", b"\n]\n garbage behind\n"]
)
def test_a_torn_end_does_not_keep_the_console_reading_for_ever(console: Console, tail: bytes) -> None:
    console.directory.loss.write_bytes(_array(entry(1), entry(2), entry(3))[:-3] + tail)
    console.directory.journal.write_bytes(entry(4).to_line() + b"\n")
    console.poll()
    update = console.poll()
    assert update.complete
    assert_shows(console.store, {step: entry(step).loss for step in (1, 2, 3, 4)})


def test_losses_that_are_not_finite_are_counted_and_the_rest_is_drawn(console: Console) -> None:
    """Case C11, in the dialects that exist."""
    losses = ["NaN", "Infinity", "-Infinity", "null", '"NaN"', "1e999"]
    text = ", ".join(f"[{step}, {losses[step - 10] if 10 <= step < 16 else '3.5'}]" for step in range(1, 21))
    (console.directory.path / "model.loss.json").write_text(f"[{text}]")
    console.poll()
    assert console.store.nonfinite == 6
    assert_shows(console.store, {step: None if 10 <= step < 16 else 3.5 for step in range(1, 21)})


@pytest.mark.usefixtures("no_sync")
def test_steps_trained_again_are_counted_once_as_not_finite(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    writer, console = Writer(directory), Console(directory)
    for _ in range(3):
        writer.step += 1
        writer.record.append(entry(writer.step, writer.session, loss=float("nan")))
    console.assert_up_to_date()
    assert console.store.nonfinite == 3
    writer.crash()
    for _ in range(3):
        writer.step += 1
        writer.record.append(entry(writer.step, writer.session, loss=float("nan")))
    console.assert_up_to_date()
    assert console.store.nonfinite == 3


def test_two_hundred_thousand_entries_come_in_pieces_that_say_how_far(console: Console) -> None:
    """Case C14: the spike of one step stays visible."""
    every = [entry(step, loss=50.0 if step == 123_456 else 3.0) for step in range(1, 200_001)]
    console.directory.loss.write_bytes(_array(*every))
    shares = []
    while not (update := console.poll()).complete:
        shares.append(update.read_share)
        assert len(shares) < 100
    assert shares == sorted(shares)
    assert all(0 < share < 1 for share in shares)
    assert len(shares) >= 2
    assert len(console.store.loss) == 200_000
    assert console.store.loss.peak(0, 200_000) == (123_456, 50.0)


@pytest.mark.parametrize(
    "name", [".samples.json", ".state.json", "run.toml", "events.jsonl", ".loss.json", "engine.json"]
)
@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000, b'{"kind": 7}\n', b"null", b'"x"'])
def test_rubbish_in_any_file_is_a_problem_and_never_an_exception(console: Console, name: str, content: bytes) -> None:
    path = console.directory.path / name
    path.write_bytes(content)
    console.poll()
    path.unlink()
    path.mkdir()
    console.poll()
    assert console.store.version == 2


@pytest.mark.parametrize("name", [".samples.json", ".state.json", "events.jsonl", ".loss.json", "engine.json"])
def test_links_and_pipes_are_not_followed(
    console: Console, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret"
    outside.write_bytes(_array(entry(1)) if "loss" in name else b'{"kind": "notice", "time": 1}\n')
    (console.directory.path / name).symlink_to(outside)
    console.poll()
    assert not len(console.store.loss)
    assert not console.store.events
    (console.directory.path / name).unlink()
    os.mkfifo(console.directory.path / name)
    console.poll()


def test_only_what_is_new_is_handed_out(console: Console) -> None:
    (console.directory.path / "run.toml").write_text('preset = "demo"\n')
    console.directory.events.write_text('{"time": 1, "kind": "notice", "session": 1, "text": "a"}\n')
    console.directory.samples.write_text('[{"step": 1, "text": "x"}]')
    assert not console.poll().quiet
    assert console.poll().quiet
    with console.directory.events.open("a") as file:
        file.write('{"time": 2, "kind": "notice", "session": 1, "text"')
    assert console.poll().quiet, "half a line is not an event"
    with console.directory.events.open("a") as file:
        file.write(': "b"}\n')
    assert [event.text("text") for event in console.poll().events] == ["b"]
    assert [event.text("text") for event in console.store.events] == ["a", "b"]


class Receiver:
    """Takes updates from the thread; `count` is waited for."""

    def __init__(self) -> None:
        self.got: list[Update] = []
        self._more = threading.Condition()

    def deliver(self, update: Update) -> None:
        with self._more:
            self.got.append(update)
            self._more.notify()

    def wait_for(self, count: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: len(self.got) >= count, timeout=30)


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("andrea_tui.feed.pace.INTERVAL", 0.0)
    monkeypatch.setattr("andrea_tui.feed.pace.IDLE_INTERVAL", 0.0)
    monkeypatch.setattr("andrea_tui.feed.tailer.AGE_INTERVAL", 0.0)


def _looks(monkeypatch: pytest.MonkeyPatch, *answers: Update | Exception) -> None:
    """What the reader finds, look by look; the last one for ever."""
    waiting = list(answers)

    def poll(reader: DirectoryReader) -> Update:
        answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(DirectoryReader, "poll", poll)


RUNNING = Update(1.0, Condition("training", alive=True, sentence=""), None)
STOPPED = Update(1.0, Condition("stopped", alive=False, sentence=""), None)


@pytest.mark.usefixtures("no_pause")
def test_the_thread_waits_for_a_receiver_that_falls_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _looks(monkeypatch, RUNNING)
    receiver = Receiver()
    tailer = Tailer(RunDirectory(tmp_path), receiver.deliver)
    tailer.start()
    receiver.wait_for(MOST_PENDING)
    for taken in range(1, 20):
        tailer.taken()
        receiver.wait_for(MOST_PENDING + taken)
        assert len(receiver.got) == MOST_PENDING + taken
    tailer.stop()
    assert "tailer" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.usefixtures("no_pause")
def test_without_an_engine_only_news_is_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = replace(STOPPED, condition=Condition("halted", alive=False, sentence=""))
    _looks(monkeypatch, STOPPED, STOPPED, STOPPED, replace(STOPPED, disk_free=5, checkpoints=3), STOPPED, ended)
    receiver = Receiver()
    tailer = Tailer(RunDirectory(tmp_path), receiver.deliver)
    tailer.start()
    receiver.wait_for(3)
    tailer.stop()
    assert [(update.condition.word, update.checkpoints) for update in receiver.got] == [
        ("stopped", None),
        ("stopped", 3),
        ("halted", None),
    ]


@pytest.mark.usefixtures("no_pause")
def test_a_look_that_fails_is_told_until_one_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = OSError("the disk is gone")
    _looks(monkeypatch, STOPPED, gone, gone, gone, STOPPED)
    receiver = Receiver()
    tailer = Tailer(RunDirectory(tmp_path), receiver.deliver)
    tailer.start()
    receiver.wait_for(3)
    tailer.stop()
    assert [len(update.problems) for update in receiver.got] == [0, 1, 0]
    assert "the disk is gone" in receiver.got[1].problems[0]
    assert receiver.got[1].condition == STOPPED.condition


def test_a_look_that_fails_is_not_the_end_of_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tailer = Tailer(RunDirectory(tmp_path), lambda update: None)
    half = replace(STOPPED, complete=False, read_share=0.5)
    _looks(monkeypatch, half, OSError("the disk is gone"))
    assert tailer._look() == half
    failed = tailer._look()
    assert (failed.complete, failed.read_share) == (False, 0.5)


def test_a_long_event_log_comes_in_pieces_and_the_last_one_says_so(console: Console) -> None:
    console.directory.events.write_bytes(
        b"".join(b'{"time": 1, "kind": "notice", "session": 1, "text": "%06d"}\n' % n for n in range(20_000))
    )
    updates = [console.poll()]
    while not updates[-1].complete:
        updates.append(console.poll())
    assert len(updates) > 2
    assert [event.text("text") for update in updates for event in update.events] == [f"{n:06d}" for n in range(20_000)]
    assert console.poll().complete


def test_a_look_that_fails_half_way_loses_nothing(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    console.directory.loss.write_bytes(_array(entry(1), entry(2)))
    console.directory.events.write_text('{"time": 1, "kind": "notice", "session": 1, "text": "a"}\n')

    def fail(*arguments: object) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr("andrea_tui.feed.tailer.list_checkpoints", fail)
    with pytest.raises(PermissionError):
        console.poll()
    monkeypatch.undo()
    console.assert_up_to_date()
    assert [event.text("text") for event in console.store.events] == ["a"]


@pytest.mark.usefixtures("no_sync")
@pytest.mark.parametrize("commits", [1, 2, 3, 4])
def test_several_commits_between_two_looks(tmp_path: Path, commits: int) -> None:
    """The journal is replaced at each commit, and file systems give a freed inode number to the next file."""
    directory = RunDirectory(tmp_path)
    writer, console = Writer(directory), Console(directory)
    for _ in range(2):
        writer.append()
    console.assert_up_to_date()
    for _ in range(commits):
        writer.save()
        writer.append()
    for _ in range(4):
        writer.append()
    console.assert_up_to_date()
