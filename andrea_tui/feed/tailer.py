"""The only reader of the run directory: a thread that looks again and again and hands out what is new."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from andrea_engine.run.checkpoint import list_checkpoints
from andrea_engine.run.condition import Condition, ProgressWatch, condition
from andrea_engine.run.config import RunConfig, load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import Event, parse_event
from andrea_engine.run.launch import engine_status
from andrea_engine.run.samples import Sample, read_samples
from andrea_engine.run.state import read_state
from andrea_engine.run.tailing import LineTail
from andrea_tui.feed.entries import EntriesReader, OtherReader, Stamp, file_stamp
from andrea_tui.feed.last_words import LogTail, last_words
from andrea_tui.feed.pace import Pace
from andrea_tui.feed.past_samples import PastSamples
from andrea_tui.feed.read_ahead import ReadAhead
from andrea_tui.feed.update import EntryBatch, OtherUpdate, Update

AGE_INTERVAL = 1.0  # with an engine, ages on the screen move at least so often
FIRST_FRAME = 1.0  # seconds that the reading of a long record waits at most until the first update is on the screen
EVENTS_CHUNK = 512 * 1024  # bytes of the event log in a look: the screen waits while they are taken in
MOST_PENDING = 4  # updates the app has not taken yet: beyond that, wait instead of piling up


class DirectoryReader:
    """Remembers how far each file was read. `poll` is called from one thread only."""

    def __init__(
        self, directory: RunDirectory, compare: RunDirectory | None = None, ahead: ReadAhead | None = None
    ) -> None:
        self.directory = directory
        self._entries = EntriesReader(directory, ahead)
        self._other = OtherReader(compare) if compare is not None else None
        self._events = LineTail(directory.events)
        self._stamps: dict[Path, Stamp] = {}
        self._progress = ProgressWatch()
        self._past_samples = PastSamples(directory)
        self._next_slow = 0.0
        self._checkpoints: tuple[int | None, int] | None = None
        self._problems: dict[str, str] = {}  # by file, each until that file changes

    def poll(self) -> Update:
        """One look. Never raises for content or for missing files."""
        self._entries.look_for_record()
        # State before content: an engine that has ended has written all it had to say. And what is handed out once
        # only comes last: a look that fails on the way loses nothing.
        status = engine_status(self.directory)
        now = condition(self.directory, status, watch=self._progress)
        free, newest, count = self._slow_facts()
        samples, snapshot, config = self._samples(), self._snapshot(), self._config()
        other = self._look_at_other()
        return Update(
            time=time.time(),
            condition=now,
            heartbeat=status.heartbeat,
            batches=tuple(self._new_entries()),
            events=tuple(self._new_events()),
            samples=samples,
            past_samples=self._past_samples.look(),
            snapshot=snapshot,
            config=config,
            disk_free=free,
            newest_checkpoint=newest,
            checkpoints=count,
            log_tail=None if now.alive else self._log_tail(),
            problems=tuple(text for text in self._problems.values() if text),
            complete=self._entries.complete and self._events.at_end,
            read_share=self._entries.share,
            other=other,
        )

    def close(self) -> None:
        """Nothing will be read any more."""
        self._entries.close()
        if self._other is not None:
            self._other.close()

    def _new_entries(self) -> list[EntryBatch]:
        batches = self._entries.read()
        self._problems["record"] = self._entries.problem
        return batches

    def _look_at_other(self) -> OtherUpdate | None:
        if self._other is None:
            return None
        other = self._other.poll()
        self._problems["other"] = self._other.problem
        return other

    def _new_events(self) -> list[Event]:
        lines = self._events.read(EVENTS_CHUNK)
        return [event for event in map(parse_event, lines) if event is not None]

    def _changed(self, path: Path) -> bool:
        """True when the file was replaced or written since the last look (or looked at for the first time)."""
        stamp = file_stamp(path)
        if self._stamps.get(path) == stamp:
            return False
        if stamp is None:
            del self._stamps[path]
        else:
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

    def _log_tail(self) -> LogTail | None:
        return last_words(self.directory.log) if self._changed(self.directory.log) else None

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

    `compare`: a second run, read with it. `ahead`: a process that reads the long record already. The receiver calls
    `taken` for each update it has worked off; a receiver that falls behind slows the reading.
    """

    def __init__(
        self,
        directory: RunDirectory,
        deliver: Callable[[Update], object],
        compare: RunDirectory | None = None,
        ahead: ReadAhead | None = None,
    ) -> None:
        self._reader = DirectoryReader(directory, compare, ahead)
        self._deliver = deliver
        self._stopped = False
        self._wake = threading.Event()
        self._delivered = float("-inf")
        self._pace = Pace()
        self._pending = threading.Semaphore(MOST_PENDING)
        self._first_taken = threading.Event()
        self._last = Update(0.0, Condition("missing", alive=False, sentence="not read yet"), None)
        self._thread = threading.Thread(target=self._run, name="tailer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        self._first_taken.set()
        self._pending.release()
        self._reader.close()  # first: a look may be waiting for what another process reads
        if self._thread.is_alive():  # one that never began cannot be waited for
            self._thread.join(timeout=2.0)

    def look_now(self) -> None:
        """Do not wait for the end of the pause: something is about to happen."""
        self._wake.set()

    def attended(self) -> None:
        """Somebody is at the console: what stands there is brought up to date, and kept so for a while."""
        if self._pace.attended():
            self._wake.set()

    def taken(self) -> None:
        self._first_taken.set()
        self._pending.release()

    def _run(self) -> None:
        while True:
            started = time.monotonic()
            self._pending.acquire()
            if self._stopped:
                return
            self._pace.begin()
            before = self._last
            update = self._look()
            news = self._is_news(update, before)
            if news or (update.condition.alive and started - self._delivered >= AGE_INTERVAL):
                self._delivered = started
                self._deliver(replace(update, pause=self._pace.beside(update)))
                self._first_taken.wait(FIRST_FRAME)  # both threads at once would take turns, and the frame be late
            else:
                self._pending.release()
            woken = self._wake.is_set()
            self._wake.clear()  # before the pause is chosen: who wakes from now on ends it
            pause = self._pace.pause(update, news=news or woken)
            caught_up = update.complete and (update.other is None or update.other.complete)
            if caught_up and not self._stopped:
                self._wake.wait(max(0.0, pause - (time.monotonic() - started)))

    @staticmethod
    def _is_news(update: Update, before: Update) -> bool:
        """A look that found nothing new is not worth a frame."""
        unchanged = update.quiet and update.complete == before.complete and update.problems == before.problems
        same_state = (update.condition, update.heartbeat) == (before.condition, before.heartbeat)
        return before.time == 0.0 or not (unchanged and same_state)

    def _look(self) -> Update:
        """A failing look is told on the screen; what was known before still stands there."""
        try:
            self._last = self._reader.poll()
            return self._last
        except Exception as error:  # whatever it is: a dead thread would show an old picture for ever
            text = f"the run directory cannot be read ({type(error).__name__}: {error}); trying again"
            before = self._last
            self._last = Update(
                time.time(),
                before.condition,
                before.heartbeat,
                problems=(text,),
                complete=before.complete,
                read_share=before.read_share,
            )
            return self._last
