"""A save that dies, or whose disk fails, at any operation on a file: what was saved is intact, and nothing is torn."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from andrea_engine.run.checkpoint import file_digest, list_checkpoints
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import known_digests, read_events
from andrea_engine.run.io import remove_stale_temporaries
from andrea_engine.run.loss_record import LossRecord
from andrea_engine.run.state import read_state
from tests.faults.writer import COUNT, digest, save
from tests.run.faults import Death, Faults, die
from tests.run.helpers import leftovers, steps


@pytest.fixture
def place() -> Iterator[Path]:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


@pytest.fixture
def template(place: Path) -> RunDirectory:
    """Ten steps, saved."""
    directory = RunDirectory(place / "template")
    directory.path.mkdir()
    save(directory, 1, 10)
    return directory


def failing(number: int) -> Callable[[], None]:
    def act() -> None:
        raise OSError(number, os.strerror(number))

    return act


@pytest.mark.parametrize(
    "how",
    [die, failing(errno.ENOSPC), failing(errno.EIO), failing(errno.EROFS), failing(errno.EDQUOT)],
    ids=["killed", "ENOSPC", "EIO", "EROFS", "EDQUOT"],
)
def test_at_every_operation_of_a_save(template: RunDirectory, place: Path, how: Callable[[], None]) -> None:
    record = template.loss.read_bytes().removesuffix(b"\n]\n")
    stop_at, more, saved = 0, True, 0
    while more:
        stop_at += 1
        directory = RunDirectory(place / "run")
        shutil.rmtree(directory.path, ignore_errors=True)
        shutil.copytree(template.path, directory.path)
        faults = Faults(stop_at, how)
        try:
            with faults:
                save(directory, 11, 20)
            acknowledged = True
        except (Death, OSError, RunError):
            acknowledged = False
        more = faults.count >= stop_at
        saved += 20 in known_digests(read_events(directory.events))
        _nothing_is_lost(directory, record, acknowledged=acknowledged and not more)
    assert stop_at > 25, "every file is created, written, synced and renamed"
    assert saved >= 1, "at the latest when nothing stopped it"


def _nothing_is_lost(directory: RunDirectory, record: bytes, *, acknowledged: bool) -> None:
    remove_stale_temporaries(directory.path, lambda pid: False)
    assert leftovers(directory.path) == []
    files = list_checkpoints(directory.path, COUNT)
    assert all(file.valid for file in files), "no file of a final name is ever half written"
    assert [file_digest(file.path) for file in files] == [digest(file.step) for file in files]
    newest = files[0].step
    said = known_digests(read_events(directory.events))
    assert set(said) <= {file.step for file in files}, "what was called saved is there"
    assert not acknowledged or newest == 20
    assert directory.loss.read_bytes().startswith(record), "no earlier byte of the record changed"
    assert (read_state(directory.state) or {})["step"] in {10, 20}
    recovering = LossRecord(directory)
    recovery = recovering.recover(newest)
    recovering.close()
    assert steps(recovery.entries) == list(range(1, newest + 1)), "every step up to the checkpoint, once"
    assert directory.loss.read_bytes().startswith(record)
