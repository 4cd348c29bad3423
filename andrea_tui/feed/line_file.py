"""Lines of a file of any size, read block by block and never as a whole.

A line belongs to the block of bytes in which it starts. Where no newline comes for long, a line is broken at
multiples of `piece` bytes; whether it is broken there can be told from `piece` bytes on either side, so that each
block gives the same lines whoever asks, and however the file grows behind it.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec

from andrea_engine.run.io import open_regular

BLOCK = 64 * 1024
PIECE = 4096


class LineFileError(Exception):
    """The file cannot be read. `str(error)` is the sentence for people."""


class Line(msgspec.Struct, frozen=True):
    """`data` without the newline; `continued`: the line began further up."""

    start: int
    data: bytes
    continued: bool


class LineFile:
    """One file by path. `refresh` looks at it; all other calls answer from that look.

    `block` and `piece` in bytes, the second a divisor of the first. Lines shorter than twice a piece are never broken,
    none gets longer than three. Not for several threads at once.
    """

    def __init__(self, path: Path, piece: int = PIECE, block: int = BLOCK) -> None:
        if piece <= 0 or block % piece:
            raise ValueError(f"piece must divide {block}, got {piece}")
        self.path = path
        self.block = block
        self.piece = piece
        self.size = 0
        self.modified = 0.0  # seconds since the epoch
        self._descriptor: int | None = None
        self._inode: int | None = None

    def refresh(self) -> bool:
        """Look at the file again; True when it is another one now, or has got shorter. Raises LineFileError."""
        self.close()
        try:
            self._descriptor = open_regular(self.path)
        except OSError as error:
            known = self._inode is not None
            self.size, self._inode = 0, None
            if known and isinstance(error, FileNotFoundError):
                return True  # between two files of a rotation; the next look tells
            raise LineFileError(self._refusal(error)) from error
        status = os.fstat(self._descriptor)
        replaced = self._inode is not None and (status.st_ino != self._inode or status.st_size < self.size)
        self._inode, self.size, self.modified = status.st_ino, status.st_size, status.st_mtime
        return replaced

    def _refusal(self, error: OSError) -> str:
        name = self.path.name
        if isinstance(error, FileNotFoundError):
            return f"there is no {name} in this run"
        if error.errno == errno.ELOOP:
            return f"{name} is a symbolic link; links are not followed out of a run directory"
        if error.errno in (errno.EINVAL, errno.ENXIO):
            return f"{name} is not a regular file, so it is not opened"
        return f"{name} cannot be read: {error.strerror}"

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def blocks(self) -> int:
        """Number of blocks, the last one not full as a rule."""
        return -(-self.size // self.block)

    @property
    def final_blocks(self) -> int:
        """Blocks whose lines do not change any more, however much is appended."""
        return max(0, (self.size - 3 * self.piece) // self.block)

    def bytes_of(self, block: int) -> bytes:
        """The bytes in which a block's lines lie; the last of these begins up to three pieces behind the block."""
        return self._read(block * self.block, (block + 1) * self.block + 3 * self.piece)

    def _read(self, start: int, end: int) -> bytes:
        """Bytes [start, end), as far as there are any. Raises LineFileError."""
        if self._descriptor is None:
            return b""
        try:
            return os.pread(self._descriptor, max(0, min(end, self.size) - start), start)
        except OSError as error:
            raise LineFileError(f"{self.path.name} cannot be read: {error.strerror}") from error

    def lines(self, block: int) -> list[Line]:
        """The lines that start in a block, in order."""
        first, last = block * self.block, min((block + 1) * self.block, self.size)
        base = max(0, first - self.piece)
        data = self._read(base, last + 3 * self.piece)
        starts = self._starts(data, base, first)
        lines = []
        for index, (start, continued) in enumerate(starts):
            if start >= last:
                break
            end = starts[index + 1][0] if index + 1 < len(starts) else base + len(data)
            lines.append(Line(start, data[start - base : end - base].rstrip(b"\r\n"), continued))
        return lines

    def _starts(self, data: bytes, base: int, first: int) -> list[tuple[int, bool]]:
        """Starts of lines from `first` on, in order, and whether each goes on a line that began before."""
        newlines = []
        place = data.find(b"\n")
        while place >= 0:
            newlines.append(base + place + 1)
            place = data.find(b"\n", place + 1)
        end = base + len(data)
        starts = [(start, False) for start in newlines if first <= start < end]
        if first == 0 < end:
            starts.append((0, False))
        piece = self.piece
        breaks = range(max(first, piece), end - piece + 1, piece)
        starts += [(at, True) for at in breaks if data.find(b"\n", at - piece - base, at + piece - base) < 0]
        return sorted(starts)
