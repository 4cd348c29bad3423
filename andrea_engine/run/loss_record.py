"""The writing side of the loss record: journal each step, commit with each durable checkpoint.

Entries of the steps since the last checkpoint live in `.loss.journal.jsonl`; when the checkpoint that contains them
is durable they are appended to `.loss.json`. So every entry in `.loss.json` is an ancestor of the weights on disk,
whatever was killed when. No byte before the closing bracket of `.loss.json` ever changes.
"""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError
from andrea_engine.run.io import atomic_write, ensure_folder, fsync_directory, open_regular, write_all
from andrea_engine.run.loss_entry import LossEntry, current_branch
from andrea_engine.run.loss_reader import LossReader

EMPTY = b"[\n]\n"
CLOSING = b"\n]\n"
_CLOSED = (CLOSING, b"\n]")


@dataclass(slots=True)
class Recovery:
    """What a start found in the record. `entries` lead up to the checkpoint; `notices` are for people."""

    entries: list[LossEntry]
    notices: list[str] = field(default_factory=list)
    retrained: int = 0


class LossRecord:
    """Owner of the two files while the engine holds the lock.

    `append` is called by the training loop, `commit` by the checkpoint writer: a lock keeps the two apart. A failed
    journal write (full disk) keeps the entries in memory, in order, and is tried again with the next step.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._pending: list[LossEntry] = []  # in the journal or on their way there, not yet committed
        self._unwritten = b""
        self._journal: int | None = None
        self._journal_end = 0
        self._end = 0  # offset behind the last entry of .loss.json
        self.problem: str | None = None  # why the journal cannot be written at present

    # -- start ------------------------------------------------------------------------------------------------

    def recover(self, checkpoint_step: int, *, accept_damage: bool = False) -> Recovery:
        """Finish what an earlier process left undone and open the record for steps after `checkpoint_step`.

        Raises ConfigError when the record has damage that no crash explains, or a format we never append to.
        """
        reader = LossReader(self.directory.loss)
        recorded = reader.read_all()
        recovery = Recovery(entries=[])
        self._check(reader, accept_damage)
        journal = self._read_journal()
        missing = _uncommitted(recorded, journal, checkpoint_step)
        self._repair_end(reader, recovery)
        if missing:
            self._append_to_record(missing)
            recovery.notices.append(
                f"finished the commit of steps {missing[0].step:,} to {missing[-1].step:,} to .loss.json"
            )
        trained = current_branch([*recorded, *journal])
        recovery.retrained = (trained[-1].step if trained else 0) - checkpoint_step
        recovery.entries = [e for e in current_branch([*recorded, *missing]) if e.step <= checkpoint_step]
        covered = recovery.entries[-1].step if recovery.entries else 0
        if covered < checkpoint_step:
            recovery.notices.append(
                f"the loss record ends at step {covered:,}, before the checkpoint of step {checkpoint_step:,}; "
                f"the entries between are lost"
            )
        if recovery.retrained > 0:
            recovery.notices.append(
                f"steps {checkpoint_step + 1:,} to {checkpoint_step + recovery.retrained:,} were after the checkpoint "
                f"of step {checkpoint_step:,} and are trained again"
            )
        self._replace_journal([])
        return recovery

    def _check(self, reader: LossReader, accept_damage: bool) -> None:
        path = self.directory.loss
        if not (reader.lines_format and reader.array):
            raise ConfigError(f"{path} is not a JSON array with one entry a line; it is read but never appended to")
        damage = reader.damage
        if damage.lines and not accept_damage:
            raise ConfigError(
                f"{path} has {damage.sentence} "
                f"(byte {damage.first_offset}); look at it, then train with --accept-damaged-record"
            )

    def _read_journal(self) -> list[LossEntry]:
        return LossReader(self.directory.journal, lines=True).read_all()

    def _repair_end(self, reader: LossReader, recovery: Recovery) -> None:
        """Close the array behind the last complete entry; a torn entry is kept aside, never thrown away."""
        if not os.path.lexists(self.directory.loss):
            atomic_write(self.directory.loss, EMPTY)
            self._end = 1
            return
        self._end, notice = close_array(self.directory, reader)
        if notice:
            recovery.notices.append(notice)

    # -- while training ---------------------------------------------------------------------------------------

    def append(self, entry: LossEntry) -> None:
        """Record one step in the journal. Never raises for a full or failing disk: see `problem`."""
        with self._lock:
            self._pending.append(entry)
            self._unwritten += entry.to_line() + b"\n"
            self._flush()

    def commit(self, step: int) -> None:
        """The checkpoint of `step` is durable: move the entries up to it into `.loss.json`, durably.

        Raises OSError when the record cannot be written; nothing is lost then, the next commit includes it.
        """
        with self._lock:
            ready = [e for e in self._pending if e.step <= step]
            if not ready:
                return
            self._append_to_record(ready)
            # From here on they are committed, whether or not the journal can be shortened.
            self._pending = [e for e in self._pending if e.step > step]
            self._replace_journal(self._pending)

    def sync_journal(self) -> None:
        """Make the journal durable; comes before the checkpoint in the commit order. Raises OSError."""
        with self._lock:
            error = self._flush()
            if error is not None:
                raise error
            if self._journal is not None:
                os.fsync(self._journal)

    def close(self) -> None:
        with self._lock:
            self._flush()
            if self._journal is not None:
                os.close(self._journal)
                self._journal = None

    def _flush(self) -> OSError | None:
        """Write what waits. A failure is kept in `problem` and returned, not raised: training goes on."""
        if self._journal is None or not self._unwritten:
            return None
        try:
            written = write_all_at(self._journal, self._unwritten, self._journal_end)
        except OSError as error:
            self.problem = f"the loss journal cannot be written: {error.strerror}"
            with contextlib.suppress(OSError):
                os.ftruncate(self._journal, self._journal_end)
            return error
        self._journal_end += written
        self._unwritten = b""
        self.problem = None
        return None

    def _append_to_record(self, entries: list[LossEntry]) -> None:
        first = self._end <= 1
        text = (b"\n" if first else b",\n") + b",\n".join(entry.to_line() for entry in entries)
        descriptor = open_regular(self.directory.loss, os.O_RDWR)
        try:
            try:
                write_all_at(descriptor, text + CLOSING, self._end)
            except OSError:
                with contextlib.suppress(OSError):  # a full disk must not leave half an entry for other readers
                    write_all_at(descriptor, CLOSING, self._end)
                    os.ftruncate(descriptor, self._end + len(CLOSING))
                raise
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._end += len(text)

    def _replace_journal(self, entries: list[LossEntry]) -> None:
        """Shorten the journal to `entries` by replacing it, so that a reader never sees half of it."""
        data = b"".join(entry.to_line() + b"\n" for entry in entries)
        atomic_write(self.directory.journal, data, durable=False)
        journal = open_regular(self.directory.journal, os.O_WRONLY)
        if self._journal is not None:
            os.close(self._journal)
        self._journal = journal
        self._journal_end = len(data)
        self._pending = list(entries)
        self._unwritten = b""
        os.fsync(journal)  # last: should it fail, entries go to the journal that has the name now
        fsync_directory(self.directory.path)


def close_array(directory: RunDirectory, reader: LossReader) -> tuple[int, str]:
    """Close the array of `.loss.json` behind the last complete entry; a torn entry is copied to the archive first.

    `reader` has read all of it. Returns the offset behind the last entry, and what was cut off, in words. Raises
    ConfigError when the file cannot be opened, OSError when it cannot be written: then again from the start.
    """
    path = directory.loss
    try:
        descriptor = open_regular(path, os.O_RDWR)
    except OSError as error:
        raise ConfigError(f"{path} cannot be opened ({error.strerror}); it has to be a file of its own") from error
    try:
        end, tail = _behind_the_last(descriptor, reader)
        if tail in _CLOSED:
            return end, ""
        remainder = tail.strip(b" \r\n,[]")
        notice = ""
        if remainder:
            aside = _keep_torn(directory, end, tail)
            notice = f"cut a half-written entry of {len(remainder)} bytes off .loss.json (kept in archive/{aside.name})"
        if end == 0:
            write_all_at(descriptor, b"[", 0)
            end = 1
        write_all_at(descriptor, CLOSING, end)
        os.ftruncate(descriptor, end + len(CLOSING))
        os.fsync(descriptor)
        return end, notice
    finally:
        os.close(descriptor)


def is_closed(reader: LossReader) -> bool:
    """Whether the array that `reader` has read all of ends as it should. Raises OSError."""
    descriptor = open_regular(reader.path)
    try:
        return _behind_the_last(descriptor, reader)[1] in _CLOSED
    finally:
        os.close(descriptor)


def _behind_the_last(descriptor: int, reader: LossReader) -> tuple[int, bytes]:
    """Offset behind the last complete entry, and what follows it."""
    size = os.fstat(descriptor).st_size
    end = reader.end if reader.entries_read else min(size, 1)
    return end, os.pread(descriptor, size - end, end)


def _keep_torn(directory: RunDirectory, end: int, tail: bytes) -> Path:
    """A copy of a torn end in the archive, under a name that nothing has yet."""
    ensure_folder(directory.archive)
    aside = directory.archive / f"torn-loss-at-{end}.txt"
    number = 2
    while os.path.lexists(aside):
        aside = directory.archive / f"torn-loss-at-{end}-{number}.txt"
        number += 1
    atomic_write(aside, tail)
    return aside


def _uncommitted(recorded: list[LossEntry], journal: list[LossEntry], checkpoint_step: int) -> list[LossEntry]:
    """Entries of the journal that lead to the checkpoint and are not in the record yet.

    After a fall-back the record may end beyond the checkpoint on the abandoned branch: only an equal entry shows how
    far a commit came, a step number does not.
    """
    branch = current_branch(journal)
    committed = branch.index(recorded[-1]) + 1 if recorded and recorded[-1] in branch else 0
    return [entry for entry in branch[committed:] if entry.step <= checkpoint_step]


def write_all_at(descriptor: int, data: bytes, offset: int) -> int:
    """Write all of `data` at `offset`. The bytes before it stay as they are. Raises OSError."""
    os.lseek(descriptor, offset, os.SEEK_SET)
    return write_all(descriptor, data)
