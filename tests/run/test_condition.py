"""The state of a run in one word."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from andrea_engine.run.condition import Condition, condition
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import ENDED_PHASES, RUNNING_PHASES, write_heartbeat
from andrea_engine.run.launch import EngineStatus
from andrea_engine.run.lock import EngineLock
from andrea_engine.run.process import process_state

from .helpers import beat, fake_engine, put_checkpoint, wait_for


def word(run: RunDirectory, now: float | None = None) -> str:
    return condition(run, now=now).word


def test_before_anything_ran(run: RunDirectory, tmp_path: Path) -> None:
    assert word(RunDirectory(tmp_path / "nowhere")) == "missing"
    assert word(run) == "missing"
    put_checkpoint(run.path, 100)
    assert word(run) == "recorded"
    run.config.write_text("")
    assert condition(run) == Condition("empty", alive=False, sentence="this run has not been started yet")


def test_a_lock_without_a_heartbeat_is_a_start(run: RunDirectory) -> None:
    run.config.write_text("")
    lock = EngineLock(run)
    assert (word(run), condition(run).alive) == ("starting", True)
    lock.release()
    assert word(run) == "empty"


def test_a_living_engine_through_suspension_and_death(run: RunDirectory) -> None:
    run.config.write_text("")
    with fake_engine(run) as process:
        found = condition(run)
        assert (found.word, found.alive) == ("training", True)
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: process_state(process.pid) == "T", "the engine to stop")
        assert (word(run), condition(run).alive) == ("suspended", True)
        assert str(process.pid) in condition(run).sentence
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: word(run) == "training", "the engine to go on")
        process.kill()
        wait_for(lambda: word(run) == "crashed", "its death to be noticed, although it is not reaped")
    found = condition(run)
    assert (found.word, found.alive) == ("crashed", False)
    assert "in phase training at step 7" in found.sentence


@pytest.mark.parametrize("phase", ENDED_PHASES)
def test_an_end_keeps_its_word_and_note(run: RunDirectory, phase: str) -> None:
    write_heartbeat(run.heartbeat, beat(process_start=1, phase=phase, note="saved at step 7"))
    assert condition(run) == Condition(phase, alive=False, sentence="saved at step 7")


@pytest.mark.parametrize("phase", RUNNING_PHASES)
def test_a_running_phase_of_an_earlier_boot_is_a_crash(run: RunDirectory, phase: str) -> None:
    write_heartbeat(run.heartbeat, beat(boot_id="another", phase=phase))
    assert word(run) == "crashed"


def test_an_engine_on_another_machine(run: RunDirectory) -> None:
    write_heartbeat(run.heartbeat, beat(host="far-away", time=1000.0))
    assert condition(run, now=1090.0) == Condition(
        "elsewhere", alive=False, sentence="training on far-away, as of 90 s ago"
    )
    write_heartbeat(run.heartbeat, beat(host="far-away", phase="finished"))
    assert word(run) == "finished"


@pytest.mark.parametrize(
    ("phase", "step_seconds", "limit"),
    [
        ("training", None, 60),
        ("training", 0.5, 60),
        ("training", 10.0, 100),
        ("saving", 1.0, 60),
        ("loading", None, 300),
        ("sampling", None, 300),
        ("starting", None, 300),
        ("compiling", None, 900),
        ("preparing", None, 900),
    ],
)
def test_no_progress_for_too_long_is_a_stall(
    run: RunDirectory, phase: str, step_seconds: float | None, limit: float
) -> None:
    heartbeat = beat(os.getpid(), phase=phase, phase_since=500.0, step_time=1000.0, step_seconds=step_seconds)
    status = EngineStatus(heartbeat, alive=True, elsewhere=False)
    assert condition(run, status, now=1000.0 + limit).word == phase
    found = condition(run, status, now=1001.0 + limit)
    assert (found.word, found.alive) == ("stalled", True)
    assert f"no progress for {limit + 1:,.0f} s in phase {phase}" in found.sentence
    assert condition(run, status, now=0.0).word == phase  # a clock that was set back is no stall


def test_a_new_phase_counts_as_progress(run: RunDirectory) -> None:
    heartbeat = beat(os.getpid(), phase="training", phase_since=1000.0, step_time=500.0)
    assert condition(run, EngineStatus(heartbeat, alive=True, elsewhere=False), now=1050.0).word == "training"


@pytest.mark.parametrize("content", [b"", b"garbage", b"[]", b"{}", b"[" * 100_000])
def test_a_broken_heartbeat_never_raises(run: RunDirectory, content: bytes) -> None:
    run.config.write_text("")
    run.heartbeat.write_bytes(content)
    assert word(run) == "empty"
