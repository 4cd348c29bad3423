"""The receipt of a pivot: proof that weights, moments and loss record came through it unchanged.

It stands as `receipt.json` in the pivot's archive; an archive without one is half done and counts for nothing.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from andrea_engine.run.checkpoint import HASH_CHUNK, HEADER, checkpoint_name, file_digest
from andrea_engine.run.directory import RECEIPT, RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.io import open_regular, read_regular
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.plain import clean

FILE_LIMIT = 1024 * 1024
POLICY_FILE = "policy.toml"


class CheckpointDigests(msgspec.Struct, frozen=True, kw_only=True):
    """SHA-256, as hexadecimal text, of a checkpoint file and of each of its regions."""

    file: str
    sha256: str
    weights: str
    m: str
    v: str


class RecordPrefix(msgspec.Struct, frozen=True, kw_only=True):
    """The loss record up to its last complete entry: how many bytes, and their SHA-256."""

    length: int
    sha256: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """One pivot. `*_before` was taken before anything moved, `*_after` when everything had.

    `generation` counts the policies of the run, `first_step` is the first step under this one. `archived` maps file
    names to SHA-256; the policies are SHA-256 of their TOML. Times are seconds since the epoch; `seconds` is what
    archiving and verifying took.
    """

    format: int = 1
    id: str
    generation: int
    step: int
    first_step: int
    checkpoint_before: CheckpointDigests
    checkpoint_after: CheckpointDigests | None
    record_before: RecordPrefix
    record_after: RecordPrefix | None
    archived: dict[str, str]
    old_policy: str
    new_policy: str
    asked: float
    asked_by: str
    done: float
    done_by: str
    seconds: float

    @property
    def problem(self) -> str | None:
        """Why it does not prove continuity; None when it does."""
        if self.checkpoint_after != self.checkpoint_before:
            return f"{self.checkpoint_before.file} changed during the pivot"
        if self.record_after != self.record_before:
            return "the loss record changed during the pivot"
        return None


def text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def checkpoint_digests(path: Path) -> CheckpointDigests:
    """Digests of a checkpoint whose header and size were validated. Reads it once. Raises OSError."""
    whole = hashlib.sha256()
    regions = []
    with os.fdopen(open_regular(path), "rb") as file:
        head = file.read(HEADER.size)
        whole.update(head)
        count = HEADER.unpack(head)[1]
        for _ in range(3):
            region, left = hashlib.sha256(), 4 * count
            while left and (chunk := file.read(min(HASH_CHUNK, left))):
                region.update(chunk)
                whole.update(chunk)
                left -= len(chunk)
            regions.append(region.hexdigest())
    weights, m, v = regions
    return CheckpointDigests(file=path.name, sha256=whole.hexdigest(), weights=weights, m=m, v=v)


def record_prefix(path: Path) -> RecordPrefix:
    """The loss record as it stands. Raises OSError when it is there and cannot be read."""
    reader = LossReader(path)
    reader.read_all()
    return RecordPrefix(length=reader.end, sha256=prefix_digest(path, reader.end) or "")


def prefix_digest(path: Path, length: int) -> str | None:
    """SHA-256 of the first `length` bytes of a file; None when it has fewer. Raises OSError."""
    digest = hashlib.sha256()
    if length == 0:
        return digest.hexdigest()
    with os.fdopen(open_regular(path), "rb") as file:
        while length and (chunk := file.read(min(HASH_CHUNK, length))):
            digest.update(chunk)
            length -= len(chunk)
    return None if length else digest.hexdigest()


def read_receipt(path: Path) -> Receipt:
    """Raises RunError when the file cannot be read as a receipt."""
    try:
        return msgspec.json.decode(read_regular(path, FILE_LIMIT), type=Receipt)
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} cannot be read as a receipt: {error}") from None


def newest_receipt(directory: RunDirectory) -> tuple[Path, Receipt] | None:
    """Archive and receipt of the newest pivot; None without one. Raises RunError when it is damaged."""
    archives = directory.archives()
    return (archives[-1], read_receipt(archives[-1] / RECEIPT)) if archives else None


def receipt_problems(directory: RunDirectory, archive: Path) -> list[str]:
    """What contradicts the receipt in `archive`: its own figures, the archived files, the record, the checkpoint.

    A checkpoint that the keep rule or a person removed since contradicts nothing.
    """
    try:
        receipt = read_receipt(archive / RECEIPT)
    except RunError as error:
        return [str(error)]
    problems = [receipt.problem] if receipt.problem else []
    for name, digest in receipt.archived.items():
        problems += _file_problem(archive / Path(name).name, digest)  # never outside of the archive
    if receipt.archived.get(POLICY_FILE) != receipt.old_policy:
        problems.append("the archived policy is not the one that the receipt names")
    try:
        prefix = prefix_digest(directory.loss, receipt.record_before.length)
    except OSError as error:
        problems.append(f"{directory.loss.name} cannot be read: {error.strerror}")
    else:
        if prefix != receipt.record_before.sha256:
            problems.append(
                f"the first {receipt.record_before.length:,} bytes of {directory.loss.name} changed since the pivot"
            )
    checkpoint = directory.path / checkpoint_name(receipt.step)
    if os.path.lexists(checkpoint):
        problems += _file_problem(checkpoint, receipt.checkpoint_before.sha256)
    return problems


def _file_problem(path: Path, digest: str) -> list[str]:
    try:
        return [] if file_digest(path) == digest else [f"{path.name} is not the file of the receipt"]
    except OSError as error:
        return [f"{path.name} cannot be read: {error.strerror}"]


def receipt_lines(receipt: Receipt, archive: Path) -> list[str]:
    """The receipt for people, a fact a line."""
    before, record = receipt.checkpoint_before, receipt.record_before
    same = "unchanged" if receipt.problem is None else receipt.problem
    return [
        f"pivot       policy {receipt.generation} from step {receipt.first_step:,} on",
        f"checkpoint  {before.file}, sha256 {before.sha256[:16]}",
        f"weights     {before.weights[:16]}  m {before.m[:16]}  v {before.v[:16]}",
        f"loss record {record.length:,} bytes, sha256 {record.sha256[:16]}",
        f"continuity  {same}",
        f"archived    {', '.join(sorted(receipt.archived))} in {archive}",
        f"asked       by {clean(receipt.asked_by)}; done by {clean(receipt.done_by)} in {receipt.seconds:.1f} s",
    ]
