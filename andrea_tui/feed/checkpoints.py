"""The checkpoints of a run with what the event log knows of each: a reader that looks only at what changed."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left, bisect_right

import msgspec
from msgspec.structs import replace

from andrea_engine.run.checkpoint import CheckpointFile, inspect_checkpoint, parse_name
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import Event, parse_event
from andrea_engine.run.pins import PinNote, pin_of
from andrea_engine.run.tailing import LineTail


class CheckpointRow(msgspec.Struct, frozen=True):
    """One file. `time`: seconds since the epoch, of the save or else of the file. `sha256`: as recorded when it was
    saved, '' when it was not. `score`: step and points of the newest sample up to this step."""

    file: str
    step: int
    bytes: int
    problem: str | None
    time: float | None
    stamp: tuple[int, int, int]
    pin: PinNote | None = None
    sha256: str = ""
    score: tuple[int, float] | None = None

    @property
    def valid(self) -> bool:
        return self.problem is None


class CheckpointListing(msgspec.Struct, frozen=True):
    """Newest step first. `problem`: why the directory cannot be read; ''."""

    rows: tuple[CheckpointRow, ...] = ()
    problem: str = ""

    @property
    def bytes(self) -> int:
        return sum(row.bytes for row in self.rows)

    @property
    def valid(self) -> int:
        return sum(row.valid for row in self.rows)


class CheckpointReader:
    """`poll` is called from one thread only. `n_params`, once it is known, has to agree with each file."""

    def __init__(self, directory: RunDirectory, n_params: int | None = None) -> None:
        self._directory = directory
        self._events = LineTail(directory.events)
        self.n_params = n_params
        self._files: dict[str, tuple[tuple[int, int, int, int | None], CheckpointFile]] = {}
        self._forget()
        self._last: CheckpointListing | None = None

    def _forget(self) -> None:
        self._pins: dict[int, PinNote] = {}
        self._saved: dict[int, tuple[float, str]] = {}
        self._sample_steps: list[int] = []
        self._scores: list[float] = []

    def poll(self) -> CheckpointListing | None:
        """What is there now; None when that is what was there before. Never raises for content."""
        self._read_events()
        listing = self._list()
        if listing == self._last:
            return None
        self._last = listing
        return listing

    def _read_events(self) -> None:
        while lines := self._events.read():
            if self._events.restarted:
                self._forget()
            for event in map(parse_event, lines):
                if event is not None and event.step is not None:
                    self._take(event, event.step)

    def _take(self, event: Event, step: int) -> None:
        note = pin_of(event)
        if note is not None:
            self._pins[step] = note
        elif event.kind == "unpin":
            self._pins.pop(step, None)
        if event.kind == "save_durable":
            self._saved[step] = (event.time, event.text("sha256"))
        elif event.kind == "sample":
            score = event.number("total")
            if score is not None:
                at = bisect_left(self._sample_steps, step)  # a later session made this one, and what follows, again
                del self._sample_steps[at:], self._scores[at:]
                self._sample_steps.append(step)
                self._scores.append(score)

    def _list(self) -> CheckpointListing:
        try:
            with os.scandir(self._directory.path) as entries:
                found = [entry for entry in entries if parse_name(entry.name) is not None]
        except OSError as error:
            return CheckpointListing(problem=f"{self._directory.path} cannot be read: {error.strerror}")
        files = {}
        for entry in found:
            with contextlib.suppress(OSError):  # removed since
                files[entry.name] = self._file(entry.name, entry.stat(follow_symlinks=False))
        self._files = files
        rows = [self._row(name, file, stamp) for name, (stamp, file) in self._files.items()]
        return CheckpointListing(tuple(sorted(rows, key=lambda row: row.step, reverse=True)))

    def _file(self, name: str, status: os.stat_result) -> tuple[tuple[int, int, int, int | None], CheckpointFile]:
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns, self.n_params)
        known = self._files.get(name)
        if known is not None and known[0] == stamp:
            return known
        return stamp, inspect_checkpoint(self._directory.path / name, self.n_params)

    def _row(self, name: str, file: CheckpointFile, stamp: tuple[int, int, int, int | None]) -> CheckpointRow:
        at, sha256 = self._saved.get(file.step, (stamp[2] / 1e9, ""))
        row = CheckpointRow(name, file.step, file.bytes, file.problem, at, stamp[:3], self._pins.get(file.step), sha256)
        index = bisect_right(self._sample_steps, file.step) - 1
        return row if index < 0 else replace(row, score=(self._sample_steps[index], self._scores[index]))
