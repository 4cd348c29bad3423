"""Read only what was added to a file of lines since the last look."""

from __future__ import annotations

import os
from pathlib import Path

from andrea_engine.run.io import open_regular

READ_CHUNK = 4 * 1024 * 1024


class LineTail:
    """Follows a file of lines. An incomplete last line is kept back until its newline arrives.

    `restarted` is True after a `read` that found another or a shorter file and began again at its start, `at_end` False
    after one that left something for the next.
    """

    def __init__(self, path: Path, start: int = 0) -> None:
        self.path = path
        self.offset = start
        self.restarted = False
        self.at_end = True
        self._inode: int | None = None

    def read(self, limit: int = READ_CHUNK) -> list[bytes]:
        """New complete lines without their newlines, at most about `limit` bytes of them; [] if there is no file."""
        self.restarted, self.at_end = False, True
        try:
            descriptor = open_regular(self.path)
        except OSError:
            return []
        try:
            status = os.fstat(descriptor)
            if (self._inode is not None and status.st_ino != self._inode) or status.st_size < self.offset:
                self.offset = 0
                self.restarted = True
            self._inode = status.st_ino
            data = os.pread(descriptor, limit, self.offset)
        finally:
            os.close(descriptor)
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) == limit:
            end = len(data)  # one line longer than the limit: hand it out in pieces rather than wait for ever
        self.offset += end
        self.at_end = len(data) < limit
        return data[:end].splitlines()
