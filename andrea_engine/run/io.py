"""File recipes that survive a kill and a power cut.

A file is replaced by: temporary file beside it, preallocated, written whole, fsynced, size read back, renamed,
directory fsynced. Only after the last of these may anyone call it saved.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

TEMP_PATTERN = re.compile(r"^\.(?P<name>.+)\.(?P<pid>[0-9]+)\.(?P<serial>[0-9]+)\.tmp\Z")
WRITE_CHUNK = 8 * 1024 * 1024
_serial = itertools.count(1)

Buffer = bytes | bytearray | memoryview


def write_all(descriptor: int, data: Buffer, progress: Callable[[int], None] | None = None) -> int:
    """Write every byte of `data`, continuing after short writes; `progress` gets the bytes of each write.

    Returns the number of bytes. Raises OSError from the first failing write.
    """
    view = memoryview(data).cast("B")
    done = 0
    while done < len(view):
        written = os.write(descriptor, view[done : done + WRITE_CHUNK])
        done += written
        if progress is not None:
            progress(written)
    return done


def fsync_directory(path: Path) -> None:
    """Make renames and new names in `path` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def ensure_folder(path: Path) -> None:
    """Make a folder unless it is there. Raises OSError when the name is taken, also by a link to a folder elsewhere."""
    with contextlib.suppress(FileExistsError):
        path.mkdir()
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise OSError(20, "it is not a folder of the run itself", str(path))


def preallocate(descriptor: int, size: int) -> None:
    """Reserve `size` bytes, so that a full disk shows before anything is written."""
    if size == 0 or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        # Some file systems cannot reserve; the write itself will then report a full disk.
        if error.errno not in {95, 22, 38}:  # EOPNOTSUPP, EINVAL, ENOSYS
            raise


def atomic_write(
    path: Path,
    parts: Buffer | Iterable[Buffer],
    *,
    size: int | None = None,
    durable: bool = True,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Replace `path` by the concatenated `parts`: a reader sees the old file or the new one, never a mixture.

    `size` is the total in bytes when it is known beforehand (then it is reserved and checked). With
    `durable=False` both fsyncs are left out: right for a heartbeat, wrong for anything that must survive a power
    cut. Returns the bytes written; on OSError the temporary file is removed and `path` is untouched.
    """
    if isinstance(parts, (bytes, bytearray, memoryview)):
        size = len(memoryview(parts).cast("B"))
        parts = (parts,)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{next(_serial)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666)
    try:
        try:
            if size is not None:
                preallocate(descriptor, size)
            written = sum(write_all(descriptor, part, progress) for part in parts)
            if durable:
                os.fsync(descriptor)
            # Reserved space counts as length, so the position has to agree too: a write may claim too much.
            stored = min(os.lseek(descriptor, 0, os.SEEK_CUR), os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)
        if stored != written or (size is not None and size != written):
            expected = written if size is None else size
            raise OSError(5, f"stored {stored:,} of {expected:,} bytes", str(path))
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        fsync_directory(path.parent)
    return written


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file without following a link and without waiting on a pipe.

    With O_CREAT it is made under the user's umask. Raises OSError when `path` is missing, a link, or anything that is
    not a regular file.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(22, "not a regular file", str(path))
    return descriptor


def read_regular(path: Path, limit: int = 1 << 30) -> bytes:
    """Read a regular file of at most `limit` bytes. Raises OSError, also when it is larger: then before reading it."""
    descriptor = open_regular(path)
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        data = file.read(size + 1) if size <= limit else b""  # as much memory as it takes, and not as it may take
        if len(data) > size:
            data += file.read(limit + 1 - len(data))  # it grew meanwhile
    if size > limit or len(data) > limit:
        raise OSError(27, f"larger than {limit:,} bytes", str(path))
    return data


def read_optional(path: Path, limit: int = 1 << 30) -> bytes | None:
    """`read_regular`, or None when the file does not exist."""
    try:
        return read_regular(path, limit)
    except FileNotFoundError:
        return None


def append_line(path: Path, line: bytes) -> None:
    """Append one line with a single write. After a torn last line a new line is started first."""
    descriptor = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        end = os.fstat(descriptor).st_size
        if end and os.pread(descriptor, 1, end - 1) != b"\n":
            line = b"\n" + line
        write_all(descriptor, line + b"\n")
    finally:
        os.close(descriptor)


def remove_stale_temporaries(directory: Path, alive: Callable[[int], bool]) -> int:
    """Remove temporary files of dead writers; returns the bytes freed. `alive(pid)` tells who still lives."""
    freed = 0
    for entry in os.scandir(directory):
        match = TEMP_PATTERN.match(entry.name)
        if match is None or not entry.is_file(follow_symlinks=False):
            continue
        pid = int(match["pid"])
        if pid != os.getpid() and alive(pid):
            continue
        with contextlib.suppress(OSError):
            size = entry.stat(follow_symlinks=False).st_size
            Path(entry.path).unlink()
            freed += size
    return freed
