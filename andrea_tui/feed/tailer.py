"""The only reader of the run directory: a thread that looks four times a second and hands out what is new."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from andrea_engine.run.checkpoint import list_checkpoints
from andrea_engine.run.condition import Condition, condition
from andrea_engine.run.config import RunConfig, load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import Event, parse_event
from andrea_engine.run.launch import engine_status
from andrea_engine.run.loss_entry import LossEntry
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.samples import Sample, read_samples
from andrea_engine.run.state import read_state
from andrea_engine.run.tailing import LineTail
from andrea_tui.feed.branch import BranchFollower
from andrea_tui.feed.update import EntryBatch, Update

INTERVAL = 0.25
IDLE_INTERVAL = 0.5  # while no engine runs: a start is still seen within half a second
CLOSING = 4  # bytes behind the last entry of a complete record: `\n]\n`
MOST_PENDING = 4  # updates the app has not taken yet: beyond that, wait instead of piling up


class DirectoryReader:
    """Remembers how far each file was read. `poll` is called from one thread only."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self._follower = BranchFollower()
        self._record = LossReader(directory.loss_record())
        self._journal: list[LossEntry] = []
        self._events = LineTail(directory.events)
        self._stamps: dict[Path, tuple[int, int, int]] = {}
        self._next_slow = 0.0
        self._checkpoints: tuple[int | None, int] | None = None
        self._document_entries = 0
        self._complete = False  # the record was read to its end once
        self._problems: dict[str, str] = {}  # by file, each until that file changes

    def poll(self) -> Update:
        """One look. Never raises for content or for missing files."""
        if not self._record.end and not self._record.path.exists():
            self._record.path = self.directory.loss_record()
        # State before content: an engine that has ended has written all it had to say. And what is handed out once
        # only comes last: a look that fails on the way loses nothing.
        status = engine_status(self.directory)
        now = condition(self.directory, status)
        free, newest, count = self._slow_facts()
        samples, snapshot, config = self._samples(), self._snapshot(), self._config()
        return Update(
            time=time.time(),
            condition=now,
            heartbeat=status.heartbeat,
            batches=tuple(self._new_entries()),
            events=tuple(self._new_events()),
            samples=samples,
            snapshot=snapshot,
            config=config,
            disk_free=free,
            newest_checkpoint=newest,
            checkpoints=count,
            problems=tuple(text for text in self._problems.values() if text),
            complete=self._complete,
            read_share=min(1.0, self._record.end / self._record.size)
            if self._record.size and not self._complete
            else 1.0,
        )

    def _new_entries(self) -> list[EntryBatch]:
        journal = self._journal_now()
        record = self._record
        end = record.end
        entries = record.read()
        batches = []
        if record.restarted and not self._continued(entries):
            batches.append(EntryBatch((), drop_from=0))
            self._follower = BranchFollower()
            self._complete = False
        elif record.restarted:
            entries = entries[self._document_entries :]
        self._document_entries = record.entries_read
        # A torn end stays unread until the engine repairs it: what did not move is as complete as it gets.
        at_end = not record.lines_format or record.size - record.end <= CLOSING or record.end == end
        self._complete = self._complete or at_end
        batches += self._follower.follow(entries, journal if self._complete else [])
        if self._follower.stale:
            self._follower = BranchFollower()
            self._record = LossReader(record.path)
            self._complete = False
            return [EntryBatch((), drop_from=0), *self._new_entries()]
        self._report_record()
        return batches

    def _journal_now(self) -> list[LossEntry]:
        """All that the journal holds. Read whole: each commit replaces it, and the new file may well get the inode
        number of the last but one, so that it could not be told from that one grown longer."""
        if self._changed(self.directory.journal):
            self._journal = LossReader(self.directory.journal).read_all()
        return self._journal

    def _continued(self, entries: list[LossEntry]) -> bool:
        """True when a document (read whole, each time) begins with what was handed out already."""
        count = self._document_entries
        return (
            not self._record.lines_format
            and 0 < count <= len(entries)
            and entries[count - 1] == self._follower.recorded
        )

    def _report_record(self) -> None:
        name, damage = self._record.path.name, self._record.damage
        texts = []
        if self._record.shrunk:
            texts.append(f"{name} got shorter: nothing may ever do that; it was read again")
        if damage.lines:
            texts.append(f"{name}: {damage.lines:,} unreadable line(s), the first at line {damage.first_line}")
        self._problems["record"] = "; ".join(texts)

    def _new_events(self) -> list[Event]:
        lines = self._events.read()
        return [event for event in map(parse_event, lines) if event is not None]

    def _changed(self, path: Path) -> bool:
        """True when the file was replaced or written since the last look (or looked at for the first time)."""
        try:
            status = path.stat(follow_symlinks=False)
        except OSError:
            return self._stamps.pop(path, None) is not None
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        if self._stamps.get(path) == stamp:
            return False
        self._stamps[path] = stamp
        return True

    def _samples(self) -> tuple[Sample, ...] | None:
        path = self.directory.sample_record()
        if not self._changed(path):
            return None
        self._problems["samples"] = ""
        try:
            return tuple(read_samples(path))
        except RunError as error:
            self._problems["samples"] = str(error)
            return ()

    def _snapshot(self) -> dict[str, object] | None:
        if not self._changed(self.directory.state):
            return None
        self._problems["state"] = ""
        try:
            return read_state(self.directory.state) or {}
        except RunError as error:
            self._problems["state"] = str(error)
            return {}

    def _config(self) -> RunConfig | None:
        if not self._changed(self.directory.config):
            return None
        self._problems["config"] = ""
        try:
            return load_config(self.directory)
        except RunError as error:
            self._problems["config"] = str(error)
            return None

    def _slow_facts(self) -> tuple[int | None, int | None, int | None]:
        """Free disk and checkpoints, every two seconds: listing thousands of files is not for every look."""
        now = time.monotonic()
        if now < self._next_slow:
            return None, None, None
        self._next_slow = now + 2.0
        try:
            free = shutil.disk_usage(self.directory.path).free
        except OSError:
            free = None
        valid = [file.step for file in list_checkpoints(self.directory.path) if file.valid]
        facts = (valid[0] if valid else None, len(valid))
        if facts == self._checkpoints:
            return free, None, None
        self._checkpoints = facts
        return free, facts[0], facts[1]


class Tailer:
    """Runs a reader in a daemon thread and passes each update to `deliver`, which must not block.

    The receiver calls `taken` for each update it has worked off; a receiver that falls behind slows the reading.
    """

    def __init__(self, directory: RunDirectory, deliver: Callable[[Update], object]) -> None:
        self._reader = DirectoryReader(directory)
        self._deliver = deliver
        self._stop = threading.Event()
        self._pending = threading.Semaphore(MOST_PENDING)
        self._last = Update(0.0, Condition("missing", alive=False, sentence="not read yet"), None)
        self._thread = threading.Thread(target=self._run, name="tailer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._pending.release()
        self._thread.join(timeout=2.0)

    def taken(self) -> None:
        self._pending.release()

    def _run(self) -> None:
        while not self._stop.is_set():
            started = time.monotonic()
            self._pending.acquire()
            if self._stop.is_set():
                return
            before = self._last
            update = self._look()
            if self._is_news(update, before):
                self._deliver(update)
            else:
                self._pending.release()
            if update.complete:
                pause = INTERVAL if update.condition.alive else IDLE_INTERVAL
                self._stop.wait(max(0.0, pause - (time.monotonic() - started)))

    @staticmethod
    def _is_news(update: Update, before: Update) -> bool:
        """Without an engine nothing ages: a look that found nothing new is not worth a frame."""
        unchanged = update.quiet and update.complete == before.complete and update.problems == before.problems
        same_state = (update.condition, update.heartbeat) == (before.condition, before.heartbeat)
        return update.condition.alive or before.time == 0.0 or not (unchanged and same_state)

    def _look(self) -> Update:
        """A failing look is told on the screen; what was known before still stands there."""
        try:
            self._last = self._reader.poll()
            return self._last
        except Exception as error:  # whatever it is: a dead thread would show an old picture for ever
            text = f"the run directory cannot be read ({type(error).__name__}: {error}); trying again"
            self._last = Update(time.time(), self._last.condition, self._last.heartbeat, problems=(text,))
            return self._last
