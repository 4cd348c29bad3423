"""The only reader of the run directory: a thread that looks four times a second and hands out what is new."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from andrea_engine.run.checkpoint import list_checkpoints
from andrea_engine.run.condition import condition
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
from andrea_tui.feed.update import EntryBatch, Update

INTERVAL = 0.25
MOST_PENDING = 4  # updates the app has not taken yet: beyond that, wait instead of piling up


class BranchFollower:
    """Turns what record and journal hold into batches for one curve.

    A step that was seen already is skipped, unless it comes from a later session (it is trained again, after a crash
    or a roll-back) or from a record without sessions: then the older branch is dropped from there.
    """

    def __init__(self) -> None:
        self.last_step = 0
        self.session = 0

    def reset(self) -> None:
        self.last_step = self.session = 0

    def batches(self, entries: list[LossEntry], *, from_journal: bool) -> list[EntryBatch]:
        found: list[EntryBatch] = []
        run: list[LossEntry] = []
        drop_from: int | None = None
        for entry in entries:
            session = entry.session or 0
            if entry.step <= self.last_step:
                again = session > self.session or (entry.session is None and not from_journal)
                if not again:
                    continue
                if run:
                    found.append(EntryBatch(tuple(run), drop_from))
                run, drop_from = [], entry.step
            run.append(entry)
            self.last_step = entry.step
            self.session = session
        if run:
            found.append(EntryBatch(tuple(run), drop_from))
        return found


class DirectoryReader:
    """Remembers how far each file was read. `poll` is called from one thread only."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self._follower = BranchFollower()
        self._record = LossReader(directory.loss_record())
        self._journal = LossReader(directory.journal)
        self._events = LineTail(directory.events)
        self._stamps: dict[Path, tuple[int, int, int]] = {}
        self._next_slow = 0.0
        self._checkpoints: tuple[int | None, int] | None = None

    def poll(self) -> Update:
        """One look. Never raises for content or for missing files."""
        problems: list[str] = []
        if not self._record.end and not self._record.path.exists():
            self._record.path = self.directory.loss_record()
        batches, complete = self._new_entries(problems)
        status = engine_status(self.directory)
        free, newest, count = self._slow_facts()
        return Update(
            time=time.time(),
            condition=condition(self.directory, status),
            heartbeat=status.heartbeat,
            batches=tuple(batches),
            events=tuple(self._new_events()),
            samples=self._samples(problems),
            snapshot=self._snapshot(problems),
            config=self._config(problems),
            disk_free=free,
            newest_checkpoint=newest,
            checkpoints=count,
            problems=tuple(problems),
            complete=complete,
            read_share=min(1.0, self._record.end / self._record.size) if self._record.size and not complete else 1.0,
        )

    def _new_entries(self, problems: list[str]) -> tuple[list[EntryBatch], bool]:
        entries = self._record.read()
        if self._record.restarted:
            self._follower.reset()
            if self._record.shrunk:
                problems.append(f"{self._record.path.name} got shorter: nothing may ever do that; it was read again")
        batches = self._follower.batches(entries, from_journal=False)
        if self._record.restarted and batches:
            batches[0] = EntryBatch(batches[0].entries, drop_from=0)
        if self._record.damage.lines:
            damage = self._record.damage
            problems.append(
                f"{self._record.path.name}: {damage.lines:,} unreadable line(s), the first at line {damage.first_line}"
            )
        # `\n]\n` is what remains behind the last entry of a complete record
        complete = not self._record.lines_format or self._record.size - self._record.end <= 4
        if complete:
            batches += self._follower.batches(self._journal.read_all(), from_journal=True)
        return batches, complete

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

    def _samples(self, problems: list[str]) -> tuple[Sample, ...] | None:
        path = self.directory.sample_record()
        if not self._changed(path):
            return None
        try:
            return tuple(read_samples(path))
        except RunError as error:
            problems.append(str(error))
            return ()

    def _snapshot(self, problems: list[str]) -> dict[str, object] | None:
        if not self._changed(self.directory.state):
            return None
        try:
            return read_state(self.directory.state) or {}
        except RunError as error:
            problems.append(str(error))
            return {}

    def _config(self, problems: list[str]) -> RunConfig | None:
        if not self._changed(self.directory.config):
            return None
        try:
            return load_config(self.directory)
        except RunError as error:
            problems.append(str(error))
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
            update = self._reader.poll()
            self._deliver(update)
            if update.complete:
                self._stop.wait(max(0.0, INTERVAL - (time.monotonic() - started)))
