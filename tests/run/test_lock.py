"""One engine per run directory (case C10): the kernel decides, and a kill frees the lock at once."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from andrea_engine.run import lock
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, ExitCode, LockedError
from andrea_engine.run.lock import EngineLock, is_locked
from andrea_engine.run.process import is_alive

from .helpers import ROOT, killed

CONTENDER = Path(__file__).with_name("lock_contender.py")


class Contender:
    def __init__(self, run: RunDirectory) -> None:
        command = [sys.executable, str(CONTENDER), str(run.path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, word: str) -> str:
        self.tell(word)
        return self.hear()


@contextmanager
def contenders(run: RunDirectory, count: int) -> Iterator[list[Contender]]:
    with ExitStack() as stack:
        all_of_them = [Contender(run) for _ in range(count)]
        for one in all_of_them:
            stack.enter_context(killed(one.process))
        assert [one.hear() for one in all_of_them] == ["up"] * count
        yield all_of_them


def test_four_at_once_have_one_winner_and_a_kill_frees_the_lock(run: RunDirectory) -> None:
    with contenders(run, 5) as (*racers, last):
        for _ in range(50):
            for one in racers:
                one.tell("go")
            answers = [one.hear() for one in racers]
            assert sorted(answers)[-1] == "won"
            assert answers.count("won") == 1
            winner = racers[answers.index("won")]
            assert is_locked(run)
            for answer in answers:
                if answer != "won":  # with the winner's name, unless it had not written it yet
                    assert answer.startswith(f"{int(ExitCode.LOCKED)} {run.path} is in use by ")
            assert last.ask("go") == (
                f"4 {run.path} is in use by the engine with pid {winner.process.pid} on {socket.gethostname()}"
            )
            assert winner.ask("release") == "released"
            assert not is_locked(run)
        assert racers[0].ask("go") == "won"
        racers[0].process.kill()
        racers[0].process.wait()
        assert not is_locked(run)
        assert last.ask("go") == "won"


def test_a_child_that_outlives_the_engine_does_not_hold_its_lock(run: RunDirectory) -> None:
    with contenders(run, 2) as (engine, successor):
        assert engine.ask("go") == "won"
        worker = int(engine.ask("fork"))
        engine.process.kill()
        engine.process.wait()
        try:
            assert is_alive(worker)
            assert successor.ask("go") == "won"
        finally:
            os.kill(worker, signal.SIGKILL)


def test_a_file_alone_is_no_lock(run: RunDirectory) -> None:
    run.lock.write_text('{"pid": 1, "host": "elsewhere"}')
    assert not is_locked(run)
    holder = EngineLock(run)
    assert is_locked(run)
    holder.release()
    holder.release()  # twice is once
    assert not is_locked(run)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"", "another engine"),
        (b"\xff\x00", "another engine"),
        (b"[" * 5000, "another engine"),
        (b"[1]", "another engine"),
        (b'{"pid": 7, "host": "h\\u001b[2J"}', "the engine with pid 7 on h\u241b[2J"),
    ],
)
def test_whatever_the_file_holds_the_loser_gets_one_clean_sentence(
    run: RunDirectory, content: bytes, name: str
) -> None:
    with run.lock.open("w+b") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        run.lock.write_bytes(content)
        with pytest.raises(LockedError) as caught:
            EngineLock(run)
    assert str(caught.value) == f"{run.path} is in use by {name}"
    assert run.lock.read_bytes() == content  # the loser writes nothing


def test_where_locks_do_not_work_it_is_not_called_in_use(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ConfigError, match="cannot be locked"):
        EngineLock(run)


def test_a_full_disk_does_not_keep_an_engine_from_its_lock(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        holder = EngineLock(run)
    assert is_locked(run)
    holder.release()


def test_a_link_or_a_missing_directory_is_refused(run: RunDirectory, tmp_path: Path) -> None:
    run.lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot be written"):
        EngineLock(run)
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(ConfigError, match="cannot be written"):
        EngineLock(RunDirectory(tmp_path / "missing"))


def test_without_a_lock_table_the_lock_itself_is_asked(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "lock_holders", lambda path: [])
    monkeypatch.setattr(lock, "Path", lambda path: run.path / "missing")
    assert not is_locked(run)  # no file at all
    holder = EngineLock(run)
    assert is_locked(run)
    holder.release()
    assert not is_locked(run)
