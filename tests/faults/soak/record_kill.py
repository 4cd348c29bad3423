"""kill -9 at any operation on a file of the write path alone, life after life: journal, checkpoint, record, events.

No PyTorch: a life is forked off, trains nothing, and saves as the engine does.
"""

from __future__ import annotations

import os
import random
import signal
import traceback
from pathlib import Path

from andrea_engine.run.checkpoint import file_digest, list_checkpoints
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import EventLog, known_digests, read_events
from andrea_engine.run.io import remove_stale_temporaries
from andrea_engine.run.loss_record import LossRecord
from andrea_engine.run.state import read_state
from tests.faults.writer import COUNT, digest, make_durable
from tests.run.faults import Faults, kill
from tests.run.helpers import entry, leftovers, steps, strict

LIVES = 4
SAVES = 4  # of a life
MOST_STEPS = 12  # between two saves
MOST_OPERATIONS = 160


def trial(seed: int, scratch: Path) -> None:
    choice = random.Random(seed)
    directory = RunDirectory(scratch / "run")
    directory.path.mkdir()
    prefix = b"["
    for session in range(1, LIVES + 1):
        newest = max((file.step for file in list_checkpoints(directory.path)), default=0)
        plan = [choice.randint(1, MOST_STEPS) for _ in range(SAVES)]
        kill_at = int(MOST_OPERATIONS ** choice.random())
        acknowledged = scratch / "acknowledged"
        code = _forked(directory, acknowledged, session, newest, plan, kill_at)
        assert code in (0, -signal.SIGKILL), f"life {session} failed by itself"
        heard = [int(line) for line in acknowledged.read_text().split()] if acknowledged.exists() else []
        _nothing_is_lost(directory, heard, prefix)
        prefix = directory.loss.read_bytes().removesuffix(b"\n]\n")


def _forked(
    directory: RunDirectory, acknowledged: Path, session: int, newest: int, plan: list[int], kill_at: int
) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            told = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            write = os.write
            with Faults(kill_at, kill):
                _live(directory, session, newest, plan, lambda step: write(told, b"%d\n" % step))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _live(directory: RunDirectory, session: int, step: int, plan: list[int], tell: object) -> None:
    """Steps and saves, after what every start does."""
    assert callable(tell)
    events = EventLog(directory.events, session)
    remove_stale_temporaries(directory.path, lambda pid: False)
    events.append("start", pid=os.getpid())
    record = LossRecord(directory)
    record.recover(step)
    for count in plan:
        for _ in range(count):
            step += 1
            record.append(entry(step, session=session))
        make_durable(directory, record, events, step)
        tell(step)
    record.close()


def _nothing_is_lost(directory: RunDirectory, heard: list[int], prefix: bytes) -> None:
    files = list_checkpoints(directory.path, COUNT)
    assert all(file.valid for file in files), "a file of a checkpoint's name is not whole"
    assert [file_digest(file.path) for file in files] == [digest(file.step) for file in files], "bytes of a save differ"
    there = {file.step for file in files}
    assert set(heard) <= there, f"called saved and not there: {sorted(set(heard) - there)}"
    assert set(known_digests(read_events(directory.events))) <= there, "the events name a save that is not there"
    newest = max(there, default=0)
    if directory.loss.exists():
        assert directory.loss.read_bytes().startswith(prefix), "earlier bytes of the loss record changed"
    try:
        state = read_state(directory.state)
    except RunError as error:
        raise AssertionError(f"the state is torn: {error}") from None
    assert state is None or state["step"] in there, "the state is of a step that was never saved"
    remove_stale_temporaries(directory.path, lambda pid: False)
    assert leftovers(directory.path) == []
    record = LossRecord(directory)
    recovery = record.recover(newest)
    record.close()
    assert steps(recovery.entries) == list(range(1, newest + 1)), "a step is missing or there twice"
    right = [entry(e.step, session=e.session or 0) for e in recovery.entries]
    assert recovery.entries == right, "an entry differs from what was recorded"
    items = strict(directory.loss.read_bytes())
    assert isinstance(items, list)
    assert [item["step"] for item in items] == list(range(1, newest + 1)), "the record in the file differs"
