"""All runs below a directory, each with the few facts that a list shows. Reading is bounded, whatever lies there.

Of a loss record only some windows of bytes are read, of an event log its end; what did not change since the last look
is not read again. Links are not followed.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from andrea_engine.run.condition import condition
from andrea_engine.run.config import load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import BranchPoint, Event, branch_point, on_branch, parse_event
from andrea_engine.run.heartbeat import Heartbeat, read_heartbeat
from andrea_engine.run.io import open_regular
from andrea_engine.run.launch import EngineStatus, engine_status
from andrea_engine.run.loss_entry import LossEntry, current_branch, entry_from, loads_bounded
from andrea_engine.run.loss_reader import LossReader
from andrea_tui.feed.entries import Stamp, file_stamp

MOST_RUNS = 2000
MOST_LOOKED_AT = 20_000  # directories that are asked whether they are runs
MOST_FILES = 10_000  # of one run, when its size is added up
SMALL_RECORD = 256 * 1024  # bytes that are read whole
LARGEST_DOCUMENT = 8 * 1024 * 1024  # a record without lines can only be read whole
WINDOWS = 48
WINDOW = 2048
TAIL = 32 * 1024
EVENTS_TAIL = 128 * 1024
SIZE_SECONDS = 30.0
_TOLD = (b'"sample"', b'"rollback"', b'"resumed"')  # what the list needs of an event log


class RunRow(msgspec.Struct, frozen=True):
    """A run. None is unknown. `name`: its path below the root. `curve`: the loss EMA (or the loss, where a record has
    no EMA) from the first step to the last. `last_step`, `changed`: seconds since the epoch."""

    path: Path
    name: str
    word: str
    sentence: str
    alive: bool
    step: int
    total_steps: int | None
    ema: float | None
    score: float | None
    gate_low: int | None
    gate_limit: int | None
    last_step: float | None
    changed: float
    bytes: int | None
    curve: tuple[float, ...]


class RunsListing(msgspec.Struct, frozen=True):
    """By name. `left_off`: there are more than are shown. `problem`: why the root cannot be read; ''."""

    rows: tuple[RunRow, ...] = ()
    left_off: bool = False
    problem: str = ""


def is_run(path: Path) -> bool:
    """True for a real directory (no link) that holds a run, ours or a recorded one."""
    try:
        if not stat.S_ISDIR(path.lstat().st_mode):
            return False
        directory = RunDirectory(path)
        return directory.exists() or directory.is_foreign_run()
    except OSError:
        return False


def find_runs(root: Path) -> Iterator[Path]:
    """Runs in `root`, and in those of its directories that are no runs. Raises OSError when `root` cannot be read."""
    left = MOST_LOOKED_AT
    for path in _directories(root):
        below: list[Path] = []
        if is_run(path):
            yield path
        else:
            with contextlib.suppress(OSError):
                below = _directories(path)
        left -= 1 + len(below)
        if left < 0:
            return
        yield from filter(is_run, below)


def _directories(path: Path) -> list[Path]:
    with os.scandir(path) as entries:
        return [path / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def holds_runs(path: Path) -> bool:
    """True for a directory that is no run and has some below it."""
    try:
        return path.is_dir() and not is_run(path) and next(find_runs(path), None) is not None
    except OSError:
        return False


def newest_run(root: Path) -> Path | None:
    """The run below `root` that changed last; None when there is none."""

    def changed(path: Path) -> float:
        directory = RunDirectory(path)
        files = (directory.loss_record(), directory.journal, directory.config)
        return _last_change(read_heartbeat(directory.heartbeat), map(file_stamp, files))

    try:
        return max(sorted(islice(find_runs(root), MOST_RUNS)), key=changed, default=None)
    except OSError:
        return None


def _last_change(beat: Heartbeat | None, stamps: Iterable[Stamp | None]) -> float:
    """Seconds since the epoch, of the last sign of life."""
    return max(beat.time if beat else 0.0, *(_seconds(stamp) or 0.0 for stamp in stamps))


def _seconds(stamp: Stamp | None) -> float | None:
    """When the file was changed."""
    return stamp[2] / 1e9 if stamp else None


class RunsReader:
    """Remembers what was read of each run. `poll` is called from one thread only."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._runs: dict[Path, _RunReader] = {}

    def poll(self) -> RunsListing:
        """What is there now. Never raises for what lies there."""
        paths: list[Path] = []
        left_off = False
        try:
            for path in find_runs(self.root):
                left_off = len(paths) >= MOST_RUNS
                if left_off:
                    break
                paths.append(path)
        except OSError as error:
            return RunsListing(problem=f"{self.root} cannot be read: {error.strerror}")
        self._runs = {path: self._runs.get(path) or _RunReader(path) for path in paths}
        rows = []
        for path, reader in self._runs.items():
            with contextlib.suppress(OSError):  # taken away while it was read
                rows.append(reader.row(str(path.relative_to(self.root))))
        return RunsListing(tuple(sorted(rows, key=lambda row: row.name)), left_off)


class _RunReader(msgspec.Struct):
    path: Path
    _stamps: dict[str, Stamp | None] = msgspec.field(default_factory=dict)
    _status: EngineStatus | None = None
    _config: tuple[int, int] | None = None
    _record: list[LossEntry] = msgspec.field(default_factory=list)
    _journal: list[LossEntry] = msgspec.field(default_factory=list)
    _sample: Event | None = None
    _point: BranchPoint | None = None
    _bytes: int | None = None
    _size_due: float = float("-inf")

    def row(self, name: str) -> RunRow:
        directory = RunDirectory(self.path)
        if self._changed("beat", directory.heartbeat) or self._status is None or self._status.alive:
            self._status = engine_status(directory)
        if self._changed("config", directory.config):
            self._config = _plan(directory)
        record = directory.loss_record()
        if self._changed("record", record):
            self._record = read_some(record)
        if self._changed("journal", directory.journal):
            self._journal = _lines_of(_end_of(directory.journal, TAIL))
        if self._changed("events", directory.events):
            self._sample, self._point = _last_words(_end_of(directory.events, EVENTS_TAIL))
        self._add_up()
        beat = self._status.heartbeat
        now = condition(directory, self._status)
        entries = on_branch(current_branch([*self._record, *self._journal]), self._point)
        step = max(entries[-1].step if entries else 0, beat.step if beat is not None and now.alive else 0)
        sample, plan = self._sample, self._config
        return RunRow(
            self.path,
            name,
            now.word,
            now.sentence,
            now.alive,
            step,
            plan[0] if plan else (beat.total_steps or None if beat else None),
            next((e.ema for e in reversed(entries) if e.ema is not None), None),
            sample.number("total") if sample else None,
            sample.integer("consecutive_low") if sample else None,
            plan[1] if plan else None,
            (beat.step_time if beat else None) or self._time_of("record"),
            _last_change(beat, [self._stamps[what] for what in ("record", "journal", "config")]),
            self._bytes,
            tuple(value for e in entries if (value := e.ema if e.ema is not None else e.loss) is not None),
        )

    def _changed(self, what: str, path: Path) -> bool:
        stamp = file_stamp(path)
        changed = what not in self._stamps or self._stamps[what] != stamp
        self._stamps[what] = stamp
        return changed

    def _time_of(self, what: str) -> float | None:
        return _seconds(self._stamps.get(what))

    def _add_up(self) -> None:
        """Size on disk, once in a while and only where the directory changed."""
        now = time.monotonic()
        if now >= self._size_due and self._changed("directory", self.path):
            self._size_due = now + SIZE_SECONDS
            self._bytes = disk_bytes(self.path)


def _plan(directory: RunDirectory) -> tuple[int, int] | None:
    """Planned steps, and low samples in a row that halt; None when the run does not say."""
    try:
        config = load_config(directory)
    except (RunError, OSError):
        return None
    return config.schedule.steps, config.gate.consecutive


def read_some(path: Path) -> list[LossEntry]:
    """Entries of a loss record in file order, at most about `WINDOWS` of a long one and its last ones. Never raises."""
    try:
        descriptor = open_regular(path)
    except OSError:
        return []
    try:
        size = os.fstat(descriptor).st_size
        in_lines = os.pread(descriptor, 2, 0) in (b"[\n", b'{"')
        if size > SMALL_RECORD and in_lines:
            entries = []
            for window in range(WINDOWS):
                entries += _lines_of(os.pread(descriptor, WINDOW, window * (size - TAIL) // WINDOWS), most=1)
            return entries + _lines_of(os.pread(descriptor, TAIL, size - TAIL))
    except OSError:
        return []
    finally:
        os.close(descriptor)
    return LossReader(path).read_all() if size <= (SMALL_RECORD if in_lines else LARGEST_DOCUMENT) else []


def _lines_of(data: bytes, most: int | None = None) -> list[LossEntry]:
    """The complete entries in a piece of a file of lines; what is not one is left out."""
    entries: list[LossEntry] = []
    for line in data.split(b"\n"):
        text = line.strip(b" \t\r,")
        if not (text.startswith(b"{") and text.endswith(b"}")):
            continue
        with contextlib.suppress(ValueError):
            entry = entry_from(loads_bounded(text))
            if entry is not None:
                entries.append(entry)
        if len(entries) == most:
            break
    return entries


def _end_of(path: Path, limit: int) -> bytes:
    try:
        descriptor = open_regular(path)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, limit, max(0, os.fstat(descriptor).st_size - limit))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _last_words(data: bytes) -> tuple[Event | None, BranchPoint | None]:
    """The newest sample on the present branch, and where that branch began, as far as the end of an event log tells."""
    told = [line for line in data.split(b"\n") if any(kind in line for kind in _TOLD)]
    events = [event for event in map(parse_event, told) if event is not None]
    point = branch_point(events)
    samples = [event for event in events if event.kind == "sample" and event.step is not None]
    if point is not None:
        samples = [event for event in samples if not point.leaves_behind(event.step or 0, event.session)]
    return samples[-1] if samples else None, point


def disk_bytes(path: Path) -> int | None:
    """Bytes that a directory takes up on disk, links not followed; None when it holds too many files to count."""
    total = files = 0
    for folder, _, names in os.walk(path):
        for name in names:
            files += 1
            if files > MOST_FILES:
                return None
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118  (ten times faster)
    return total
