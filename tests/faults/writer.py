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
    """Train steps `first` to `last` and save the last one, in the order of `CheckpointWriter`."""
    record = LossRecord(directory)
    try:
        record.recover(first - 1)
        for step in range(first, last + 1):
            record.append(entry(step, session=first))
        record.sync_journal()
        written = write_checkpoint(directory.path, last, contents(last))
        record.commit(last)
        write_state(directory.state, {"step": last})
        EventLog(directory.events, first).append("save_durable", step=last, sha256=written.digest)
    finally:
        record.close()


def digest(step: int) -> str:
    """Of the file of a step, from the definition of the format."""
    head = array.array("i", [step, COUNT]).tobytes()
    return hashlib.sha256(head + b"".join(contents(step))).hexdigest()
