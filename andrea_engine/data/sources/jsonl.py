"""JSON Lines: one record a line, with a text field or chat messages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from andrea_engine.data.sources.base import CappedSource, Options
from andrea_engine.data.sources.files import Location, locate
from andrea_engine.data.sources.records import render
from andrea_engine.run.io import open_regular

KEYS = ("path", "glob", "field", "max_bytes")

_MAX_LINE_BYTES = 16 << 20


@dataclass(slots=True, kw_only=True)
class JsonLines(CappedSource):
    """Lines that are not JSON, or hold neither text nor messages, are skipped and counted."""

    location: Location
    field: str | None = None

    def _texts(self) -> Iterator[str]:
        for path in self.location.files():
            for line in self._lines(path):
                try:
                    text = render(msgspec.json.decode(line), self.field)
                except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                    text = None
                if text is None:
                    self.skipped += 1
                else:
                    yield text

    def _lines(self, path: Path) -> Iterator[bytes]:
        """Lines that are not blank. Of one that is too long only the beginning is given, which is no JSON."""
        try:
            with os.fdopen(open_regular(path), "rb") as file:
                while line := file.readline(_MAX_LINE_BYTES):
                    rest = line
                    while len(rest) == _MAX_LINE_BYTES and not rest.endswith(b"\n"):
                        rest = file.readline(_MAX_LINE_BYTES)
                    if not line.isspace():
                        yield line
        except OSError:
            self.skipped += 1

    def _nothing(self) -> str:
        wanted = f"the text field '{self.field}'" if self.field else "a 'text' field or a 'messages' list"
        if self.skipped:
            return f"none of the {self.skipped:,} lines at {self.location} is a JSON object with {wanted}"
        return f"there is no text at {self.location} (links and hidden files are not read)"


def build(name: str, options: Options, base: Path) -> JsonLines:
    """`path` or `glob` as for text files (of a folder, the `*.jsonl` files); `field`: the only field to read."""
    return JsonLines(
        name=name,
        location=locate(options, base, suffix=".jsonl"),
        field=options.text("field"),
        max_bytes=options.count("max_bytes"),
    )
