"""The event log of a run: what was asked, what happened, and when. One JSON object a line, only ever appended.

Kinds: `start`, `resumed`, `phase`, `save_asked`, `save_seen`, `save_writing`, `save_durable`, `save_failed`, `removed`,
`sample`, `validation`, `gate`, `nonfinite`, `halt`, `override`, `pin`, `unpin`, `rollback`, `forked`,
`pivot_asked`, `pivot_seen`, `pivot_cancelled`, `pivot` (done), `energy` (how it was measured, from then on),
`notice`, `error`, `stop`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeGuard

import msgspec

from andrea_engine.run.io import append_line
from andrea_engine.run.loss_entry import LossEntry, dumps_strict, loads_bounded
from andrea_engine.run.tailing import LineTail

MAX_LINE = 256 * 1024


class Event(msgspec.Struct, frozen=True):
    """One line. `time`: seconds since the epoch; `session`: starts so far; `facts`: the other keys."""

    time: float
    kind: str
    session: int
    facts: dict[str, object]

    def number(self, name: str) -> float | None:
        """A finite number among the facts, or None."""
        value = self.facts.get(name)
        return value if _is_number(value) else None

    def integer(self, name: str) -> int | None:
        value = self.number(name)
        return int(value) if value is not None else None

    def text(self, name: str) -> str:
        """A string among the facts, or ''."""
        value = self.facts.get(name)
        return value if isinstance(value, str) else ""

    @property
    def step(self) -> int | None:
        return self.integer("step")


class EventLog:
    """Writer. A failed write never stops training: the last problem stands in `problem`.

    `observer` gets kind and facts of each event, in the thread that appends it, also when the file is not writable.
    """

    def __init__(self, path: Path, session: int) -> None:
        self.path = path
        self.session = session
        self.problem: str | None = None
        self.observer: Callable[[str, Mapping[str, object]], None] | None = None

    def append(self, kind: str, *, at: float | None = None, **facts: object) -> None:
        """Append one event; `at` is its time when that is not now."""
        when = time.time() if at is None else at
        line = {"time": round(when, 3), "kind": kind, "session": self.session, **facts}
        try:
            append_line(self.path, dumps_strict(line))
            self.problem = None
        except OSError as error:
            self.problem = f"the event log cannot be written: {error.strerror}"
        if self.observer is not None:
            self.observer(kind, facts)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def parse_event(line: bytes) -> Event | None:
    """One line of an event log, or None when it is damaged."""
    if not line.strip() or len(line) > MAX_LINE:
        return None
    try:
        item = loads_bounded(line)
    except ValueError:
        return None
    if not isinstance(item, dict):
        return None
    kind, when, session = item.pop("kind", None), item.pop("time", None), item.pop("session", 0)
    if not isinstance(kind, str) or not _is_number(when) or not isinstance(session, int):
        return None
    return Event(float(when), kind, session, item)


def read_events(path: Path) -> list[Event]:
    """Every readable event of a run, oldest first; damaged lines are left out."""
    tail = LineTail(path)
    events: list[Event] = []
    while lines := tail.read():
        events += [event for event in map(parse_event, lines) if event is not None]
    return events


def pinned_steps(events: Iterable[Event]) -> set[int]:
    """Steps whose checkpoints the keep rule must not remove: operator saves, pivot points, last good before a halt."""
    pinned: set[int] = set()
    follow_pins(pinned, events)
    return pinned


def follow_pins(pinned: set[int], events: Iterable[Event]) -> None:
    """Bring `pinned` up to further events: pins are added, unpinned steps taken out, in the order of the log."""
    for event in events:
        if event.step is None:
            continue
        if sets_pin(event):
            pinned.add(event.step)
        elif event.kind == "unpin":
            pinned.discard(event.step)


def sets_pin(event: Event) -> bool:
    """Whether an event pins the checkpoint of its step."""
    return event.kind == "pin" or (event.kind == "save_durable" and event.facts.get("pinned") is True)


def last_session(events: Iterable[Event]) -> int:
    """The session that was the last to start; 0 before the first."""
    return max((event.session for event in events), default=0)


def continued_log(path: Path) -> EventLog:
    """The event log for whoever is not the engine: what is added belongs to the session that was the last to start."""
    return EventLog(path, last_session(read_events(path)))


class BranchPoint(msgspec.Struct, frozen=True):
    """Where a run stands since a roll-back or a resume: what `session` and those before it trained behind `step` led
    to other weights."""

    step: int
    session: int

    def leaves_behind(self, step: int, session: int | None) -> bool:
        """Whether what a session trained at a step is not on the way to the present weights. Of an unknown session it
        is taken to be."""
        return step > self.step and session is not None and session <= self.session


def on_branch(entries: list[LossEntry], point: BranchPoint | None) -> list[LossEntry]:
    """Those on the way to the present weights."""
    if point is None:
        return entries
    return [entry for entry in entries if not point.leaves_behind(entry.step, entry.session)]


def branch_point(events: Iterable[Event], before: BranchPoint | None = None) -> BranchPoint | None:
    """The newest branch point, `before` where these events have none; None while there was neither roll-back nor
    resume."""
    point = before
    for event in events:
        if event.step is None:
            continue
        if event.kind == "rollback":
            point = BranchPoint(event.step, event.session)
        elif event.kind == "resumed":
            point = BranchPoint(event.step, event.session - 1)
    return point


def known_digests(events: Iterable[Event]) -> dict[int, str]:
    """SHA-256 of each checkpoint by step, as recorded when it was saved (the last save of a step counts)."""
    return {
        event.step: event.text("sha256")
        for event in events
        if event.kind == "save_durable" and event.step is not None and event.text("sha256")
    }
