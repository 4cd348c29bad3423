"""`.state.json`: the snapshot of the bandit. The truth is the fold over the loss record; this file is for reading."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from andrea_engine.run.errors import RunError
from andrea_engine.run.io import atomic_write, read_optional
from andrea_engine.run.loss_entry import loads_bounded

FILE_LIMIT = 16 * 1024 * 1024


def read_state(path: Path) -> dict[str, object] | None:
    """The snapshot, or None when there is none. Raises RunError when the file is not a JSON object."""
    try:
        data = read_optional(path, FILE_LIMIT)
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from error
    if data is None:
        return None
    try:
        state = loads_bounded(data)
    except ValueError as error:
        raise RunError(f"{path} is not JSON ({error})") from None
    if not isinstance(state, dict):
        raise RunError(f"{path} is not a JSON object")
    return state


def write_state(path: Path, state: dict[str, object]) -> None:
    """Replace the snapshot. Raises OSError."""
    atomic_write(path, msgspec.json.format(msgspec.json.encode(state), indent=1) + b"\n")


def set_aside(path: Path) -> str | None:
    """Move an unreadable file out of the way under a new name beside it; returns that name, None if nothing moved."""
    for number in range(1, 1000):
        target = path.with_name(f"{path.name}.unreadable-{number}")
        if not os.path.lexists(target):
            try:
                path.rename(target)
            except OSError:
                return None
            return target.name
    return None
