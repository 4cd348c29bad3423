"""The published limits, with real processes: from a stop to durable, to adopt a running engine, to notice a stall.

- Stop to durable: the slowest step, the time of the write, and 5 s.
- A console that is opened shows the running engine within 3 s.
- No progress is called a stall after 60 s, or ten times the median step where that is longer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from andrea_engine.run import condition as conditions
from andrea_engine.run.condition import STALL_SECONDS, STALL_STEPS, ProgressWatch, condition
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import write_heartbeat
from andrea_engine.run.launch import request
from tests.e2e.terminal import Terminal
from tests.run.helpers import beat, fake_engine
from tests.screens.situations import situation
from tests.support import records
from tests.support.engines import Engines
from tests.support.tiny import RARELY, make_run

STOP_MARGIN = 5.0
ADOPTION = 3.0
LOOK = 0.25  # seconds between two looks of the console
LONG_RECORD = 200_000


# -- stop to durable --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "saving"),
    [(4, False), (512, False), (512, True)],
    ids=["quick steps", "slow steps", "while another save is under way"],
)
def test_from_a_stop_to_durable(batch: int, saving: bool, engines: Engines, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", {**RARELY, "schedule": {"batch": batch}})
    engine = engines.launch(directory)
    engine.wait_step(3)
    if saving:
        request(directory, "save")
    asked = time.time()
    request(directory, "stop")
    assert engine.wait() == 0, engine.output
    (stop,) = engine.events("stop")
    durable = next(event for event in engine.events("save_durable") if event.step == stop.step)
    steps = [entry.seconds or 0.0 for entry in records.entries(directory)]
    writes = [event.number("seconds") or 0.0 for event in engine.events("save_durable")]
    assert durable.time - asked <= max(steps) + sum(writes) + STOP_MARGIN
    assert records.checkpoints(directory)[-1] == stop.step
    assert records.steps(directory) == list(range(1, (stop.step or 0) + 1))


# -- adoption ---------------------------------------------------------------------------------------------------------


def _seconds_until_shown(directory: RunDirectory, *words: str) -> float:
    """From the start of a console in a real terminal."""
    started = time.monotonic()
    terminal = Terminal(directory.path)
    try:
        terminal.until_shown(*words)
        return time.monotonic() - started
    finally:
        terminal.close()


def _adopted(directory: RunDirectory, *words: str) -> bool:
    """Within the limit, once in three times: the limit is that of the console, not of what else the machine does."""
    return any(_seconds_until_shown(directory, *words) <= ADOPTION for _ in range(3))


def test_a_running_engine_is_adopted(engines: Engines, tmp_path: Path) -> None:
    engine = engines.launch(make_run(tmp_path / "run", RARELY))
    engine.wait_step(10)
    assert _adopted(engine.directory, "● training", "EMA ", "q stop")
    engine.goes_on()
    assert engine.saves_asked() == 0


def test_an_engine_with_a_long_record_is_adopted(tmp_path: Path) -> None:
    """It is found and can be acted on while the record is still being read."""
    with situation("training", tmp_path / "run") as directory:
        entries = ({"step": step, "loss": 3.0, "ema": 3.0, "source": "chat"} for step in range(1, LONG_RECORD + 1))
        directory.loss.write_text("[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n")
        assert _adopted(directory, "● training", "q stop")


# -- stall ------------------------------------------------------------------------------------------------------------


def _noticed(run: RunDirectory, step_seconds: float, limit: float, patience: float) -> float:
    """Seconds until an engine that lives, holds its lock, reports every moment and makes no progress is a stall."""
    with fake_engine(run) as process:
        begun, began = time.monotonic(), time.time()
        watch = ProgressWatch()

        def word() -> str:
            fields = {"phase_since": began, "step_time": began, "step_seconds": step_seconds, "time": time.time()}
            write_heartbeat(run.heartbeat, beat(process.pid, **fields))
            return condition(run, watch=watch).word

        _until(lambda: word() == "stalled", begun + limit + patience)
        return time.monotonic() - begun


def _until(found: Callable[[], bool], deadline: float) -> None:
    while not found():
        assert time.monotonic() < deadline, "it was not noticed within the limit"
        time.sleep(LOOK)


@pytest.mark.parametrize(("step_seconds", "limit"), [(0.01, 1.0), (0.2, 2.0)], ids=["the least", "ten steps"])
def test_a_stall_is_noticed_at_its_limit_and_not_before(
    step_seconds: float, limit: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a real process and a real clock; the 60 s are one here, so that nobody waits for them."""
    assert (STALL_SECONDS, STALL_STEPS) == (60.0, 10.0)
    monkeypatch.setattr(conditions, "STALL_SECONDS", 1.0)
    run = RunDirectory(tmp_path)
    assert limit - 0.1 <= _noticed(run, step_seconds, limit, patience=2.0)


@pytest.mark.soak
@pytest.mark.parametrize(("step_seconds", "limit"), [(1.0, 60.0), (9.0, 90.0)])
def test_a_stall_is_noticed_by_the_published_limit(step_seconds: float, limit: float, tmp_path: Path) -> None:
    assert limit - 0.1 <= _noticed(RunDirectory(tmp_path), step_seconds, limit, patience=2.0)
