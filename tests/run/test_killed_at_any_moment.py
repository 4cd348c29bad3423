"""SIGKILL at random moments of a real process that writes checkpoints and the loss record: nothing saved is lost."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import time
from pathlib import Path

from andrea_engine.run.checkpoint import checkpoint_bytes, list_checkpoints
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.io import remove_stale_temporaries
from andrea_engine.run.loss_record import LossRecord
from andrea_engine.run.process import is_alive

from .helpers import ROOT, leftovers, steps, strict

TRIALS = 15
COUNT = 20_000
STUB = Path(__file__).with_name("trainer_stub.py")


def train_until_killed(run: RunDirectory, session: int, seconds: float) -> int:
    """Returns the last step that was acknowledged as durable, as an observer outside the directory saw it."""
    child = subprocess.Popen([sys.executable, str(STUB), str(run.path), str(session)], stdout=subprocess.PIPE, cwd=ROOT)
    assert child.stdout is not None
    first = child.stdout.readline()
    time.sleep(seconds)
    child.kill()
    heard = first + child.stdout.read()
    child.stdout.close()
    assert child.wait() == -9
    return int(heard[: heard.rindex(b"\n")].split()[-1])


def test_fifteen_kills(run: RunDirectory) -> None:
    rng = random.Random(7)
    prefix = b"["
    for session in range(1, TRIALS + 1):
        acknowledged = train_until_killed(run, session, rng.uniform(0.0, 0.12))
        remove_stale_temporaries(run.path, is_alive)
        assert leftovers(run.path) == []
        files = list_checkpoints(run.path, COUNT)
        assert all(file.valid for file in files)  # no file of a final name is ever half written
        newest = files[0].step
        assert newest >= acknowledged
        assert files[0].path.read_bytes() == struct.pack("<ii", newest, COUNT) + struct.pack("<f", newest) * 3 * COUNT
        assert files[0].bytes == checkpoint_bytes(COUNT)

        assert run.loss.read_bytes().startswith(prefix)  # no earlier byte changed
        record = LossRecord(run)
        recovery = record.recover(newest)
        record.close()
        assert steps(recovery.entries) == list(range(1, newest + 1))
        assert all(e.loss == 1.0 / e.step for e in recovery.entries)
        assert recovery.entries[-1].session == session
        text = run.loss.read_bytes()
        assert text.startswith(prefix)
        items = strict(text)
        assert isinstance(items, list)
        assert [item["step"] for item in items] == list(range(1, newest + 1))
        prefix = text[: -len(b"\n]\n")]
    assert newest >= 7 * TRIALS
