"""Signals to a training engine: what is asked for is seen, written and durable, whenever it comes."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGCONT, SIGHUP, SIGINT, SIGSTOP, SIGTERM, SIGUSR1

import pytest

from andrea_engine.run.condition import condition
from andrea_engine.run.events import Event
from andrea_engine.run.launch import engine_status, request
from tests.support import records
from tests.support.engines import Engine, Engines
from tests.support.tiny import RARELY, make_run


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine that trains for ever and saves only when asked."""
    directory = make_run(tmp_path_factory.mktemp("living") / "run", RARELY)
    with Engines() as factory:
        engine = factory.start(directory)
        engine.wait_step(3)
        yield engine


def test_a_save_request_writes_a_pinned_checkpoint_and_training_goes_on(living: Engine) -> None:
    before = living.step
    living.send(SIGUSR1)
    durable = living.wait_event("save_durable", reason="operator")
    assert durable.step is not None
    assert durable.step >= before, "a step is recorded first, and then requests are looked at"
    assert durable.facts["pinned"] is True
    assert records.checkpoint(living.directory, durable.step).stat().st_size == durable.integer("bytes")
    trail = _trail(living, durable.step)
    assert [event.kind for event in trail] == ["save_asked", "save_seen", "save_writing", "save_durable"]
    assert trail[0].text("by") == "SIGUSR1"
    assert [event.time for event in trail] == sorted(event.time for event in trail)
    assert [event.step for event in trail[1:]] == [durable.step] * 3
    living.wait_step(durable.step + 5)
    assert durable.step in records.steps(living.directory), "the record is committed with the checkpoint"


def test_the_console_finds_the_engine_and_rings(living: Engine) -> None:
    status = engine_status(living.directory)
    assert (status.alive, status.pid) == (True, living.pid)
    known = len(living.events("save_durable"))
    assert request(living.directory, "save") == living.pid
    living.wait_for(lambda: len(living.events("save_durable")) > known, "a save that was asked for by the console")
    assert condition(living.directory).word == "training"


def test_a_suspended_engine_is_called_so_and_goes_on_when_it_is_woken(living: Engine) -> None:
    living.send(SIGSTOP)
    living.wait_for(lambda: condition(living.directory).word == "suspended", "the suspension")
    known = len(living.events("save_durable"))
    living.send(SIGUSR1)
    living.send(SIGCONT)
    living.wait_for(lambda: len(living.events("save_durable")) > known, "the save that was asked for meanwhile")


def test_a_storm_of_requests_is_few_saves(living: Engine) -> None:
    known = len(living.events("save_durable"))
    for _ in range(2000):
        living.send(SIGUSR1)
    recorded = living.step  # the step is recorded, and then requests are looked at
    living.send(SIGUSR1)
    living.wait_for(lambda: (living.events("save_durable")[-1].step or 0) >= recorded, "a save after the last signal")
    living.wait_step(living.step + 20)
    saves = [event.step for event in living.events("save_durable")[known:]]
    assert len(saves) == len(set(saves)), "one save a step at most"
    assert len(saves) < 200
    assert living.process.poll() is None


def test_zz_stopped_twice_while_a_save_is_pending_leaves_one_last_checkpoint(living: Engine) -> None:
    """The last one for the living engine."""
    living.send(SIGUSR1)
    living.send(SIGTERM)
    living.send(SIGTERM)
    assert living.wait() == 0
    (stop,) = living.events("stop")
    assert stop.step is not None
    assert records.steps(living.directory) == list(range(1, stop.step + 1))
    durable = [event for event in living.events("save_durable") if event.step == stop.step]
    assert durable
    assert max(records.checkpoints(living.directory)) == stop.step
    asked = [event.text("by") for event in living.events("save_asked")]
    assert asked.count("stop") == 1
    assert len(living.events("save_seen")) == len(asked), "every request was seen"
    assert condition(living.directory).word == "stopped"
    assert living.events("save_failed") == []


@pytest.mark.parametrize("number", [SIGINT, SIGHUP])
def test_interrupt_and_hang_up_save_and_stop(engines: Engines, tmp_path: Path, number: int) -> None:
    """Sent to the whole process group, as a terminal does."""
    directory = make_run(tmp_path / "run", RARELY)
    engine = engines.start(directory)
    engine.wait_step(3)
    os.killpg(engine.pid, number)
    assert engine.wait() == 0
    (stop,) = engine.events("stop")
    assert records.checkpoints(directory) == [stop.step]
    assert [event.kind for event in _trail(engine, stop.step or 0)] == [
        "save_asked",
        "save_seen",
        "save_writing",
        "save_durable",
    ]
    assert engine.events("save_durable")[0].facts["pinned"] is False


def test_stop_requests_until_the_process_is_gone_change_nothing(engines: Engines, tmp_path: Path) -> None:
    """Also while the interpreter shuts down, when Python has given the signals their deadly default back."""
    directory = make_run(tmp_path / "run", RARELY)
    engine = engines.start(directory)
    engine.wait_step(3)
    storm = threading.Thread(target=_ring_until_gone, args=(engine,))
    storm.start()
    storm.join()
    assert engine.wait() == 0
    assert len(engine.events("stop")) == 1
    assert len(records.checkpoints(directory)) == 1


@pytest.mark.parametrize("seed", range(6))
def test_signals_during_the_start_never_kill(engines: Engines, tmp_path: Path, seed: int) -> None:
    """Launched as the console does it; rung from the first moment on, at random moments, then asked to stop."""
    choice = random.Random(seed)
    directory = make_run(tmp_path / "run", RARELY)
    engine = engines.launch(directory)
    if seed == 0:
        engine.send(SIGUSR1)  # at once: no handler can be there yet
    elif seed == 1:
        engine.send(SIGTERM)
    else:
        engine.wait_busy(choice.uniform(0.0, 3.0))
        engine.send(SIGUSR1)
        engine.wait_busy(choice.uniform(0.0, 0.3))
    if seed == 0:
        first = engine.wait_event("save_durable", reason="operator")
        assert first.step == 1, "the request waited for the first step"
    engine.send(SIGTERM)
    assert engine.wait() == 0, engine.output
    saved = records.checkpoints(directory)
    assert records.steps(directory) == list(range(1, max(saved, default=0) + 1))
    assert condition(directory).word == "stopped"


def _trail(engine: Engine, step: int) -> list[Event]:
    """The events of the save of `step`, from the request on."""
    kinds = ("save_asked", "save_seen", "save_writing", "save_durable", "save_failed")
    events = [event for kind in kinds for event in engine.events(kind)]
    found = [event for event in events if event.step == step]
    seen = next(event for event in found if event.kind == "save_seen")
    asked = [e for e in events if e.kind == "save_asked" and e.time <= seen.time + 0.001]
    return [asked[-1], *found]


def _ring_until_gone(engine: Engine) -> None:
    while engine.process.poll() is None:
        engine.send(SIGTERM)
        engine.send(SIGUSR1)
        time.sleep(0.001)
