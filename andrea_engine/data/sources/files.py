"""Reading other people's files: regular ones only, links not followed, never more than asked."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path

from andrea_engine.data.sources.base import Options, SourceUnavailable
from andrea_engine.run.errors import ConfigError
from andrea_engine.run.io import open_regular


def is_visible(name: str) -> bool:
    return not name.startswith(".")


def regular_files(folder: Path, enter: Callable[[str], bool], depth: int | None = None) -> Iterator[Path]:
    """Regular files below `folder`, links left out, in sorted order.

    Only subfolders whose name passes `enter` are looked into, and with `depth` only so many levels (1: none).
    """
    for where, folders, names in os.walk(folder):
        level = len(Path(where).relative_to(folder).parts) + 1
        folders[:] = sorted(name for name in folders if enter(name)) if depth is None or level < depth else []
        for name in sorted(names):
            path = Path(where, name)
            try:
                if stat.S_ISREG(path.lstat().st_mode):
                    yield path
            except OSError:
                continue  # gone since it was listed


def read_text(path: Path, max_bytes: int) -> str | None:
    """The text of a UTF-8 file with `\\n` line ends; None when it is unreadable, too large or not text."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            data = file.read(max_bytes + 1)
    except OSError:
        return None
    return None if len(data) > max_bytes else decoded(data)


def decoded(data: bytes) -> str | None:
    """UTF-8 text with `\\n` line ends and without byte order mark; None for anything else."""
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return None


@dataclass(frozen=True, slots=True)
class Location:
    """Where the files of a source are: one path, or glob patterns. `str()` names it in messages."""

    base: Path
    path: str | None = None
    patterns: tuple[str, ...] = ()
    suffix: str = ""

    def __str__(self) -> str:
        return str(self.base / self.path) if self.path else ", ".join(self.patterns)

    def files(self) -> Iterator[Path]:
        """The files in sorted order, each once, hidden ones left out. Raises SourceUnavailable without `path`.

        A link is followed only where it is named itself.
        """
        if self.path is None:
            yield from sorted({file for pattern in self.patterns for file in self._matches(pattern)})
            return
        path = self.base / self.path
        try:
            named = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:  # RuntimeError: a link that leads to itself, before Python 3.13
            raise SourceUnavailable(f"{path} cannot be read: it does not exist or may not be opened") from error
        if not named.is_dir():
            yield named
            return
        for file in regular_files(named, is_visible):
            if is_visible(file.name) and file.name.endswith(self.suffix):
                yield file

    def _matches(self, pattern: str) -> Iterator[Path]:
        """`*`, `?` and `[...]` within a name, `**` for any number of folders; a walk that link loops cannot trap."""
        parts = Path(pattern).parts
        plain = list(takewhile(lambda part: not set(part) & set("*?["), parts[:-1]))
        wanted = parts[len(plain) :]
        root = self.base.joinpath(*plain)
        for file in regular_files(root, is_visible, None if "**" in wanted else len(wanted)):
            if is_visible(file.name) and _fits(file.relative_to(root).parts, wanted):
                yield file


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_fits(parts[skip:], pattern[1:]) for skip in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def locate(options: Options, base: Path, suffix: str = "") -> Location:
    """The location in a `[[sources]]` table. Raises ConfigError unless exactly one of `path` and `glob` is there."""
    path, patterns = options.text("path"), options.texts("glob")
    if (path is None) == (not patterns):
        raise ConfigError(f"source '{options.name}': give either 'path' or 'glob'")
    return Location(base, path, patterns, suffix)
