"""What the repairs of a run share: what one is, and where the originals go."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from andrea_engine.run.checkpoint import Deep
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.io import TEMP_PATTERN, atomic_write, ensure_folder, fsync_directory

Rebuild = Callable[[RunDirectory, int], dict[str, object]]
"""The bandit's snapshot at the end of a step, from the loss record. Raises RunError where it cannot be computed."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing to do. `path` is relative to the run; `solves`: with it a problem is gone, and not only a leftover."""

    path: str
    sentence: str
    act: Callable[[], object]
    solves: bool = True


@dataclass(slots=True)
class Workshop:
    """What the repairs of one run share. The folder for originals is made when the first one goes there."""

    directory: RunDirectory
    deep: Deep | None
    rebuild: Rebuild | None
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        name, number = f"repair-{stamp}", 2
        while os.path.lexists(self.directory.archive / name):
            name, number = f"repair-{stamp}-{number}", number + 1
        self.folder = self.directory.archive / name

    @property
    def place(self) -> str:
        return str(self.folder.relative_to(self.directory.path))

    def relative(self, path: Path) -> str:
        return str(path.relative_to(self.directory.path))

    def move(self, path: Path) -> None:
        """Move a file, or whatever has its name, out of the way. A link is moved and not followed."""
        target = self._target(path)
        path.rename(target)
        fsync_directory(target.parent)
        fsync_directory(path.parent)

    def keep(self, path: Path, data: bytes) -> None:
        """Keep `data`, which is about to be cut off a file."""
        atomic_write(self._target(path), data)

    def _target(self, path: Path) -> Path:
        """The place of an original: the same one below the folder. A temporary file gets the name of none."""
        folder = self.folder
        for part in (self.directory.archive, folder):
            ensure_folder(part)
            fsync_directory(part.parent)
        for name in path.relative_to(self.directory.path).parent.parts:
            folder /= name
            ensure_folder(folder)
        name = path.name
        if TEMP_PATTERN.match(name):
            name = name.strip(".").removesuffix(".tmp") + ".half-written"
        target, number = folder / name, 2
        while os.path.lexists(target):
            target, number = folder / f"{name}-{number}", number + 1
        return target

    def moving(self, path: Path, what: str, *, solves: bool = True) -> Repair:
        name = self.relative(path)
        return Repair(name, f"{what}; it moves to {self.place}", partial(self.move, path), solves)
