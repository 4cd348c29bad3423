"""A long record is read by a process of its own: what it hands over is what reading it here would have given."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.loss_entry import LossEntry, make_entry
from andrea_engine.run.loss_reader import LossReader
from andrea_tui.feed import read_ahead
from andrea_tui.feed.columns import Header, columns_of, read_frame, write_frame
from andrea_tui.feed.entries import EntriesReader
from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.record import Record
from andrea_tui.feed.record_process import send
from andrea_tui.feed.tailer import DirectoryReader
from andrea_tui.feed.update import EntryBatch
from benchmarks.console_record import make_run
from tests.support.engines import wait_until

STEPS = 50_000  # three frames


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return make_run(tmp_path_factory.mktemp("long") / "run", STEPS)


def facts(record: Record) -> tuple[object, ...]:
    """Everything that a record holds, comparable: NaN equals NaN."""
    columns = (record.steps, record.loss.values.values, record.ema.values.values, *record.facts.values())
    names = [record.source(index) for index in range(0, len(record), 997)]
    return [column.tobytes() for column in columns], names, record.known, list(record.nonfinite_steps)


def read_here(directory: RunDirectory) -> Record:
    record = Record()
    record.take(EntryBatch(tuple(LossReader(directory.loss).read_all())))
    return record


def read_all(reader: DirectoryReader, record: Record) -> Iterator[float]:
    """Poll until everything is read; the share after each look."""
    deadline = time.monotonic() + 60
    while True:
        update = reader.poll()
        for batch in update.batches:
            record.take(batch)
        yield update.read_share
        if update.complete:
            return
        assert time.monotonic() < deadline


@contextlib.contextmanager
def reading(directory: RunDirectory) -> Iterator[DirectoryReader]:
    reader = DirectoryReader(directory)
    try:
        yield reader
    finally:
        reader.close()


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "record_process" in " ".join(child.cmdline())]


def test_the_console_goes_first_and_stays_what_it_was(long_run: RunDirectory) -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    ahead = read_ahead.ReadAhead(long_run.loss)
    try:
        assert os.getpriority(os.PRIO_PROCESS, ahead._process.pid) == min(19, before + read_ahead.LATER)
        assert os.getpriority(os.PRIO_PROCESS, 0) == before
    finally:
        ahead.stop()


def test_the_whole_record_comes_over_and_new_entries_follow(long_run: RunDirectory) -> None:
    record = Record()
    with reading(long_run) as reader:
        shares = list(read_all(reader, record))
        assert facts(record) == facts(read_here(long_run))
        assert shares == sorted(shares)
        assert any(0.0 < share < 1.0 for share in shares), "progress was told"
        assert not children()
        long_run.journal.write_bytes(make_entry(step=STEPS + 1, loss=1.5, session=1).to_line() + b"\n")
        batches = reader.poll().batches
        assert [entry.step for batch in batches for entry in batch.entries] == [STEPS + 1]
        long_run.journal.unlink()


def test_nothing_read_yet_is_no_whole_record(long_run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "FIRST_PATIENCE", 0.0)  # the process has not even started
    with reading(long_run) as reader:
        first = reader.poll()
        assert (first.complete, first.read_share) == (False, 0.0)


def test_a_process_that_is_killed_leaves_the_rest_to_the_reader(long_run: RunDirectory) -> None:
    record = Record()
    with reading(long_run) as reader:
        for batch in reader.poll().batches:
            record.take(batch)
        for child in children():
            child.kill()
        list(read_all(reader, record))
        assert facts(record) == facts(read_here(long_run))


def test_output_that_is_no_frame_leaves_the_rest_to_the_reader(
    long_run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(file: object) -> None:
        raise MemoryError

    monkeypatch.setattr(read_ahead, "read_frame", broken)
    with reading(long_run) as reader:
        record = Record()
        list(read_all(reader, record))
        assert facts(record) == facts(read_here(long_run))


def test_a_reader_that_is_closed_while_its_process_starts_ends_it(
    long_run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = EntriesReader(long_run)
    real = read_ahead.ReadAhead.of

    def closed_meanwhile(record: Path) -> read_ahead.ReadAhead | None:
        entries.close()
        return real(record)

    monkeypatch.setattr(read_ahead.ReadAhead, "of", closed_meanwhile)
    entries.read()
    wait_until(lambda: not children() or None, "the end of the reading process")


def test_nobody_is_left_behind_when_the_reading_is_given_up(long_run: RunDirectory) -> None:
    with reading(long_run) as reader:
        reader.poll()
    wait_until(lambda: not children() or None, "the end of the reading process")


def test_a_console_that_is_killed_takes_the_process_with_it(long_run: RunDirectory) -> None:
    code = """
import sys, time
from pathlib import Path
from andrea_tui.feed import read_ahead
read_ahead.FRAMES_AHEAD = 1  # so that the process has to wait for room
ahead = read_ahead.ReadAhead(Path(sys.argv[1]))
ahead.take()
print(ahead._process.pid, flush=True)
time.sleep(600)
"""
    command = [sys.executable, "-c", code, str(long_run.loss)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as console:
        assert console.stdout is not None
        reader = psutil.Process(int(console.stdout.readline()))
        console.kill()
    wait_until(lambda: not reader.is_running() or reader.status() == psutil.STATUS_ZOMBIE or None, "its end")


@pytest.mark.parametrize("content", [b"", b"[\n]\n", b"[[1, 2.5], [2, 2.25]]", b"no record", b'{"step": 1}\n' * 3])
def test_whatever_the_file_is_the_reader_has_the_last_word(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "WORTHWHILE", 0)
    directory = RunDirectory(tmp_path)
    directory.loss.write_bytes(content)
    record, here = Record(), Record()
    with reading(directory) as reader:
        list(read_all(reader, record))
    monkeypatch.setattr(read_ahead, "WORTHWHILE", 1 << 40)
    with reading(directory) as reader:
        list(read_all(reader, here))
    assert facts(record) == facts(here)


def test_steps_that_were_trained_again_replace_the_older_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "WORTHWHILE", 0)
    directory = RunDirectory(tmp_path)
    steps = [1, 2, 3, 4, 5, 3, 4, 9]
    lines = [make_entry(step=s, loss=float(i + 1)).to_line() for i, s in enumerate(steps)]
    directory.loss.write_bytes(b"[\n" + b",\n".join(lines) + b"\n]\n")
    record = Record()
    dropped: list[Series | None] = []
    with reading(directory) as reader:
        dropped += [record.take(batch) for _ in range(5) for batch in reader.poll().batches]
    assert list(record.steps) == [1, 2, 3, 4, 9]
    assert list(record.loss.values.values) == [1, 2, 6, 7, 8]
    assert [len(series) for series in dropped if series is not None] == [3]


def test_who_goes_on_between_two_branches_of_one_piece_loses_neither(tmp_path: Path) -> None:
    record = tmp_path / "record"
    lines = [make_entry(step=s, loss=1.0).to_line() for s in (1, 2, 2, 3)]
    record.write_bytes(b"[\n" + b",\n".join(lines) + b"\n]\n")
    pipe = io.BytesIO()
    send(record, pipe)
    pipe.seek(0)
    frames = []
    while (frame := read_frame(pipe)) is not None:
        frames.append(frame[0])
    assert [header.drop_from for header in frames] == [None, 2, None]
    assert [header.state.entries_read for header in frames] == [0, 4, 4]
    assert [header.done for header in frames] == [False, False, True]


def test_a_record_that_is_replaced_meanwhile_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "WORTHWHILE", 0)
    directory = RunDirectory(tmp_path)
    directory.loss.write_bytes(b'[\n{"step":1,"loss":1.0},\n{"step":2,"loss":1.0}\n]\n')
    record = Record()
    with reading(directory) as reader:
        wait_until(lambda: any(record.take(b) or True for b in reader.poll().batches) or None, "the first entries")
        other = tmp_path / "other"
        other.write_bytes(b'[\n{"step":7,"loss":2.0}\n]\n')
        os.replace(other, directory.loss)
        for _ in range(4):
            for batch in reader.poll().batches:
                record.take(batch)
    assert list(record.steps) == [7]


entries = st.lists(
    st.builds(
        lambda loss, ema, lr, grad_norm, source: {
            "loss": loss,
            "ema": ema,
            "lr": lr,
            "grad_norm": grad_norm,
            "source": source,
        },
        st.floats() | st.none(),
        st.floats(allow_nan=False, allow_infinity=False) | st.none(),
        st.floats() | st.none(),
        st.floats() | st.none(),
        st.text(max_size=5).filter(lambda text: text.isprintable()) | st.none(),
    ),
    min_size=1,
    max_size=20,
)


@given(entries)
def test_a_frame_is_what_was_written(fields: list[dict[str, object]]) -> None:
    made: list[LossEntry] = [make_entry(step=step, **values) for step, values in enumerate(fields)]
    columns = columns_of(made)
    state = LossReader(Path("none")).state
    pipe = io.BytesIO()
    write_frame(pipe, Header(state=state, drop_from=3), columns)
    write_frame(pipe, Header(state=state, done=True), None)
    pipe.seek(0)
    first, second = read_frame(pipe), read_frame(pipe)
    assert first is not None
    assert second is not None
    header, read = first
    assert (header.drop_from, header.state, header.done) == (3, state, False)
    assert read is not None
    assert read.last == made[-1]
    one, other = Record(), Record()
    one.add(columns, None)
    other.add(read, None)
    assert facts(one) == facts(other)
    assert [one.source(i) for i in range(len(one))] == [entry.source or "" for entry in made]
    assert (second[0].done, second[1]) == (True, None)
    assert read_frame(pipe) is None


@given(st.binary(max_size=200))
def test_a_frame_that_was_cut_off_is_none(cut: bytes) -> None:
    pipe = io.BytesIO()
    write_frame(pipe, Header(state=LossReader(Path("none")).state), columns_of([make_entry(step=1, loss=1.0)]))
    whole = pipe.getvalue()
    assert read_frame(io.BytesIO(whole[: len(cut) % len(whole)])) is None
