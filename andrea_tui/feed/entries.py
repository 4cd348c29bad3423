"""The entries of one run, from its record and its journal, each handed out once: for the run shown, and for others."""

from __future__ import annotations

from pathlib import Path

from andrea_engine.run.config import load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import parse_event
from andrea_engine.run.loss_entry import LossEntry
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.tailing import LineTail
from andrea_tui.feed.branch import BranchFollower
from andrea_tui.feed.clock import ANCHORS
from andrea_tui.feed.read_ahead import ReadAhead
from andrea_tui.feed.update import EntryBatch, OtherUpdate

CLOSING = 4  # bytes behind the last entry of a complete record: `\n]\n`

Stamp = tuple[int, int, int]


def file_stamp(path: Path) -> Stamp | None:
    """Changes when the file is replaced or written; None when there is none."""
    try:
        status = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


class EntriesReader:
    """Remembers how far record and journal were read. `complete`: the record was read to its end once.

    `ahead`: a process that reads the record already; without one, a long record gets one with the first `read`.
    """

    def __init__(self, directory: RunDirectory, ahead: ReadAhead | None = None) -> None:
        self.directory = directory
        self.complete = False
        self.record = LossReader(directory.loss_record())
        self._ahead = ahead
        self._begun = ahead is not None
        self._closed = False
        self._follower = BranchFollower()
        self._journal: list[LossEntry] = []
        self._journal_stamp: Stamp | None = None
        self._document_entries = 0

    @property
    def share(self) -> float:
        """How much of the record has been read."""
        if self.complete or not self.record.size:
            return 0.0 if self._ahead is not None else 1.0  # nothing has come from the other process yet
        return min(1.0, self.record.end / self.record.size)

    @property
    def problem(self) -> str:
        """What is wrong with the record, or ''."""
        name, damage = self.record.path.name, self.record.damage
        texts = []
        if self.record.shrunk:
            texts.append(f"{name} got shorter: nothing may ever do that; it was read again")
        if damage.lines:
            texts.append(f"{name}: {damage.sentence}")
        return "; ".join(texts)

    def look_for_record(self) -> None:
        """The record of an original run is found by its name, once it is there."""
        if not self.record.end and not self.record.path.exists():
            self.record.path = self.directory.loss_record()

    def read(self) -> list[EntryBatch]:
        """What is new since the last call; of a long record a few megabytes."""
        if not self._begun:
            self._begun = True
            self._ahead = ReadAhead.of(self.record.path)
            if self._closed:  # meanwhile, by another thread, which has not seen it
                self.close()
        ahead = self._ahead  # another thread may close this reader meanwhile
        if ahead is not None:
            return self._read_ahead(ahead)
        journal = self._journal_now()
        record = self.record
        end = record.end
        entries = record.read()
        batches = []
        if record.restarted and not self._continued(entries):
            batches.append(EntryBatch((), drop_from=0))
            self._follower = BranchFollower()
            self.complete = False
        elif record.restarted:
            entries = entries[self._document_entries :]
        self._document_entries = record.entries_read
        # A torn end stays unread until the engine repairs it: what did not move is as complete as it gets.
        at_end = not record.lines_format or record.size - record.end <= CLOSING or record.end == end
        self.complete = self.complete or at_end
        batches += self._follower.follow(entries, journal if self.complete else [])
        if self._follower.stale:
            self._follower = BranchFollower()
            self.record = LossReader(record.path)
            self.complete = False
            return [EntryBatch((), drop_from=0), *self.read()]
        return batches

    def _read_ahead(self, ahead: ReadAhead) -> list[EntryBatch]:
        """What the other process has read by now. Where it ends, or is ended, this one goes on."""
        batches = []
        frame = ahead.take()
        if frame is not None:
            header, columns = frame
            batches = [EntryBatch((), header.drop_from, columns=columns)]
            self._follower.recorded = columns.last
        if ahead.state is not None:
            self.record.go_on_from(ahead.state)
        if ahead.ended:
            self.close()
        return batches

    def close(self) -> None:
        """End the process that reads for this one, if there is one; from now on there will be none."""
        self._begun = self._closed = True
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.stop()

    def _journal_now(self) -> list[LossEntry]:
        """All that the journal holds. Read whole: each commit replaces it, and the new file may well get the inode
        number of the last but one, so that it could not be told from that one grown longer."""
        stamp = file_stamp(self.directory.journal)
        if stamp != self._journal_stamp:
            self._journal_stamp = stamp
            self._journal = LossReader(self.directory.journal).read_all()
        return self._journal

    def _continued(self, entries: list[LossEntry]) -> bool:
        """True when a document (read whole, each time) begins with what was handed out already."""
        count = self._document_entries
        return (
            not self.record.lines_format and 0 < count <= len(entries) and entries[count - 1] == self._follower.recorded
        )


class OtherReader:
    """Reads a second run, to be drawn beside the first: its entries, the moments of its clock, its tokens a step."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._entries = EntriesReader(directory)
        self._events = LineTail(directory.events)
        self._tokens_per_step: int | None = None
        self._asked = False

    @property
    def problem(self) -> str:
        """What is wrong with its record, or ''."""
        text = self._entries.problem
        return f"{self._directory.name}: {text}" if text else ""

    def close(self) -> None:
        """Nothing will be read any more."""
        self._entries.close()

    def poll(self) -> OtherUpdate | None:
        """What is new since the last call; None when nothing is."""
        if not self._asked:
            self._asked = True
            try:
                self._tokens_per_step = load_config(self._directory).tokens_per_step
            except RunError:
                self._tokens_per_step = None  # a run of the original engine: it just has no axis of tokens
        self._entries.look_for_record()
        complete = self._entries.complete
        batches = tuple(self._entries.read())
        events = [event for event in map(parse_event, self._events.read()) if event is not None]
        anchors = tuple(
            (event.step, event.time) for event in events if event.kind in ANCHORS and event.step is not None
        )
        if not (batches or anchors) and complete == self._entries.complete:
            return None
        return OtherUpdate(
            self._directory.name, batches, anchors, self._tokens_per_step, complete=self._entries.complete
        )
