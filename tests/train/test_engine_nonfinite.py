"""A loss, a gradient or a weight that is not finite: said, never saved, and the end of the run if it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from andrea_engine.run.condition import condition
from andrea_engine.run.directory import RunDirectory
from tests.support import records
from tests.support.inprocess import Bell, andrea_engine
from tests.support.tiny import configure, make_run

# A learning rate beyond all reason: the first update of it makes the weights infinite.
EXPLODES = {"schedule": {"peak_lr": 1e300, "warmup_steps": 0}}


@pytest.fixture
def healthy(tmp_path: Path) -> RunDirectory:
    """Ten good steps, then a schedule that ruins the weights."""
    directory = make_run(tmp_path / "run", {"gate": {"halt": True}})
    assert andrea_engine("train", directory.path, "--steps", 10).code == 0
    configure(directory, EXPLODES)
    return directory


def test_three_steps_in_a_row_halt_with_the_last_good_checkpoint_pinned(healthy: RunDirectory) -> None:
    good = records.checkpoint(healthy, 10).read_bytes()
    result = andrea_engine("train", healthy.path, "--steps", 100)
    assert result.code == 6
    assert "3 steps in a row had a loss or gradient that is not finite" in result.out
    events = records.events(healthy, "nonfinite")
    assert [event.step for event in events] == [12, 13, 14], "step 11 was the last whose loss was a number"
    assert all(event.text("source") in {"harbour", "garden"} for event in events)
    (halt,) = records.events(healthy, "halt")
    assert (halt.step, halt.integer("pinned")) == (14, 10)
    assert records.checkpoints(healthy) == [10]
    assert records.checkpoint(healthy, 10).read_bytes() == good
    assert condition(healthy).word == "halted"
    assert halt.text("cause") == "nonfinite"
    again = andrea_engine("train", healthy.path, "--steps", 100)
    assert again.code == 6
    assert "this run was halted at step 14" in again.out
    assert "go on only with --override-halt, or from an earlier checkpoint" in again.out
    assert records.events(healthy, "nonfinite") == events, "not one step of it was trained again"
    configure(healthy, {})
    assert andrea_engine("train", healthy.path, "--steps", 20, "--override-halt").code == 0
    assert andrea_engine("train", healthy.path, "--steps", 21).code == 0, "the override has answered the halt"
    assert all(b"NaN" not in path.read_bytes() for path in (healthy.loss, healthy.journal, healthy.events))


def test_weights_that_are_not_finite_are_never_saved(healthy: RunDirectory) -> None:
    bell = Bell(lambda: b'"step":11,' in healthy.journal.read_bytes())
    result = andrea_engine("train", healthy.path, bell=bell)
    assert result.code == 3
    assert "could not save step 11: step 11 was not written: it has weights that are not finite" in result.out
    assert records.checkpoints(healthy) == [10]
    (failed,) = records.events(healthy, "save_failed")
    assert failed.step == 11

    configure(healthy, {})
    assert andrea_engine("train", healthy.path, "--steps", 20).code == 0, "resumed from the last good one"
    assert records.steps(healthy) == list(range(1, 21))
    records.strict_json(healthy.loss)
