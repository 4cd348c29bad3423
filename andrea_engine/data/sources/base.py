"""What a source of text is: a name and its documents, the same ones in the same order each time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from andrea_engine.run.errors import ConfigError, RunError


class SourceUnavailable(RunError):  # noqa: N818 - a state an arm can be in, not a fault of the program
    """The source has no text here and now; the message is the reason shown beside the arm."""


class Source(Protocol):
    """One arm of the bandit."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str:
        """What was asked for: text encoded earlier is used again only while this is unchanged."""
        ...

    @property
    def skipped(self) -> int:
        """Files, lines or records that the latest `documents()` left out as unusable."""
        ...

    def documents(self) -> Iterator[str]:
        """The texts, none of them blank. Raises SourceUnavailable, at the latest at its end, when there is none."""
        ...


@dataclass(slots=True, kw_only=True)
class CappedSource(ABC):
    """The common part of all kinds: the byte budget and the reason when nothing is there."""

    name: str
    max_bytes: int | None = None
    identity: str = ""
    skipped: int = field(default=0, init=False)

    def documents(self) -> Iterator[str]:
        """See `Source.documents`; the last document is cut where the budget of UTF-8 bytes ends."""
        self.skipped = 0
        empty = True
        for text in capped(self._texts(), self.max_bytes):
            empty = False
            yield text
        if empty:
            raise SourceUnavailable(self._nothing())

    @abstractmethod
    def _texts(self) -> Iterator[str]:
        """All documents, blank ones too; counts what it leaves out in `skipped`."""

    @abstractmethod
    def _nothing(self) -> str:
        """Why there is no text: one sentence."""


def capped(texts: Iterable[str], max_bytes: int | None) -> Iterator[str]:
    """The texts that are not blank, up to `max_bytes` UTF-8 bytes in all (None: no limit)."""
    left = max_bytes
    for text in texts:
        if not text or text.isspace():
            continue
        if left is None:
            yield text
            continue
        data = text.encode(errors="replace")
        if len(data) >= left:
            head = data[:left].decode(errors="ignore")
            if head and not head.isspace():
                yield head
            return
        left -= len(data)
        yield text


@dataclass(frozen=True, slots=True)
class Options:
    """One `[[sources]]` table with typed access; every error is a ConfigError that names source and key."""

    name: str
    table: Mapping[str, object]

    def text(self, key: str) -> str | None:
        """A string that is not blank, or None when the key is absent."""
        value = self.table.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self._error(key, "a string that is not empty", value)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """One string or a list of strings; empty when the key is absent."""
        value = self.table.get(key, [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(item, str) and item.strip() for item in values):
            raise self._error(key, "a string or a list of strings", value)
        return tuple(values)

    def count(self, key: str) -> int | None:
        """A positive integer, or None when the key is absent."""
        value = self.table.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise self._error(key, "a positive whole number", value)
        return value

    def _error(self, key: str, expected: str, value: object) -> ConfigError:
        return ConfigError(f"source '{self.name}': '{key}' must be {expected}, not {str(value)[:60]!r}")


def excerpts(sources: Iterable[Source], max_bytes: int) -> Iterator[str]:
    """Documents for training a tokenizer: an equal share of `max_bytes` from each source that has text."""
    sources = list(sources)
    for source in sources:
        documents = source.documents()
        try:
            yield from capped(documents, max_bytes // len(sources))
        except SourceUnavailable:
            continue
