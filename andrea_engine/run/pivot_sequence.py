"""The sequence that carries a pivot out, once its checkpoint is durable and no engine runs.

Seal the intent -> move samples and state to the archive -> archive the old policy -> write the new one into run.toml ->
fresh state -> fresh samples -> receipt -> remove the intent. Sealing is the decision: before it nothing has changed,
after it whoever holds the lock repeats the whole sequence, in which every step does nothing where it is already done.
No engine trains in between, because each start goes through here first. The loss record is read and never written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from andrea_engine.run.checkpoint import choose_checkpoint, file_digest
from andrea_engine.run.config import CONFIG_LIMIT, load_config
from andrea_engine.run.directory import RECEIPT, RunDirectory
from andrea_engine.run.errors import ConfigError, RunError
from andrea_engine.run.events import known_digests, pinned_steps, read_events
from andrea_engine.run.intent import PivotIntent, Sealed, agreed_step, at_step, guard, read_intent, write_intent
from andrea_engine.run.io import (
    atomic_write,
    ensure_folder,
    fsync_directory,
    read_regular,
    remove_stale_temporaries,
)
from andrea_engine.run.lock import EngineLock
from andrea_engine.run.pivot import log, who
from andrea_engine.run.policy import Policy, dump_policy, parse_policy
from andrea_engine.run.policy_text import replace_policy
from andrea_engine.run.process import is_alive
from andrea_engine.run.receipt import (
    POLICY_FILE,
    CheckpointDigests,
    Receipt,
    RecordPrefix,
    checkpoint_digests,
    prefix_digest,
    read_receipt,
    record_prefix,
    text_digest,
)
from andrea_engine.run.samples import write_samples
from andrea_engine.run.state import write_state

Deep = Callable[[Path], str | None]
Report = Callable[[str], None]


def _quiet(text: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A pivot that is complete. `restart`: the engine left for it and should go on, with `arguments`."""

    receipt: Receipt
    archive: Path
    restart: bool
    arguments: tuple[str, ...]


def finish(directory: RunDirectory, *, by: str, deep: Deep | None = None, report: Report = _quiet) -> Finished | None:
    """Carry out, or complete, the pivot under way; takes the engine's lock for that.

    None when there is none, or when its step is not reached yet: then it stays pending. `deep(path)` finds a problem
    in the numbers of a checkpoint; `report` gets what is being done. Raises LockedError while an engine runs, RunError
    when a file cannot be written: nothing is lost then, and the next call or start completes it.
    """
    lock = EngineLock(directory)
    try:
        return finish_locked(directory, by=by, deep=deep, report=report)
    finally:
        lock.release()


def finish_locked(
    directory: RunDirectory, *, by: str, deep: Deep | None = None, report: Report = _quiet
) -> Finished | None:
    """`finish` for the holder of the engine's lock."""
    intent = read_intent(directory)
    if intent is None:
        return None
    try:
        sealed = intent.sealed
        if sealed is None:
            report("verifying the checkpoint")
            intent = _seal(directory, intent, deep)
            if intent is None or intent.sealed is None:
                return None
            sealed = intent.sealed
        report("archiving samples and state, writing the new policy")
        if _is_foreign(directory.path / intent.archive, intent.id, sealed):
            intent = at_step(directory, intent, intent.step)
            write_intent(directory, intent)
        receipt = _carry_out(directory, intent, sealed, by)
    except OSError as error:
        raise RunError(
            f"the pivot of {directory.path} is not complete ({error.strerror or error}); nothing is lost: make it "
            f"possible to write there, then any start of the engine completes it"
        ) from error
    restart = intent.restart and intent.reached is not None
    return Finished(receipt, directory.path / intent.archive, restart, tuple(intent.arguments))


def _seal(directory: RunDirectory, intent: PivotIntent, deep: Deep | None) -> PivotIntent | None:
    """Write everything the sequence needs into the intent. None when its step is not there yet, or it is cancelled."""
    config = load_config(directory)
    digests = known_digests(read_events(directory.events))
    chosen = choose_checkpoint(directory.path, config.n_params, digests, deep or _no_problem)
    if chosen is None:
        return None
    step = chosen.file.step
    if agreed_step(intent, step, config.checkpoint.every, config.schedule.steps) != step:
        return None
    sealed = Sealed(
        checkpoint=checkpoint_digests(chosen.file.path),
        record=record_prefix(directory.loss),
        archived={p.name: _digest(p) for p in (directory.samples, directory.state) if os.path.lexists(p)},
        old_policy=dump_policy(config.parsed_policy(str(directory.config))),
        time=round(time.time(), 3),
    )
    with guard(directory):
        again = read_intent(directory)
        if again is None or again.id != intent.id:
            return None
        intent = msgspec.structs.replace(at_step(directory, again, step), phase="applying", sealed=sealed)
        write_intent(directory, intent)
    return intent


def _no_problem(path: Path) -> None:
    """A checkpoint with a recorded digest is what the engine wrote, and it writes nothing that is not finite."""


def _digest(path: Path) -> str | None:
    try:
        return file_digest(path)
    except OSError:
        return None


def _carry_out(directory: RunDirectory, intent: PivotIntent, sealed: Sealed, by: str) -> Receipt:
    archive = directory.path / intent.archive
    policy = parse_policy(intent.policy, str(directory.pivot_intent))
    receipt = _written_receipt(archive, intent)
    if receipt is None:
        for folder in (directory.archive, archive):
            ensure_folder(folder)
            fsync_directory(folder.parent)
        remove_stale_temporaries(archive, is_alive)
        for name in sealed.archived:
            _move(directory.path / name, archive / name)
        atomic_write(archive / POLICY_FILE, sealed.old_policy.encode())
        _write_policy(directory, intent, policy)
        write_state(directory.state, _fresh_state(intent))
        write_samples(directory.samples, [])
        receipt = _receipt(directory, intent, sealed, policy, by)
        atomic_write(archive / RECEIPT, msgspec.json.format(msgspec.json.encode(receipt), indent=1) + b"\n")
    _announce(directory, intent, receipt)
    directory.pivot_intent.unlink(missing_ok=True)
    fsync_directory(directory.path)
    return receipt


def _is_foreign(archive: Path, identity: str, sealed: Sealed) -> bool:
    """True when somebody else made the archive since its name was chosen: it holds other files than ours would."""
    ours = {**sealed.archived, POLICY_FILE: text_digest(sealed.old_policy)}
    try:
        names = os.listdir(archive)
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        return True
    if RECEIPT in names:
        return read_receipt(archive / RECEIPT).id != identity
    return any(name in ours and _digest(archive / name) != ours[name] for name in names)


def _written_receipt(archive: Path, intent: PivotIntent) -> Receipt | None:
    if not (archive / RECEIPT).exists():
        return None
    receipt = read_receipt(archive / RECEIPT)
    return receipt if receipt.id == intent.id else None


def _move(source: Path, target: Path) -> None:
    """Rename into the archive, where nothing is ever overwritten: what is there already was moved before a crash."""
    if os.path.lexists(target) or not os.path.lexists(source):
        return
    source.rename(target)
    fsync_directory(target.parent)
    fsync_directory(source.parent)


def _write_policy(directory: RunDirectory, intent: PivotIntent, policy: Policy) -> None:
    try:
        text = read_regular(directory.config, CONFIG_LIMIT).decode("utf-8")
        note = f"policy {intent.generation}, since the pivot at step {intent.step:,} ({intent.archive}, {intent.id})"
        new = replace_policy(text, policy, note)
    except ValueError as error:  # not UTF-8, or not TOML
        raise ConfigError(f"{directory.config} cannot be given the new policy: {error}") from None
    if new != text:
        atomic_write(directory.config, new.encode())


def _fresh_state(intent: PivotIntent) -> dict[str, object]:
    """A bandit that has seen nothing. The engine replaces it with its first checkpoint."""
    return {
        "version": 1,
        "step": intent.step,
        "generation": intent.generation,
        "start_step": intent.step,
        "pivot": intent.id,
        "arms": {},
    }


def _receipt(directory: RunDirectory, intent: PivotIntent, sealed: Sealed, policy: Policy, by: str) -> Receipt:
    archive = directory.path / intent.archive
    names = [name for name in (*sealed.archived, POLICY_FILE) if os.path.lexists(archive / name)]
    digests = {name: _digest(archive / name) for name in names}
    done = round(time.time(), 3)
    return Receipt(
        id=intent.id,
        generation=intent.generation,
        step=intent.step,
        first_step=intent.step + 1,
        checkpoint_before=sealed.checkpoint,
        checkpoint_after=_checkpoint_now(directory, sealed),
        record_before=sealed.record,
        record_after=_record_now(directory, sealed),
        archived={name: digest for name, digest in digests.items() if digest is not None},
        old_policy=text_digest(sealed.old_policy),
        new_policy=text_digest(dump_policy(policy)),
        asked=intent.asked,
        asked_by=intent.asked_by,
        done=done,
        done_by=who(by),
        seconds=round(max(0.0, done - sealed.time), 3),
    )


def _checkpoint_now(directory: RunDirectory, sealed: Sealed) -> CheckpointDigests | None:
    try:
        return checkpoint_digests(directory.path / sealed.checkpoint.file)
    except OSError:
        return None


def _record_now(directory: RunDirectory, sealed: Sealed) -> RecordPrefix | None:
    try:
        digest = prefix_digest(directory.loss, sealed.record.length)
    except OSError:
        return None
    return None if digest is None else RecordPrefix(length=sealed.record.length, sha256=digest)


def _announce(directory: RunDirectory, intent: PivotIntent, receipt: Receipt) -> None:
    """Pin the pivot point and record the event, each once."""
    events = read_events(directory.events)
    if intent.step not in pinned_steps(events):
        log(directory, "pin", intent, reason="pivot point")
    if not any(event.kind == "pivot" and event.text("id") == intent.id for event in events):
        log(directory, "pivot", intent, archive=intent.archive, policy_sha256=receipt.new_policy)
