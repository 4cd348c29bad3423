"""The loss record on a disk that is full or fails: nothing is lost, nothing twice, nothing believed too early."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from andrea_engine.run import loss_record
from andrea_engine.run.directory import RunDirectory

from .helpers import entry, leftovers
from .record_support import journal, opened, recorded, recover, span


class FullDisk:
    """While `full`, no file can grow, but for the first `grace` bytes of the next write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self.grace = 0
        self._real = os.write
        monkeypatch.setattr(os, "write", self._write)

    def _write(self, descriptor: int, data: memoryview) -> int:
        room = os.fstat(descriptor).st_size - os.lseek(descriptor, 0, os.SEEK_CUR) if self.full else len(data)
        if room < len(data):
            room, self.grace = room + self.grace, 0
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._real(descriptor, data[:room])


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


def test_a_full_disk_keeps_the_entries_in_memory_in_order(run: RunDirectory, disk: FullDisk) -> None:
    with opened(run, 0) as (record, _):
        record.append(entry(1))
        disk.full = True
        for step in range(2, 2000):
            disk.grace = step % 300  # some entries are torn, some fit whole
            record.append(entry(step))
            assert record.problem == "the loss journal cannot be written: No space left on device"
            assert run.journal.read_bytes() == entry(1).to_line() + b"\n"
        disk.full = False
        record.append(entry(2000))
        assert record.problem is None
        assert journal(run) == span(1, 2000)


def test_a_checkpoint_is_not_begun_while_its_entries_are_only_in_memory(run: RunDirectory, disk: FullDisk) -> None:
    with opened(run, 0) as (record, _):
        disk.full = True
        record.append(entry(1))
        with pytest.raises(OSError, match="No space left"):
            record.sync_journal()
        disk.full = False
        record.sync_journal()
        assert journal(run) == [entry(1)]


@pytest.mark.parametrize("grace", [0, 1, 2, 3, 50, 150, 250])
def test_a_commit_on_a_full_disk_leaves_strict_json_and_is_made_up_for(
    run: RunDirectory, disk: FullDisk, grace: int
) -> None:
    with opened(run, 0) as (record, _):
        record.append(entry(1))
        record.commit(1)
        for step in (2, 3):
            record.append(entry(step))
        disk.full, disk.grace = True, grace
        with pytest.raises(OSError, match="No space left"):
            record.commit(3)
        assert recorded(run) == [entry(1)]
        disk.full = False
        record.append(entry(4))
        record.commit(4)
    assert recorded(run) == span(1, 4)


def failing(name: str, times: int = 1) -> Callable[..., None]:
    """A stand-in for a function of the module that fails the first `times` calls."""
    real, count = getattr(loss_record, name), 0

    def call(*arguments: object, **named: object) -> object:
        nonlocal count
        count += 1
        if count <= times:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*arguments, **named)

    return call  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["atomic_write", "fsync_directory", "open_regular"])
def test_a_commit_that_fails_half_way_never_writes_an_entry_twice(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with opened(run, 0) as (record, _):
        for step in (1, 2):
            record.append(entry(step))
        with monkeypatch.context() as patch:
            patch.setattr(loss_record, name, failing(name))
            with pytest.raises(OSError, match="Input/output error"):
                record.commit(2)
        record.append(entry(3))
        assert journal(run)[-1] == entry(3)  # it goes to the journal that has the name now
        record.commit(3)
        assert recorded(run) == span(1, 3)
        assert journal(run) == []
    assert recover(run, 3).entries == span(1, 3)


def test_a_failed_fsync_of_the_record_is_not_believed(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(run, 0) as (record, _):
        record.append(entry(1))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing_fsync)
            with pytest.raises(OSError, match="Input/output error"):
                record.commit(1)
            with pytest.raises(OSError, match="Input/output error"):
                record.sync_journal()
        assert journal(run) == [entry(1)]
        record.commit(1)
    assert recorded(run) == [entry(1)]


def failing_fsync(descriptor: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_really_full_disk(small_disk: Path) -> None:
    run = RunDirectory(small_disk / "run")
    run.path.mkdir()
    with opened(run, 0) as (record, _):
        for step in range(1, 21):
            record.append(entry(step))
        record.commit(20)
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 65536)
        for step in range(21, 200):
            record.append(entry(step))
        assert record.problem is not None
        with pytest.raises(OSError, match="No space"):
            record.sync_journal()
        with pytest.raises(OSError, match="No space"):
            record.commit(199)
        assert recorded(run) == span(1, 20)
        filler.unlink()
        record.append(entry(200))
        assert record.problem is None
        record.sync_journal()
        record.commit(200)
    assert recorded(run) == span(1, 200)
    assert leftovers(run.path) == []
