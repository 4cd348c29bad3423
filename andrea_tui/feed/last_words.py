"""The last lines of the engine's log, for when it has ended."""

from __future__ import annotations

from pathlib import Path

import msgspec

from andrea_tui.feed.line_file import LineFile, LineFileError
from andrea_tui.feed.log_text import LogReading

LAST_LINES = 20
LAST_BLOCKS = 3  # that are looked at
LONGEST = 1000  # characters of each


class LogTail(msgspec.Struct, frozen=True):
    """`modified`: seconds since the epoch, of the file; `problem`: why there are no lines, ''."""

    lines: tuple[str, ...]
    modified: float
    problem: str = ""


def last_words(path: Path, count: int = LAST_LINES) -> LogTail:
    """The last `count` lines that are not blank; of a file of any size only its end is read. Never raises."""
    file = LineFile(path)
    lines: list[str] = []
    try:
        file.refresh()
        for block in reversed(range(max(0, file.blocks - LAST_BLOCKS), file.blocks)):
            entries = LogReading().entries(file.lines(block))
            lines = [entry.text[:LONGEST] for entry in entries if entry.text.strip()] + lines
            if len(lines) >= count:
                break
    except LineFileError as error:
        return LogTail((), 0.0, str(error))
    finally:
        file.close()
    return LogTail(tuple(lines[-count:]), file.modified)
