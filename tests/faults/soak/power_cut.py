"""The power fails under a writer on a real ext4 file system, twice in a row: what was acknowledged survives."""

from __future__ import annotations

import array
import contextlib
import os
import random
import struct
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from andrea_engine.run.checkpoint import list_checkpoints
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.io import remove_stale_temporaries
from andrea_engine.run.loss_record import LossRecord
from tests.faults.test_power_cut import COUNT, Disk, train_until_the_cut
from tests.run.helpers import steps, strict

CUTS = 2  # of one trial; the second one hits a recovery


@cache
def reason() -> str | None:
    """Why no disk can be made to lose its power here."""
    if os.geteuid() != 0:
        return "mounting needs root"
    with tempfile.TemporaryDirectory() as folder:
        try:
            disk = Disk(Path(folder))
        except FileNotFoundError as error:
            return f"there is no {error.filename} here"
        except pytest.skip.Exception as skipped:
            return str(skipped.msg)
        disk.unmount()
    return None


def trial(seed: int, scratch: Path) -> None:
    choice = random.Random(seed)
    disk = Disk(scratch)
    try:
        run = RunDirectory(disk.path / "run")
        run.path.mkdir()
        prefix = b"["
        for session in range(1, CUTS + 1):
            with _unheard():
                acknowledged = train_until_the_cut(disk, run.path, session, choice.uniform(0.0, 0.2))
            disk.unmount()
            disk.mount()
            prefix = _nothing_is_lost(run, acknowledged, prefix)
    finally:
        disk.unmount()


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """The last words of writers whose disk has gone."""
    before = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _nothing_is_lost(run: RunDirectory, acknowledged: int, prefix: bytes) -> bytes:
    """Returns what the record has to begin with from now on."""
    remove_stale_temporaries(run.path, lambda pid: False)
    files = list_checkpoints(run.path, COUNT)
    assert all(file.valid for file in files), "a file of a checkpoint's name is not whole"
    newest = max((file.step for file in files), default=0)
    assert newest >= acknowledged, f"step {acknowledged} was called saved; the newest one there is {newest}"
    body = array.array("f", [newest]).tobytes() * COUNT * 3
    assert files[0].path.read_bytes() == struct.pack("<ii", newest, COUNT) + body, f"step {newest} is not whole"
    assert run.loss.read_bytes().startswith(prefix), "earlier bytes of the loss record changed"
    record = LossRecord(run)
    recovery = record.recover(newest)
    record.close()
    assert steps(recovery.entries) == list(range(1, newest + 1)), "a step is missing or there twice"
    text = run.loss.read_bytes()
    strict(text)
    return text.removesuffix(b"\n]\n")
