"""Follow a loss record while an engine appends to it, in every format that exists.

Ours is a JSON array with one entry a line, whose last bytes are a line with `]`. An append overwrites that line, so
the reader remembers the end of the last entry and not the end of the file. JSON lines and a document on one line
(the original's array of pairs) are read too.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from andrea_engine.run.io import open_regular, read_regular
from andrea_engine.run.loss_entry import LossEntry, decode_entries, entry_from, loads_bounded

READ_CHUNK = 4 * 1024 * 1024
DOCUMENT_LIMIT = 128 * 1024 * 1024  # of a record on one line: a million pairs are a fifth of it
_PUNCTUATION = b" \t\r\n,"


class Damage(msgspec.Struct):
    """Lines that could not be read: how many, and where the first one is."""

    lines: int = 0
    first_offset: int | None = None
    first_line: int | None = None

    @property
    def sentence(self) -> str:
        """How many, and where, as far as it is known."""
        where = f", the first at line {self.first_line}" if self.first_line is not None else ""
        return f"{self.lines:,} unreadable line(s){where}"


class ReaderState(msgspec.Struct, kw_only=True):
    """How far a `LossReader` has come in a file of lines: what another one needs to read on from there."""

    inode: int | None
    end: int
    size: int
    entries_read: int
    torn: int
    array: bool
    shrunk: bool
    damage: Damage


class LossReader:
    """Incremental reader. `read` returns the entries added since the last call.

    `restarted`: the last `read` found another file or a shorter one and began again. `shrunk`: the file got shorter
    at some time, which nothing may ever do to it. `end`: offset behind the last complete entry; `torn`: bytes of an
    incomplete entry behind it. `lines_format`: False when the file is one whole document, `array` False when it does
    not begin as an array: to either we never append. `unparseable`: why the document cannot be read at present.
    """

    def __init__(self, path: Path, *, lines: bool = False) -> None:
        """`lines`: the file is known to be JSON lines, whatever its first one looks like."""
        self.path = path
        self._known_lines = lines
        self.end = 0
        self.size = 0
        self.entries_read = 0
        self.damage = Damage()
        self.restarted = False
        self.shrunk = False
        self.lines_format = True
        self.array = True
        self.torn = 0
        self.unparseable = ""
        self._inode: int | None = None
        self._document_stamp: tuple[int, int] | None = None

    @property
    def state(self) -> ReaderState:
        """Where it stands, for `go_on_from`. Meaningless for a document."""
        return ReaderState(
            inode=self._inode,
            end=self.end,
            size=self.size,
            entries_read=self.entries_read,
            torn=self.torn,
            array=self.array,
            shrunk=self.shrunk,
            damage=self.damage,
        )

    def go_on_from(self, state: ReaderState) -> None:
        """Stand where another reader of the same path stood: the next `read` gives what comes behind it."""
        self._inode, self.end, self.size = state.inode, state.end, state.size
        self.entries_read = state.entries_read
        self.torn, self.array, self.shrunk, self.damage = state.torn, state.array, state.shrunk, state.damage
        self.lines_format = True

    def read_all(self) -> list[LossEntry]:
        """Everything up to the end of the file."""
        entries: list[LossEntry] = []
        while True:
            before = self.end
            entries += self.read()
            if self.end == before or not self.lines_format:
                return entries

    def read(self, limit: int = READ_CHUNK) -> list[LossEntry]:
        """New entries, from at most about `limit` bytes. An unreadable or missing file gives []."""
        self.restarted = False
        try:
            descriptor = open_regular(self.path)
        except OSError:
            return []
        try:
            status = os.fstat(descriptor)
            self._notice_replacement(status)
            self.size = status.st_size
            if self.end == 0:
                head = os.pread(descriptor, 4096, 0)
                self.lines_format = self._known_lines or _is_lines(head)
                self.array = not head or head.startswith(b"[")
            if not self.lines_format:
                return self._read_document(status)
            data = _read_at(descriptor, self.end, min(limit, max(0, self.size - self.end)))
        finally:
            os.close(descriptor)
        return self._read_lines(data, full=len(data) == limit)

    def _notice_replacement(self, status: os.stat_result) -> None:
        replaced = self._inode is not None and status.st_ino != self._inode
        shorter = status.st_size < self.end
        if replaced or shorter:
            self.shrunk = self.shrunk or shorter
            self.restarted = True
            self.end = self.entries_read = 0
            self.damage = Damage()
            self._document_stamp = None
        self._inode = status.st_ino

    def _read_document(self, status: os.stat_result) -> list[LossEntry]:
        stamp = (status.st_size, status.st_mtime_ns)
        if stamp == self._document_stamp:
            return []
        try:
            document = loads_bounded(read_regular(self.path, DOCUMENT_LIMIT))
        except (OSError, ValueError) as error:
            self.unparseable = str(error)  # half written, or damaged: the next look tells
            return []
        self.unparseable = "" if isinstance(document, list) else "it is not an array"
        self.restarted = self.restarted or self._document_stamp is not None
        self._document_stamp = stamp
        items = document if isinstance(document, list) else []
        entries = [entry for entry in map(entry_from, items) if entry is not None]
        self.damage = Damage(len(items) - len(entries))
        self.entries_read = len(entries)
        return entries

    def _read_lines(self, data: bytearray, *, full: bool) -> list[LossEntry]:
        stop = len(data) if data.endswith(b"\n") else data.rfind(b"\n") + 1
        tail = data[stop:].strip(b"[]" + _PUNCTUATION)
        if tail.endswith(b"}") and _parse_line(bytes(tail)) is not None:
            stop = len(data)  # the last entry is whole, only its newline is missing
        if not stop and full:
            stop = len(data)  # one endless line: counted as damage below, so that reading goes on
        last = data.rfind(b"}", 0, stop) + 1
        self.torn = len(data[last:].strip(b"[]" + _PUNCTUATION))
        if last == 0:
            if full:
                self._skip(data[:stop])
            return []
        try:
            entries = _normalised(self._decoded(data, last))
        except ValueError:
            entries = self._read_carefully(data[:last])
        self.end += last
        self.entries_read += len(entries)
        return entries

    def _decoded(self, data: bytearray, last: int) -> list[LossEntry]:
        """The entries of data[:last], decoded at once. Raises ValueError where there is anything else."""
        first = data.find(b"{", 0, last)
        if first < 0 or data[:first].strip(b"[" + _PUNCTUATION):
            raise ValueError("something else than entries")
        if self.array and first > 0 and last < len(data):
            return _decoded_in_place(data, first, last)
        return decode_entries(b"[" + _joined(bytes(data[first:last])) + b"]")

    def _read_carefully(self, region: bytearray) -> list[LossEntry]:
        """Line by line, so that one bad line costs only itself."""
        entries: list[LossEntry] = []
        offset = self.end
        for raw in bytes(region).split(b"\n"):
            line = raw.strip(_PUNCTUATION)
            if line and line not in (b"[", b"]"):
                entry = _parse_line(line)
                if entry is None:
                    self._damaged(offset)
                else:
                    entries.append(entry)
            offset += len(raw) + 1
        return entries

    def _skip(self, region: bytearray) -> None:
        """Go past a region without an entry; what is more than the text between entries is damage."""
        start = len(region) - len(region.lstrip(b"[" + _PUNCTUATION))
        if start < len(region):
            self._damaged(self.end + start)
        self.end += len(region)

    def _damaged(self, offset: int) -> None:
        self.damage.lines += 1
        if self.damage.first_offset is None:
            self.damage.first_offset = offset
            self.damage.first_line = self._line_at(offset)

    def _line_at(self, offset: int) -> int | None:
        """The number of the line at an offset, counted from 1: only damage is told by it, so that only damage costs a
        second look at the file. None where it has gone meanwhile."""
        number = 1
        try:
            with os.fdopen(open_regular(self.path), "rb", buffering=0) as file:
                while offset > 0 and (piece := file.read(min(READ_CHUNK, offset))):
                    number += piece.count(b"\n")
                    offset -= len(piece)
        except OSError:
            return None
        return number


def _read_at(descriptor: int, offset: int, count: int) -> bytearray:
    """Up to `count` bytes from an offset on, in memory that may be written to."""
    data = bytearray(count)
    os.lseek(descriptor, offset, os.SEEK_SET)
    with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
        read = file.readinto(data) or 0
    del data[read:]
    return data


def _decoded_in_place(data: bytearray, first: int, last: int) -> list[LossEntry]:
    """data[first:last] is a sequence of JSON objects with commas between them, and at least a byte on each side: these
    become brackets as long as it is decoded, since a long record is hundreds of megabytes that are not copied."""
    around = data[first - 1], data[last]
    data[first - 1], data[last] = b"[]"
    try:
        with memoryview(data) as view, view[first - 1 : last + 1] as array:
            return decode_entries(array)
    finally:
        data[first - 1], data[last] = around


def _is_lines(head: bytes) -> bool:
    """True for our array of lines and for JSON lines; an empty file counts as ours."""
    if head.startswith(b"[\n"):
        return head[2:3] in (b"", b"]") or b"\n{" in head  # not only in the first line: that one may be damaged
    return head.startswith(b"{") or head.strip() in (b"", b"[", b"[]")


def _joined(body: bytes) -> bytes:
    """JSON lines carry no commas: put them between the objects."""
    return body if b"}\n{" not in body else body.replace(b"}\n{", b"},\n{")


def _normalised(entries: list[LossEntry]) -> list[LossEntry]:
    """A null loss is a non-finite loss, even where the writer did not name it."""
    if None not in [entry.loss for entry in entries]:
        return entries
    return [
        entry if entry.loss is not None else msgspec.structs.replace(entry, nonfinite=_with_loss(entry.nonfinite))
        for entry in entries
    ]


def _with_loss(nonfinite: list[str] | msgspec.UnsetType) -> list[str]:
    known = nonfinite or []
    return known if "loss" in known else [*known, "loss"]


def _parse_line(line: bytes) -> LossEntry | None:
    try:
        return entry_from(loads_bounded(line))
    except ValueError:
        return None
