"""Pins: checkpoints that the keep rule leaves alone. They are events, so the log tells who pinned what, and why.

A pin may be set while an engine trains. Whoever pins and whoever removes holds the lock on the event log meanwhile,
so that a checkpoint is never removed between the look whether it is there and the pin, nor the other way round. The
engine does not wait for that lock: it removes with its next save instead.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from andrea_engine.run.checkpoint import checkpoint_name, inspect_checkpoint
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import NoCheckpointError, RunError
from andrea_engine.run.events import Event, EventLog, continued_log, follow_pins, parse_event, sets_pin
from andrea_engine.run.intent import GUARD_PATIENCE, guard
from andrea_engine.run.tailing import LineTail

_WHY = {
    "operator": "asked for by you",
    "halt": "at the halt",
    "pivot": "pivot point",
    "fork": "this run was forked here",
    "stop": "before the stop",
    "final": "end of the training",
}


@dataclass(frozen=True, slots=True)
class PinNote:
    """A pin: why, by whom ('' for the engine) and when (seconds since the epoch)."""

    why: str
    by: str
    time: float


def why_saved(reason: str) -> str:
    """The reason of a save for people, in the same words wherever it is told; an unknown one as it is."""
    return _WHY.get(reason, reason)


class PinFollower:
    """The pins as the event log tells them; `read` takes in what was added since the last call."""

    def __init__(self, directory: RunDirectory) -> None:
        self._tail = LineTail(directory.events)

    def read(self, pinned: set[int]) -> None:
        """Bring `pinned` up to the log."""
        while lines := self._tail.read():
            follow_pins(pinned, filter(None, map(parse_event, lines)))


def pin_of(event: Event) -> PinNote | None:
    """The pin that an event sets, or None."""
    if not sets_pin(event):
        return None
    reason = event.text("reason")
    if event.kind == "pin":
        return PinNote(reason or "pinned", event.text("by"), event.time)
    return PinNote(why_saved(reason), "", event.time)


def pin(
    directory: RunDirectory, step: int, *, by: str, reason: str = "pinned by hand", patience: float = GUARD_PATIENCE
) -> None:
    """Keep the checkpoint of `step` until it is unpinned. Safe while an engine trains.

    Raises NoCheckpointError when it is not there or not valid, RunError when the log cannot be written or is busy for
    `patience` seconds.
    """
    events = continued_log(directory.events)
    with guard(directory, patience, what="pins"):
        path = directory.path / checkpoint_name(step)
        if not os.path.lexists(path):
            raise NoCheckpointError(f"{path.name} is not there any more, so it cannot be pinned")
        file = inspect_checkpoint(path)
        if not file.valid:
            raise NoCheckpointError(f"step {step:,} cannot be pinned: {file.path.name} {file.problem}")
        _append(events, "pin", step=step, by=by, reason=reason)


def unpin(directory: RunDirectory, step: int, *, by: str) -> None:
    """Give the checkpoint of `step` back to the keep rule. Raises RunError as `pin` does."""
    events = continued_log(directory.events)
    with guard(directory, what="pins"):
        _append(events, "unpin", step=step, by=by)


def _append(events: EventLog, kind: str, **facts: object) -> None:
    events.append(kind, at=None, **facts)
    if events.problem:
        raise RunError(f"{events.path}: {events.problem}")
