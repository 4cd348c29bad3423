"""Signals while a sample is being made: served within a token; half a sample is never recorded."""

from __future__ import annotations

from pathlib import Path
from signal import SIGTERM, SIGUSR1

from andrea_engine.run.checkpoint import checkpoint_name
from andrea_engine.run.samples import read_samples
from tests.support import records
from tests.support.engines import Engine, Engines
from tests.support.inprocess import andrea_engine
from tests.support.tiny import EVERY, make_run

TOKENS = 600
SLOW_SAMPLES = {
    "model": {"context": 640},
    "schedule": {"batch": 1},
    "checkpoint": {"every": 1_000_000},
    "sample": {"every": 2, "tokens": TOKENS},
}


def test_signals_while_sampling(engines: Engines, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", SLOW_SAMPLES)
    engine = engines.start(directory)

    step = _wait_sampling(engine)
    engine.send(SIGUSR1)
    durable = engine.wait_event("save_durable", reason="operator")
    assert durable.step is not None
    assert step <= durable.step <= step + 1, "served now, and not after the sample"
    engine.wait_event("sample", step=step)
    whole = next(sample for sample in read_samples(directory.samples) if sample.step == step)
    assert whole.tokens == TOKENS, "the sample was made again, from its beginning"

    _wait_sampling(engine)
    engine.send(SIGTERM)
    assert engine.wait() == 0
    (stop,) = engine.events("stop")
    assert stop.step is not None
    assert stop.step % 2 == 0, "the engine samples nearly all the time"
    assert max(records.checkpoints(directory)) == stop.step
    made = records.sample_steps(directory)
    assert made == list(range(2, stop.step, 2)), "what was half made is not recorded"
    assert all(sample.tokens == TOKENS for sample in read_samples(directory.samples))

    assert andrea_engine("train", directory.path, "--steps", stop.step + 2).code == 0
    assert records.sample_steps(directory) == [*made, stop.step, stop.step + 2], "made up for at the next start"
    straight = make_run(tmp_path / "straight", SLOW_SAMPLES)
    assert andrea_engine("train", straight.path, "--steps", stop.step + 2).code == 0
    records.assert_same_run(directory, straight, stop.step + 2)


def test_a_sample_of_steps_that_were_taken_back_is_not_shown_as_the_newest(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    assert andrea_engine("train", directory.path, "--steps", 3 * EVERY).code == 0
    assert records.sample_steps(directory) == [EVERY, 2 * EVERY, 3 * EVERY]
    before = records.trained(directory)
    (directory.path / checkpoint_name(3 * EVERY)).unlink()  # as a crash leaves it that came before it was durable
    assert andrea_engine("train", directory.path, "--steps", 2 * EVERY).code == 0
    assert records.trained(directory) == before[:2]
    assert andrea_engine("train", directory.path, "--steps", 3 * EVERY).code == 0
    assert records.trained(directory) == before, "it was made again, the same"


def _wait_sampling(engine: Engine) -> int:
    """Wait until a sample has just been begun; returns its step."""
    engine.wait_phase("training")
    return engine.wait_phase("sampling").step
