"""`pivot.json`: the intent record of a pivot that is under way, and the rules for changing it.

`asked`     written by the asker; may be moved to a later step by the engine, and cancelled by anyone
`reached`   the engine saved the agreed step and left for the pivot: it cannot be cancelled any more
`applying`  sealed: everything the sequence needs stands in the record, and whoever finds it finishes it

The record changes only while `guard` is held; once it is sealed, only the holder of the engine's lock touches it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from andrea_engine.run.directory import ARCHIVE_PATTERN, RunDirectory
from andrea_engine.run.errors import ConfigError, RunError
from andrea_engine.run.io import atomic_write, open_regular, read_optional
from andrea_engine.run.receipt import CheckpointDigests, RecordPrefix

FILE_LIMIT = 4 * 1024 * 1024
GUARD_PATIENCE = 10.0
_PAUSE = 0.01

Step = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
At = Literal["boundary", "now"]


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """What was true just before anything moved. `archived` maps the files to move to their SHA-256, None if unreadable.

    `old_policy` is TOML.
    """

    checkpoint: CheckpointDigests
    record: RecordPrefix
    archived: dict[str, str | None]
    old_policy: str
    time: float


class PivotIntent(msgspec.Struct, frozen=True, kw_only=True):
    """A pivot under way. `generation` is that of the new policy, `policy` its TOML, `step` the last one under the old.

    `archive` is relative to the run directory. `restart`: whether the engine should go on afterwards, `arguments`
    with which options. `reached`: when the engine left for the pivot. Times are seconds since the epoch.
    """

    format: int = 1
    id: str
    generation: int
    at: At
    step: Step
    archive: str
    policy: str
    asked: float
    asked_by: str
    restart: bool = False
    arguments: list[str] = []
    reached: float | None = None
    phase: Literal["asked", "reached", "applying"] = "asked"
    sealed: Sealed | None = None


def read_intent(directory: RunDirectory) -> PivotIntent | None:
    """The pivot under way, None when there is none. Raises ConfigError when the record is damaged."""
    path = directory.pivot_intent
    try:
        data = read_optional(path, FILE_LIMIT)
        if data is None:
            return None
        intent = msgspec.json.decode(data, type=PivotIntent)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); restore it, or remove it if nothing is archived") from None
    folder, _, name = intent.archive.partition("/")
    if folder != directory.archive.name or not ARCHIVE_PATTERN.fullmatch(name):
        raise ConfigError(f"{path} names the archive {intent.archive!r}, which no pivot writes; remove the file")
    if (intent.phase == "applying") != (intent.sealed is not None):
        raise ConfigError(f"{path} contradicts itself about its progress; restore it, or remove it")
    return intent


def write_intent(directory: RunDirectory, intent: PivotIntent) -> None:
    """Replace the record, durably. Raises OSError."""
    atomic_write(directory.pivot_intent, msgspec.json.format(msgspec.json.encode(intent), indent=1) + b"\n")


@contextlib.contextmanager
def guard(directory: RunDirectory, patience: float = GUARD_PATIENCE, what: str = "pivot") -> Iterator[None]:
    """Hold the right to change the record (or the pins): between reading and writing it nobody else does.

    The lock is on the event log: a file that is there and is never replaced. It ends with its process. Raises RunError
    when somebody else holds it for `patience` seconds, or the directory cannot be written.
    """
    try:
        descriptor = open_regular(directory.events, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    except OSError as error:
        raise RunError(f"{directory.events} cannot be opened: {error.strerror}") from None
    try:
        deadline = time.monotonic() + patience
        while not _locked(descriptor):
            if time.monotonic() >= deadline:
                raise RunError(f"another process is changing the {what} of {directory.path} just now; try again")
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def next_boundary(step: int, every: int, target: int) -> int:
    """First checkpoint boundary after `step`: a multiple of `every`, or `target` if training ends before it."""
    boundary = (step // every + 1) * every
    return boundary if boundary <= target or target <= step else target


def agreed_step(intent: PivotIntent, here: int, every: int, target: int) -> int:
    """The step at which the pivot happens, seen from the end of step `here`: `here` itself, or a later one.

    It is the step of the intent while that is still to come. Where it has passed unseen: the next boundary, and
    `here` if it is one. A pivot asked for `now` is due at once.
    """
    if intent.at == "now":
        return here
    return intent.step if here <= intent.step else next_boundary(here - 1, every, target)


def at_step(directory: RunDirectory, intent: PivotIntent, step: int) -> PivotIntent:
    """The intent for another step, with the archive name that belongs to it."""
    return msgspec.structs.replace(intent, step=step, archive=free_archive(directory, intent.generation, step))


def free_archive(directory: RunDirectory, generation: int, step: int) -> str:
    """Name of an archive that does not exist yet, relative to the run directory."""
    base = f"{directory.archive.name}/pivot-{generation:04d}-step-{step:06d}"
    name, number = base, 2
    while os.path.lexists(directory.path / name):
        name, number = f"{base}-{number}", number + 1
    return name
