"""How the lines of the engine's log and of the event log are read: their words, and how serious they are."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from andrea_engine.run.events import parse_event
from andrea_tui.feed.event_words import describe
from andrea_tui.feed.line_file import Line

PLAIN, WARNING, ERROR = 0, 1, 2
LEVELS = ("all lines", "warnings and errors", "errors")

# The engine's log is what Python, PyTorch, CUDA and the engine wrote, and has no level of its own: words must do.
_ERROR_WORDS = (
    "error", "exception", "traceback", "fatal", "failed", "failure", "segmentation fault", "core dumped", "killed",
    "out of memory", "could not", "not saved", "andrea-engine:", "panic",
)  # fmt: skip
_WARNING_WORDS = ("warning", "deprecated", "not finite", "in a row below", "samples are below", "alarm", "skipped")
_ERRORS = re.compile(r"errors?\b|exceptions?\b|traceback|" + "|".join(map(re.escape, _ERROR_WORDS[3:])), re.I | re.A)
_WARNINGS = re.compile("|".join(map(re.escape, _WARNING_WORDS)), re.I | re.A)


class Entry(msgspec.Struct, frozen=True):
    """A line as people read it. `meaning` is that of its colour; `continued`: the line began further up."""

    offset: int
    text: str
    level: int
    meaning: str = ""
    continued: bool = False


class Wanted(msgspec.Struct, frozen=True):
    """Which entries count: those of `level` or more that contain `query` ('' is in all), whatever its case."""

    level: int = PLAIN
    query: str = ""

    @property
    def everything(self) -> bool:
        return self.level == PLAIN and not self.query

    def takes(self, entry: Entry) -> bool:
        return entry.level >= self.level and (not self.query or folded(self.query) in folded(entry.text))


class Reading(Protocol):
    """A kind of file. `lines` are always those of one whole block."""

    def entries(self, lines: Sequence[Line]) -> list[Entry]:
        """Every line in words."""

    def places(self, lines: Sequence[Line], wanted: Wanted) -> list[int]:
        """Offsets of the lines that are wanted."""

    def may_have(self, data: bytes, wanted: Wanted) -> bool:
        """False when these bytes hold nothing that is wanted, for certain. Must be much faster than `places`."""


def folded(text: str) -> str:
    """Lower case, with as many characters as before. What is not ASCII does not become ASCII."""
    if text.isascii():
        return text.lower()
    return "".join(low if len(low := char.lower()) == 1 and low.isascii() == char.isascii() else char for char in text)


def level_of(text: str) -> int:
    """How serious a line of the log is, by its words."""
    return ERROR if _ERRORS.search(text) else WARNING if _WARNINGS.search(text) else PLAIN


class LogReading:
    """The engine's raw output. An indented line belongs to the one above, as in a traceback."""

    def entries(self, lines: Sequence[Line]) -> list[Entry]:
        found = []
        above = PLAIN
        for line in lines:
            text = line.data.decode("utf-8", "replace")
            level = level_of(text)
            if line.continued or text[:1] in (" ", "\t"):
                level = max(level, above)
            above = level
            found.append(Entry(line.start, text, level, ("", "warn", "bad")[level], line.continued))
        return found

    def places(self, lines: Sequence[Line], wanted: Wanted) -> list[int]:
        if wanted.level == PLAIN and wanted.query.isascii():
            needle = wanted.query.lower().encode()
            return [line.start for line in lines if needle in line.data.lower()]
        return [entry.offset for entry in self.entries(lines) if wanted.takes(entry)]

    def may_have(self, data: bytes, wanted: Wanted) -> bool:
        if not wanted.query.isascii():
            return True
        lower = data.lower()
        if wanted.query.lower().encode() not in lower:
            return False
        words = _ERROR_WORDS if wanted.level == ERROR else _ERROR_WORDS + _WARNING_WORDS
        return wanted.level == PLAIN or any(word.encode() in lower for word in words)


class EventReading:
    """`events.jsonl`: each event in words, with its day and time."""

    def entries(self, lines: Sequence[Line]) -> list[Entry]:
        found = []
        for line in lines:
            event = parse_event(line.data)
            if event is not None:
                text, meaning = describe(event)
                level = {"bad": ERROR, "warn": WARNING}.get(meaning, PLAIN)
                when = clock(event.time, "%Y-%m-%d %H:%M:%S")
                found.append(Entry(line.start, f"{when}  {text}", level, meaning))
            elif line.data.strip():
                found.append(Entry(line.start, "a line of the event log that cannot be read", WARNING, "warn"))
        return found

    def places(self, lines: Sequence[Line], wanted: Wanted) -> list[int]:
        return [entry.offset for entry in self.entries(lines) if wanted.takes(entry)]

    def may_have(self, data: bytes, wanted: Wanted) -> bool:
        return True  # the words are ours and not in the file


def clock(seconds: float, pattern: str = "%H:%M:%S") -> str:
    """Local time in words; whatever a file claims, also a time that no calendar knows."""
    try:
        return time.strftime(pattern, time.localtime(seconds))
    except (OverflowError, OSError, ValueError):
        return "unknown time"
