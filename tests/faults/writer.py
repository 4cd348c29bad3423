"""One save as the engine makes it, without the engine: journal, checkpoint, commit, state, event."""

from __future__ import annotations

import array
import hashlib

from andrea_engine.run.checkpoint import write_checkpoint
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog
from andrea_engine.run.loss_record import LossRecord
from andrea_engine.run.state import write_state
from tests.run.helpers import entry

COUNT = 50


def contents(step: int) -> list[bytes]:
    """Weights, m and v of a step."""
    return [array.array("f", [step + part / 4] * COUNT).tobytes() for part in range(3)]


def save(directory: RunDirectory, first: int, last: int) -> None:
    """Train steps `first` to `last` and save the last one."""
    record = LossRecord(directory)
    try:
        record.recover(first - 1)
        for step in range(first, last + 1):
            record.append(entry(step, session=first))
        make_durable(directory, record, EventLog(directory.events, first), last)
    finally:
        record.close()


def make_durable(directory: RunDirectory, record: LossRecord, events: EventLog, step: int) -> None:
    """Save a step whose entries are in the journal, in the order of `CheckpointWriter`."""
    record.sync_journal()
    written = write_checkpoint(directory.path, step, contents(step))
    record.commit(step)
    write_state(directory.state, {"step": step})
    events.append("save_durable", step=step, sha256=written.digest)


def digest(step: int) -> str:
    """Of the file of a step, from the definition of the format."""
    head = array.array("i", [step, COUNT]).tobytes()
    return hashlib.sha256(head + b"".join(contents(step))).hexdigest()
