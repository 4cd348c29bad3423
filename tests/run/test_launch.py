"""Starting an engine, finding it again, and ringing its bell: never another process, and no ring is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.heartbeat import Heartbeat, read_heartbeat, write_heartbeat
from andrea_engine.run.launch import engine_status, request, spawn_engine
from andrea_engine.run.process import is_alive

from .helpers import FAKE_ENGINE, ROOT, beat, fake_engine, killed, wait_for


@pytest.fixture
def engine(run: RunDirectory) -> Iterator[subprocess.Popen[bytes]]:
    with fake_engine(run) as process:
        yield process


def seen(run: RunDirectory) -> list[str]:
    path = run.path / "seen"
    return path.read_text().split() if path.exists() else []


# -- requests ---------------------------------------------------------------------------------------------------------


def test_save_and_stop_reach_the_engine(run: RunDirectory, engine: subprocess.Popen[bytes]) -> None:
    assert request(run, "save") == engine.pid
    wait_for(lambda: seen(run) == ["save"], "the save request")
    assert engine_status(run).alive
    assert request(run, "stop") == engine.pid
    assert engine.wait() == 0
    assert seen(run) == ["save", "stop"]


def test_an_engine_that_ended_is_not_asked(run: RunDirectory, engine: subprocess.Popen[bytes]) -> None:
    request(run, "stop")
    wait_for(lambda: not is_alive(engine.pid), "the end, with the process not reaped yet")
    assert not engine_status(run).alive
    with pytest.raises(RunError, match="its process has ended"):
        request(run, "save")
    engine.wait()
    with pytest.raises(RunError, match="the engine has ended, so there is nothing to ask"):
        request(run, "save")


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A stranger whom any of the signals would kill."""
    script = "print('up', flush=True); input()"
    command = [sys.executable, "-c", script]
    with killed(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        assert process.poll() is None, "a signal went to the wrong process"


def refused(run: RunDirectory, heartbeat: Heartbeat, why: str) -> None:
    write_heartbeat(run.heartbeat, heartbeat)
    assert not engine_status(run).alive
    for what in ("save", "stop"):
        with pytest.raises(RunError, match=why):
            request(run, what)


def test_a_stranger_is_never_signalled(run: RunDirectory, victim: subprocess.Popen[bytes]) -> None:
    good = beat(victim.pid)
    refused(run, good, "does not hold the run's lock")
    assert good.process_start is not None
    refused(run, beat(victim.pid, process_start=good.process_start - 1), "belongs to another process now")
    refused(run, beat(victim.pid, boot_id="00000000-0000-0000-0000-000000000000"), "the machine was restarted since")
    refused(run, beat(victim.pid, host="elsewhere"), "the engine runs on elsewhere")


def test_an_engine_without_the_lock_is_not_asked(run: RunDirectory) -> None:
    """Even the same start tick is not enough: the kernel's lock table has to name the process."""
    with fake_engine(run, "no-lock"):
        assert not engine_status(run).alive
        with pytest.raises(RunError, match="does not hold the run's lock"):
            request(run, "stop")
    assert seen(run) == []


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 7, 2**31, 2**40, 2**63 - 1])
def test_impossible_process_numbers(run: RunDirectory, pid: int) -> None:
    refused(run, beat(pid, process_start=None), "the engine has ended")


def test_nothing_has_reported_yet(run: RunDirectory) -> None:
    with pytest.raises(RunError, match="no engine has reported"):
        request(run, "save")
    run.heartbeat.write_bytes(b"garbage")
    with pytest.raises(RunError, match="no engine has reported"):
        request(run, "save")
    status = engine_status(run)
    assert (status.heartbeat, status.alive, status.elsewhere, status.pid) == (None, False, False, None)


# -- the spawn --------------------------------------------------------------------------------------------------------


@pytest.fixture
def spawned(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """`spawn_engine` starts the stand-in, which waits for `go` before it arms, as imports make a real one wait."""
    real, processes = subprocess.Popen, []

    def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        assert command == [sys.executable, "-P", "-m", "andrea_engine", "train", str(run.path), "--steps", "9"]
        processes.append(real([sys.executable, str(FAKE_ENGINE), str(run.path), "await-go"], cwd=ROOT, **options))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def test_signals_sent_at_once_are_delivered_after_the_engine_is_armed(
    run: RunDirectory, spawned: list[subprocess.Popen[bytes]]
) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    process = spawn_engine(run, ["--steps", "9"])
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    for _ in range(500):
        process.send_signal(signal.SIGUSR1)
    wait_for(lambda: b"words" in run.log.read_bytes(), "the interpreter to be up")
    for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        process.send_signal(number)
    assert process.poll() is None
    (run.path / "go").touch()
    assert process.wait(timeout=20) == 0
    assert seen(run) == ["save", "stop"]


def test_the_engine_is_independent_of_its_starter(run: RunDirectory, spawned: list[subprocess.Popen[bytes]]) -> None:
    process = spawn_engine(run, ["--steps", "9"])
    assert os.getsid(process.pid) == process.pid  # no terminal can hang up on it
    assert os.readlink(f"/proc/{process.pid}/fd/0") == "/dev/null"
    for descriptor in (1, 2):
        assert os.readlink(f"/proc/{process.pid}/fd/{descriptor}") == str(run.log)
    wait_for(lambda: run.log.read_bytes() == b"words on standard output\n", "its words in engine.log")
    (run.path / "go").touch()
    wait_for(lambda: read_heartbeat(run.heartbeat) is not None, "its heartbeat")
    request(run, "stop")
    assert process.wait() == 0
    second = spawn_engine(run, ["--steps", "9"])
    wait_for(lambda: run.log.read_bytes().count(b"words") == 2, "the log to be continued")
    second.kill()


def test_the_starters_input_is_its_own(run: RunDirectory, spawned: list[subprocess.Popen[bytes]]) -> None:
    """An engine that shared it would take keys from the console."""
    (run.path / "keys").touch()
    kept, other = os.dup(0), os.open(run.path / "keys", os.O_RDONLY)
    os.dup2(other, 0)
    try:
        process = spawn_engine(run, ["--steps", "9"])
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(other)
    assert os.readlink(f"/proc/{process.pid}/fd/0") == "/dev/null"


def test_a_start_that_fails_is_one_sentence_and_leaves_the_mask(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    monkeypatch.setattr(sys, "executable", "/missing/python")
    with pytest.raises(RunError, match="could not be started: No such file"):
        spawn_engine(run)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    monkeypatch.undo()
    run.log.unlink()
    run.log.symlink_to("elsewhere")
    with pytest.raises(RunError, match="could not be started"):
        spawn_engine(run)
