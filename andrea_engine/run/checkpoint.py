"""Checkpoint files: header, size arithmetic, listing, validation and the durable write. No torch.

A file is `[int32 step][int32 n_params][weights][m][v]`, little-endian, the last three float32 of n_params each:
exactly `8 + 12 * n_params` bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from andrea_engine.run.errors import NoCheckpointError, SaveError
from andrea_engine.run.io import Buffer, atomic_write, open_regular

Deep = Callable[[Path], str | None]
"""Finds a problem in the numbers of a checkpoint (a value that is not finite, say); None when there is none."""
HEADER = struct.Struct("<ii")
INT32_MAX = 2**31 - 1
HASH_CHUNK = 4 * 1024 * 1024
FREE_SPACE_MARGIN = 16 * 1024 * 1024  # bytes left for the loss record and the samples
_NAME = re.compile(r"step_([0-9]{6}|[1-9][0-9]{6,9})\.bin")


def checkpoint_bytes(n_params: int) -> int:
    """Size of a checkpoint in bytes (Python integers: no overflow at any size)."""
    return 8 + 12 * n_params


def checkpoint_name(step: int) -> str:
    """File name of a step: six digits, more from one million on."""
    return f"step_{step:06d}.bin"


def parse_name(name: str) -> int | None:
    """Step in a checkpoint's file name, or None when it is not such a name."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


class CheckpointFile(msgspec.Struct, frozen=True):
    """A file named like a checkpoint. `problem` is None when header, size and name agree."""

    path: Path
    step: int
    bytes: int
    n_params: int | None
    problem: str | None

    @property
    def valid(self) -> bool:
        return self.problem is None


def inspect_checkpoint(path: Path, n_params: int | None = None) -> CheckpointFile:
    """Check type, length, header, size equation, model size and name, cheapest first; never raises for content."""
    step = parse_name(path.name)
    if step is None:
        return CheckpointFile(path, -1, 0, None, "not named step_NNNNNN.bin")
    try:
        descriptor = open_regular(path)
    except OSError as error:
        return CheckpointFile(path, step, 0, None, f"cannot be opened: {error.strerror}")
    try:
        size = os.fstat(descriptor).st_size
        head = os.pread(descriptor, HEADER.size, 0)
    except OSError as error:
        return CheckpointFile(path, step, 0, None, f"cannot be read: {error.strerror}")
    finally:
        os.close(descriptor)
    if len(head) < HEADER.size:
        return CheckpointFile(path, step, size, None, f"only {size} bytes long, shorter than the header")
    header_step, count = HEADER.unpack(head)
    return CheckpointFile(path, step, size, count, _header_problem(step, header_step, count, size, n_params))


def _header_problem(step: int, header_step: int, count: int, size: int, n_params: int | None) -> str | None:
    if header_step < 0 or count <= 0:
        return f"header holds step {header_step} and {count} parameters"
    if size != checkpoint_bytes(count):
        return f"{size:,} bytes, but its header needs {checkpoint_bytes(count):,}"
    if n_params is not None and count != n_params:
        return f"holds {count:,} parameters, but this model has {n_params:,}"
    if header_step != step:
        return f"header says step {header_step}, the name says {step}"
    return None


def list_checkpoints(directory: Path, n_params: int | None = None) -> list[CheckpointFile]:
    """All files named like checkpoints, newest step first (numbers are compared as numbers)."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [inspect_checkpoint(directory / name, n_params) for name in names if parse_name(name) is not None]
    return sorted(found, key=lambda file: file.step, reverse=True)


def is_of_another_model(file: CheckpointFile) -> bool:
    """True when the file is whole, but holds another number of parameters than the model it was looked at for."""
    return file.problem is not None and file.n_params is not None and "this model has" in file.problem


def file_digest(path: Path) -> str:
    """SHA-256 of a regular file, as hexadecimal text. Raises OSError."""
    digest = hashlib.sha256()
    with os.fdopen(open_regular(path), "rb") as file:
        while chunk := file.read(HASH_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def digest_problem(path: Path, known: str | None) -> str | None:
    """Why the bytes of a file are not those of its recorded digest; None when they are, or none was recorded."""
    if known is None:
        return None
    try:
        same = file_digest(path) == known
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None if same else "its bytes differ from the digest recorded when it was saved"


def full_problem(file: CheckpointFile, digest: str | None, deep: Deep | None) -> str | None:
    """Why a file must not be resumed from, None when nothing stands against it: its form, and with `deep` also its
    bytes, against the known digest, and its numbers."""
    if file.problem is not None or deep is None:
        return file.problem
    return digest_problem(file.path, digest) or deep(file.path)


class Skipped(msgspec.Struct, frozen=True):
    """A checkpoint that was passed over, and why."""

    name: str
    reason: str


class Chosen(msgspec.Struct, frozen=True):
    """The checkpoint to resume from. `verified` is False when no digest is known for it."""

    file: CheckpointFile
    verified: bool
    skipped: tuple[Skipped, ...]


def choose_checkpoint(directory: Path, n_params: int, digests: Mapping[int, str], deep: Deep) -> Chosen | None:
    """Newest checkpoint that passes validation, with the reason for each one passed over.

    `digests` maps steps to known SHA-256 digests. Returns None when there are no checkpoint files at all. Raises
    NoCheckpointError when there are some and none is valid, or when the newest one belongs to another model (then the
    directory is probably the wrong one, and going on with an older file would hide it).
    """
    skipped: list[Skipped] = []
    files = list_checkpoints(directory, n_params)
    for file in files:
        if is_of_another_model(file):
            raise NoCheckpointError(
                f"{file.path} {file.problem}; check that run.toml and the directory belong together"
            )
        known = digests.get(file.step)
        problem = full_problem(file, known, deep)
        if problem is None:
            return Chosen(file, known is not None, tuple(skipped))
        skipped.append(Skipped(file.path.name, problem))
    if not files:
        return None
    reasons = "; ".join(f"{s.name} {s.reason}" for s in skipped)
    raise NoCheckpointError(f"no valid checkpoint in {directory}: {reasons}")


class Written(msgspec.Struct, frozen=True):
    """A checkpoint that is durable."""

    path: Path
    step: int
    bytes: int
    seconds: float
    digest: str


def write_checkpoint(
    directory: Path, step: int, regions: Sequence[Buffer], progress: Callable[[int, int], None] | None = None
) -> Written:
    """Write weights, m and v of one step durably; returns after the directory is fsynced.

    `regions` are three buffers of n_params float32 each; `progress(done, total)` counts bytes.
    Raises SaveError with one sentence (what, where, bytes needed and free); earlier files stay untouched.
    """
    views = [memoryview(region).cast("B") for region in regions]
    count = len(views[0]) // 4
    if not 0 <= step <= INT32_MAX or not 0 < count <= INT32_MAX or any(len(v) != 4 * count for v in views):
        raise SaveError(f"step {step} with regions of {[len(v) for v in views]} bytes does not fit the format")
    total = checkpoint_bytes(count)
    path = directory / checkpoint_name(step)
    digest = hashlib.sha256()
    done = 0

    def advance(written: int) -> None:
        nonlocal done
        done += written
        if progress is not None:
            progress(done, total)

    def chunks() -> Iterator[Buffer]:
        head = HEADER.pack(step, count)
        digest.update(head)
        yield head
        for view in views:
            for start in range(0, len(view), HASH_CHUNK):
                chunk = view[start : start + HASH_CHUNK]
                digest.update(chunk)
                yield chunk

    started = time.monotonic()
    try:
        free = shutil.disk_usage(directory).free
        if free < total + FREE_SPACE_MARGIN:
            raise OSError(28, "No space left on device")
        atomic_write(path, chunks(), size=total, progress=advance)
    except OSError as error:
        raise SaveError(_save_problem(path, directory, total, error)) from error
    return Written(path, step, total, time.monotonic() - started, digest.hexdigest())


def _save_problem(path: Path, directory: Path, total: int, error: OSError) -> str:
    if error.errno in {28, 122}:  # ENOSPC, EDQUOT
        try:
            have = f"{shutil.disk_usage(directory).free:,}"
        except OSError:
            have = "an unknown number of"
        return f"disk full: {path.name} needs {total:,} bytes, {have} are free in {directory}; make room there"
    return f"{path.name} could not be written in {directory}: {error.strerror or error}"
