"""Go back to an older checkpoint, or start a second run from one. Both keep everything that was there.

A roll-back moves the newer checkpoints and samples into an archive; what is left is a run that stands at the older
step, and the next start trains on from it. Each move is one rename, newest checkpoint first, so that a crash on the way
leaves a run that stands at some valid step and the command can be given again. The loss record keeps the abandoned
branch: later entries of the same steps replace it for every reader.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

import msgspec

from andrea_engine.run.checkpoint import CheckpointFile, checkpoint_name, inspect_checkpoint, list_checkpoints
from andrea_engine.run.config import load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, NoCheckpointError
from andrea_engine.run.events import EventLog, continued_log, known_digests, read_events
from andrea_engine.run.heartbeat import read_heartbeat, write_heartbeat
from andrea_engine.run.io import atomic_write, ensure_folder, fsync_directory, read_optional
from andrea_engine.run.lock import EngineLock
from andrea_engine.run.loss_entry import current_branch
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.loss_record import EMPTY, LossRecord
from andrea_engine.run.samples import read_samples, write_samples

FORKED_LIMIT = 64 * 1024 * 1024  # bytes of run.toml, of what was resolved, of the tokenizer


@dataclass(frozen=True, slots=True)
class RolledBack:
    """`moved`: checkpoints that are in the archive now, with their bytes in all."""

    step: int
    from_step: int
    archive: Path
    moved: tuple[str, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Forked:
    """The new run, and the step it starts from."""

    directory: RunDirectory
    step: int
    entries: int


def rollback(directory: RunDirectory, step: int) -> RolledBack:
    """Let the run stand at the checkpoint of `step`. Takes the engine's lock, so the engine must be stopped.

    Raises ConfigError, LockedError, or NoCheckpointError when that checkpoint is not there or not valid.
    """
    config = load_config(directory)
    if directory.pivot_intent.exists():
        raise ConfigError(f"{directory.path} has a pivot under way; finish it with a start, or cancel it first")
    lock = EngineLock(directory)
    try:
        _require_checkpoint(directory, step, config.n_params)
        newer = [file for file in list_checkpoints(directory.path) if file.step > step]
        from_step = max([step, *(file.step for file in newer), *_recorded(directory)])
        archive = _new_archive(directory, from_step, step)
        size = sum(file.bytes for file in newer)
        for file in newer:  # newest first: whatever is left always stands at a valid step
            file.path.rename(archive / file.path.name)
        _archive_samples(directory, archive, step)
        if directory.state.exists():
            directory.state.rename(archive / directory.state.name)
        fsync_directory(archive)
        fsync_directory(directory.path)
        events = continued_log(directory.events)
        events.append(
            "rollback",
            step=step,
            from_step=from_step,
            archive=f"archive/{archive.name}",
            checkpoints=[file.path.name for file in newer],
        )
        _settle_heartbeat(directory, step)
        return RolledBack(step, from_step, archive, tuple(file.path.name for file in newer), size)
    finally:
        lock.release()


def fork(directory: RunDirectory, target: RunDirectory, step: int) -> Forked:
    """A new run directory that starts from the checkpoint of `step`, with the record up to it.

    The source may be training. Checkpoint and tokens are linked where the file system can, else copied: neither is
    ever changed in place. Raises ConfigError or NoCheckpointError; a failed fork leaves no directory.
    """
    config = load_config(directory)
    file = _require_checkpoint(directory, step, config.n_params)
    if os.path.lexists(target.path):
        raise ConfigError(f"{target.path} exists already; name a directory that does not")
    entries = [entry for entry in current_branch(LossReader(directory.loss).read_all()) if entry.step <= step]
    if not entries or entries[-1].step != step:
        raise ConfigError(
            f"the loss record of {directory.path} does not reach step {step:,}, so it cannot be forked there"
        )
    try:
        target.path.mkdir(parents=True)
        for name in (directory.config.name, directory.resolved.name, directory.tokenizer.name):
            data = read_optional(directory.path / name, FORKED_LIMIT)
            if data is not None:
                atomic_write(target.path / name, data)
        if directory.tokens.is_dir() and not directory.tokens.is_symlink():
            target.tokens.mkdir()
            for source in sorted(directory.tokens.iterdir()):
                if source.is_file() and not source.is_symlink():
                    _link(source, target.tokens / source.name)
        _link(file.path, target.path / file.path.name)
        atomic_write(target.loss, EMPTY)
        record = LossRecord(target)
        record.recover(0)
        for entry in entries:
            record.append(entry)
        record.commit(step)
        record.close()
        samples = [sample for sample in read_samples(directory.samples) if sample.step <= step]
        write_samples(target.samples, samples)
        events = EventLog(target.events, 0)
        events.append("forked", step=step, origin=str(directory.path.resolve()), host=socket.gethostname())
        digest = known_digests(read_events(directory.events)).get(step)
        if digest is not None:
            events.append(
                "save_durable",
                step=step,
                file=file.path.name,
                bytes=file.bytes,
                seconds=0.0,
                sha256=digest,
                reason="fork",
                pinned=True,
            )
    except OSError as error:
        shutil.rmtree(target.path, ignore_errors=True)
        raise ConfigError(f"{target.path} cannot be made: {error.strerror}") from error
    return Forked(target, step, len(entries))


def _require_checkpoint(directory: RunDirectory, step: int, n_params: int) -> CheckpointFile:
    file = inspect_checkpoint(directory.path / checkpoint_name(step), n_params)
    if file.valid:
        return file
    valid = [f"{f.step:,}" for f in list_checkpoints(directory.path, n_params) if f.valid]
    there = f"valid ones: {', '.join(valid[:12])}" if valid else "there is no valid one"
    raise NoCheckpointError(f"{directory.path} has no valid checkpoint of step {step:,}; {there}")


def _recorded(directory: RunDirectory) -> list[int]:
    return [entry.step for entry in current_branch(LossReader(directory.loss).read_all())[-1:]]


def _new_archive(directory: RunDirectory, from_step: int, step: int) -> Path:
    """A new folder in the archive; an existing one is never used again."""
    try:
        ensure_folder(directory.archive)
    except OSError as error:
        raise ConfigError(f"{directory.archive} cannot be used: {error.strerror}") from error
    for number in range(1, 10_000):
        archive = directory.archive / f"rollback-{number:04d}-from-{from_step}-to-{step}"
        taken = any(entry.name.startswith(f"rollback-{number:04d}-") for entry in os.scandir(directory.archive))
        if not taken:
            archive.mkdir()
            fsync_directory(directory.archive)  # before anything moves into it
            return archive
    raise ConfigError(f"{directory.archive} holds 9,999 roll-backs; move some of them away")


def _archive_samples(directory: RunDirectory, archive: Path, step: int) -> None:
    """Samples of the abandoned branch go to the archive; those up to `step` stay, and the gate counts them again."""
    samples = read_samples(directory.samples)
    later = [sample for sample in samples if sample.step > step]
    if later:
        write_samples(archive / directory.samples.name, later)
        write_samples(directory.samples, [sample for sample in samples if sample.step <= step])


def _settle_heartbeat(directory: RunDirectory, step: int) -> None:
    """The last word of the engine was about the abandoned branch."""
    beat = read_heartbeat(directory.heartbeat)
    if beat is not None:
        note = f"rolled back to step {step:,}; resume goes on from there"
        settled = msgspec.structs.replace(beat, phase="stopped", step=step, note=note, exit_code=0, problem="")
        write_heartbeat(directory.heartbeat, settled)


def _link(source: Path, target: Path) -> None:
    with contextlib.suppress(OSError):
        os.link(source, target, follow_symlinks=False)
        return
    shutil.copyfile(source, target)
