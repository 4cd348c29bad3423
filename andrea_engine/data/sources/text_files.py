"""Text files: a file, a folder, or glob patterns. Each file is a document."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from andrea_engine.data.sources.base import CappedSource, Options
from andrea_engine.data.sources.files import Location, decoded, locate
from andrea_engine.run.io import open_regular

KEYS = ("path", "glob", "max_bytes")

_PIECE_BYTES = 4 << 20  # bounds memory: a larger file becomes several documents, cut at line ends


@dataclass(slots=True, kw_only=True)
class TextFiles(CappedSource):
    """Files that are not UTF-8 text, or hold NUL bytes, are skipped and counted."""

    location: Location

    def _texts(self) -> Iterator[str]:
        for path in self.location.files():
            yield from self._pieces(path)

    def _pieces(self, path: Path) -> Iterator[str]:
        try:
            with os.fdopen(open_regular(path), "rb") as file:
                while data := file.read(_PIECE_BYTES):
                    if len(data) == _PIECE_BYTES:
                        data += file.readline(_PIECE_BYTES)
                    text = decoded(data)
                    if text is None:
                        self.skipped += 1
                        return
                    yield text
        except OSError:
            self.skipped += 1

    def _nothing(self) -> str:
        if self.skipped:
            return f"none of the {self.skipped} files at {self.location} is UTF-8 text"
        return f"there is no text at {self.location} (links and hidden files are not read)"


def build(name: str, options: Options, base: Path) -> TextFiles:
    """`path`: a file or a folder; or `glob`: one or more patterns. Relative ones start at `base`."""
    return TextFiles(name=name, location=locate(options, base), max_bytes=options.count("max_bytes"))
