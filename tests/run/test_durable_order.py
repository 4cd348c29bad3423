"""What is fsynced, and when: a naive model of a disk that keeps only what was fsynced, under all that moves files.

The journal, the record and the checkpoints have theirs in `test_loss_record.py` and `test_checkpoint_writing.py`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from andrea_engine.run import loss_record
from andrea_engine.run.branching import fork, rollback
from andrea_engine.run.checkpoint import checkpoint_name
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import LockedError
from andrea_engine.run.io import TEMP_PATTERN
from andrea_engine.run.lock import EngineLock
from andrea_engine.run.pivot import cancel
from andrea_engine.run.pivot_sequence import finish
from andrea_engine.run.repair import repair
from tests.run import pivot_support as support
from tests.run.helpers import entry
from tests.run.record_support import journal, opened, recorded, recover, span

FREE = {"events.jsonl", "engine.json", "engine.lock"}
"""Files that tell and prove nothing: training never waits for their fsync."""


class Disk:
    """Names and contents that a power cut could take back, by file and by folder, relative to the run.

    `early`: what was not durable yet when the next name was changed.
    """

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.early: list[str] = []
        self._root = root.resolve()
        self._unsafe: set[str] = set()
        self._patch = patch
        self._wrap("fsync", self._synced)
        for name in ("write", "pwrite", "ftruncate"):
            self._wrap(name, self._written)
        for name in ("rename", "replace"):
            self._wrap(name, self._renamed)
        for name in ("mkdir", "unlink"):
            self._wrap(name, self._named)

    def unsafe(self) -> set[str]:
        return self._unsafe - FREE

    def _wrap(self, name: str, note: Callable[..., None]) -> None:
        real = getattr(os, name)

        def call(*arguments: Any, **keywords: Any) -> Any:
            note(*arguments)
            return real(*arguments, **keywords)

        self._patch.setattr(os, name, call)

    def _relative(self, path: object) -> str | None:
        """None for what is not in the run, and for temporary files, which nobody misses."""
        here = Path(str(path)).parent.resolve() / Path(str(path)).name
        inside = here.is_relative_to(self._root) and TEMP_PATTERN.match(here.name) is None
        return str(here.relative_to(self._root)) if inside else None

    def _synced(self, descriptor: int) -> None:
        self._unsafe.discard(self._relative(os.readlink(f"/proc/self/fd/{descriptor}")) or "")

    def _written(self, descriptor: int, *_: object) -> None:
        name = self._relative(os.readlink(f"/proc/self/fd/{descriptor}"))
        if name is not None:
            self._unsafe.add(name)

    def _renamed(self, source: object, target: object) -> None:
        self._named(source)
        if self._relative(source) is None:
            self._named(target)
        else:
            self._unsafe |= {str(Path(self._relative(target) or "").parent)}

    def _named(self, path: object, *_: object) -> None:
        name = self._relative(path)
        if name is not None:
            self.early += [f"{unsafe} before {name}" for unsafe in sorted(self.unsafe())]
            self._unsafe.add(str(Path(name).parent))


@pytest.fixture
def stopped(tmp_path: Path) -> RunDirectory:
    return support.build(tmp_path / "run")


@pytest.fixture
def disk(stopped: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(stopped.path, monkeypatch)


def all_is_safe(disk: Disk) -> None:
    assert (disk.early, disk.unsafe()) == ([], set())


# -- pivot ------------------------------------------------------------------------------------------------------------


def test_a_pivot(stopped: RunDirectory, disk: Disk) -> None:
    support.pending(stopped)
    assert finish(stopped, by="a test") is not None
    all_is_safe(disk)


def test_a_pivot_that_is_taken_back(stopped: RunDirectory, disk: Disk) -> None:
    support.pending(stopped, 50, phase="asked", reached=None)
    cancel(stopped, by="a test")
    all_is_safe(disk)


# -- repairs ----------------------------------------------------------------------------------------------------------


def test_an_original_that_a_repair_moves(stopped: RunDirectory, disk: Disk) -> None:
    for step in (10, 20):
        (stopped.path / checkpoint_name(step)).write_bytes(b"torn")
    assert repair(stopped, apply=True, announce=lambda one: None) == 2
    all_is_safe(disk)


def test_an_event_log_that_a_repair_completes(stopped: RunDirectory, disk: Disk) -> None:
    stopped.events.write_bytes(stopped.events.read_bytes().removesuffix(b"\n"))
    fsyncs: list[str] = []
    note = disk._synced
    disk._wrap(
        "fsync", lambda descriptor: fsyncs.append(os.readlink(f"/proc/self/fd/{descriptor}")) or note(descriptor)
    )
    assert repair(stopped, apply=True, announce=lambda one: None) == 1
    assert fsyncs == [str(stopped.events)]


def test_an_event_log_that_a_repair_cuts(stopped: RunDirectory, disk: Disk) -> None:
    stopped.events.write_bytes(stopped.events.read_bytes() + b'{"time":1,"ki')
    fsyncs: list[str] = []
    disk._wrap("fsync", lambda descriptor: fsyncs.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    assert repair(stopped, apply=True, announce=lambda one: None) == 1
    assert fsyncs[-1] == str(stopped.events), "last, when the end that is cut off is in the archive"
    all_is_safe(disk)


# -- roll-back and fork -----------------------------------------------------------------------------------------------


def test_a_rollback(stopped: RunDirectory, disk: Disk) -> None:
    done = rollback(stopped, 30)
    assert done.moved == ("step_000040.bin",)
    assert disk.unsafe() == set()


def test_no_rollback_while_an_engine_runs(stopped: RunDirectory) -> None:
    before = support.contents(stopped)
    engine = EngineLock(stopped)
    with pytest.raises(LockedError):
        rollback(stopped, 30)
    engine.release()
    assert support.contents(stopped) == before


def test_a_fork_where_there_are_no_links(
    stopped: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    new = fork(stopped, RunDirectory(tmp_path / "fork"), 40).directory
    name = checkpoint_name(40)
    assert (new.path / name).read_bytes() == (stopped.path / name).read_bytes()
    assert len(recorded(new)) == 40


# -- loss record ------------------------------------------------------------------------------------------------------


def test_a_record_that_is_closed_again(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    run.loss.write_bytes(b"[\n" + entry(1).to_line() + b',\n{"step":2,"lo')
    disk = Disk(run.path, monkeypatch)
    recover(run, 1)
    assert disk.unsafe() == set()
    assert recorded(run) == [entry(1)]


def meanwhile(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], object]) -> list[threading.Thread]:
    """Once, in the middle of `name`, another thread tries `act`. It gets a moment: who has to wait does so longer."""
    real, others = getattr(loss_record, name), []

    def interrupted(*arguments: Any, **keywords: Any) -> Any:
        if not others:
            others.append(threading.Thread(target=act))
            others[0].start()
            others[0].join(0.3)
        return real(*arguments, **keywords)

    monkeypatch.setattr(loss_record, name, interrupted)
    return others


def test_a_step_that_ends_during_a_commit_is_not_lost(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(run, 0) as (record, _):
        for step in (1, 2):
            record.append(entry(step))
        others = meanwhile(monkeypatch, "atomic_write", lambda: record.append(entry(3)))
        record.commit(2)
        others[0].join()
        assert recorded(run) == span(1, 2)
        assert journal(run) == [entry(3)]
        record.commit(3)
        assert recorded(run) == span(1, 3)


@pytest.mark.parametrize("what", ["sync_journal", "close"])
def test_the_journal_is_not_touched_while_a_step_is_written(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with opened(run, 0) as (record, _):
        others = meanwhile(monkeypatch, "write_all_at", getattr(record, what))
        record.append(entry(1))
        others[0].join()
        assert record.problem is None
        if what != "close":
            record.append(entry(2))
        assert run.journal.read_bytes() == b"".join(e.to_line() + b"\n" for e in span(1, 1 if what == "close" else 2))
