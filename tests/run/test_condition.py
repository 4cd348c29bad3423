"""The state of a run in one word."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from andrea_engine.run.condition import (
    PATIENT_PHASES,
    STALL_SECONDS,
    Condition,
    ProgressWatch,
    condition,
    stall_limit,
)
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import ENDED_PHASES, RUNNING_PHASES, Saving, write_heartbeat
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
    fork = "not started yet; it goes on from the checkpoint of step 100"
    assert condition(run) == Condition("stopped", alive=False, sentence=fork)
    (run.path / "step_000100.bin").unlink()
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
    assert "in phase training; resume" in found.sentence


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


LIMITS = [
    ("training", None, 60),
    ("training", 0.5, 60),
    ("training", 10.0, 100),
    ("saving", 1.0, 300),
    ("stopping", 1.0, 300),
    ("loading", None, 300),
    ("sampling", None, 300),
    ("validating", None, 300),
    ("starting", None, 300),
    ("compiling", None, 900),
    ("preparing", None, 900),
]


@pytest.mark.parametrize(("phase", "step_seconds", "limit"), LIMITS)
def test_no_progress_for_too_long_is_a_stall(
    run: RunDirectory, phase: str, step_seconds: float | None, limit: float
) -> None:
    heartbeat = beat(os.getpid(), phase=phase, phase_since=500.0, step_time=1000.0, step_seconds=step_seconds)
    status = EngineStatus(heartbeat, alive=True, elsewhere=False)
    assert condition(run, status, now=999.9 + limit).word == phase
    found = condition(run, status, now=1000.0 + limit)
    assert (found.word, found.alive, found.idle) == ("stalled", True, limit)
    assert f"no progress for {limit:,.0f} s in phase {phase} (limit {limit:,.0f} s)" in found.sentence
    assert condition(run, status, now=0.0).word == phase  # a clock that was set back is no stall


def test_every_phase_of_a_living_engine_has_a_limit_of_its_own_or_that_of_training() -> None:
    assert set(PATIENT_PHASES) <= set(RUNNING_PHASES)
    assert set(RUNNING_PHASES) - set(PATIENT_PHASES) == {"training"}
    assert min(PATIENT_PHASES.values()) > STALL_SECONDS


def test_a_checkpoint_on_its_way_to_the_disk_gets_the_patience_of_a_save() -> None:
    assert stall_limit(beat(phase="training", step_seconds=1.0)) == 60.0
    writing = Saving(step=7, done=1, total=2)
    assert stall_limit(beat(phase="training", step_seconds=1.0, saving=writing)) == 300.0
    assert stall_limit(beat(phase="training", step_seconds=40.0, saving=writing)) == 400.0
    assert stall_limit(beat(phase="compiling", saving=writing)) == 900.0


@pytest.mark.parametrize(
    ("letter", "says", "advises"),
    [
        ("D", "waits in the kernel for a disk or a driver (state D)", "dmesg"),
        ("R", "is running (state R)", "load of the machine"),
        ("S", "is waiting (state S)", "py-spy dump --pid"),
        ("I", "unknown", "log"),
        (None, "unknown", "log"),
    ],
)
def test_a_stall_tells_what_the_process_does_and_what_to_do(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, letter: str | None, says: str, advises: str
) -> None:
    monkeypatch.setattr("andrea_engine.run.condition.process_state", lambda pid: letter)
    heartbeat = beat(4711, phase="training", phase_since=500.0, step_time=1000.0)
    found = condition(run, EngineStatus(heartbeat, alive=True, elsewhere=False), now=1100.0)
    assert found.word == "stalled"
    assert says in found.sentence
    assert advises in found.advice
    assert "{" not in found.advice


@pytest.mark.parametrize("letter", ["T", "t"])
def test_a_suspended_engine_is_no_stall_and_says_how_it_goes_on(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, letter: str
) -> None:
    monkeypatch.setattr("andrea_engine.run.condition.process_state", lambda pid: letter)
    heartbeat = beat(4711, phase="training", phase_since=500.0, step_time=1000.0)
    found = condition(run, EngineStatus(heartbeat, alive=True, elsewhere=False), now=9000.0)
    assert (found.word, found.alive, found.idle) == ("suspended", True, None)
    assert "kill -CONT 4711" in found.advice


def test_a_new_phase_counts_as_progress(run: RunDirectory) -> None:
    heartbeat = beat(os.getpid(), phase="training", phase_since=1000.0, step_time=500.0)
    assert condition(run, EngineStatus(heartbeat, alive=True, elsewhere=False), now=1050.0).word == "training"


class Watched:
    """A `ProgressWatch` over a run, with clocks that are set by hand."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.monotonic = 50.0
        self.wall = 1000.0
        self.watch = ProgressWatch(lambda: self.monotonic, lambda: self.wall)

    def look(self, after: float, **fields: object) -> Condition:
        """Look `after` seconds later at an engine with these facts."""
        self.monotonic += after
        self.wall += after
        known: dict[str, object] = {"phase": "training", "phase_since": 900.0, "step_time": 1000.0, "step": 7}
        heartbeat = beat(os.getpid(), **(known | fields))
        return condition(
            self.run, EngineStatus(heartbeat, alive=True, elsewhere=False), now=self.wall, watch=self.watch
        )


def test_the_watch_notices_a_stall_at_the_limit_and_its_end_at_once(run: RunDirectory) -> None:
    seen = Watched(run)
    assert seen.look(0.0).word == "training"
    assert seen.look(59.9).word == "training"
    assert (seen.look(0.1).word, seen.look(15.0).idle) == ("stalled", 75.0)
    assert seen.look(0.25, step=8, step_time=1075.0).word == "training"
    assert seen.look(59.9, step=8, step_time=1075.0).word == "training"
    assert seen.look(0.2, step=8, step_time=1075.0).word == "stalled"


def test_what_went_before_the_first_look_counts(run: RunDirectory) -> None:
    assert Watched(run).look(0.0, step_time=930.0, phase_since=900.0).idle == 70.0
    assert Watched(run).look(0.0, step_time=2000.0).word == "training", "a time in the future is no stall"


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 31_536_000.0])
def test_a_clock_that_is_set_makes_no_stall_and_hides_none(run: RunDirectory, jump: float) -> None:
    seen = Watched(run)
    seen.look(0.0)
    seen.wall += jump
    assert seen.look(30.0).word == "training"
    assert seen.look(30.0).word == "stalled"


def test_a_save_that_moves_and_a_new_engine_count_as_progress(run: RunDirectory) -> None:
    seen = Watched(run)
    for done in range(20):
        assert seen.look(200.0, phase="stopping", saving=Saving(step=7, done=done, total=20)).word == "stopping"
    assert seen.look(300.0, phase="stopping", saving=Saving(step=7, done=19, total=20)).word == "stalled"
    assert seen.look(0.0, session=2, phase_since=seen.wall).word == "training"


def test_after_a_suspension_the_count_begins_anew(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = iter("RTTR")
    monkeypatch.setattr("andrea_engine.run.condition.process_state", lambda pid: next(letters))
    seen = Watched(run)
    assert [seen.look(after).word for after in (0.0, 30.0, 500.0, 59.0)] == [
        "training",
        "suspended",
        "suspended",
        "training",
    ]


@pytest.mark.parametrize("content", [b"", b"garbage", b"[]", b"{}", b"[" * 100_000])
def test_a_broken_heartbeat_never_raises(run: RunDirectory, content: bytes) -> None:
    run.config.write_text("")
    run.heartbeat.write_bytes(content)
    assert word(run) == "empty"
