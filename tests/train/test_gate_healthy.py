"""The gate never cries wolf: a healthy young run has no low sample and raises no alarm."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from andrea_engine.run.config import create_run
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.samples import read_samples
from tests.support import records
from tests.support.inprocess import andrea_engine

LOWEST = 60.0  # half way between the threshold and what healthy samples score
OFTEN = {"sample": {"every": 25}}  # enough samples within 500 steps for every alarm


def _train(path: Path, overrides: Mapping[str, object], steps: int) -> None:
    directory = RunDirectory(path)
    config = create_run(directory, "demo", {**overrides, "device": {"name": "cpu", "threads": 1}}, None)
    result = andrea_engine("train", path, "--steps", steps)
    assert result.code == 0, result.out + result.err
    totals = {s.step: s.scores.total for s in read_samples(directory.samples) if s.scores}
    assert list(totals) == list(range(config.sample.every, steps + 1, config.sample.every))
    assert len(totals) >= config.gate.window, "every alarm could have been raised"
    assert {step: total for step, total in totals.items() if total < LOWEST} == {}
    assert records.events(directory, "gate") == []
    last = records.entries(directory)[-1]
    assert last.ema is not None
    assert last.ema < 4.5, "it did learn"


@pytest.mark.timeout(900)
def test_five_hundred_steps_of_the_demo(tmp_path: Path) -> None:
    _train(tmp_path / "run", OFTEN, 500)


@pytest.mark.soak
def test_two_thousand_steps_of_the_demo(tmp_path: Path) -> None:
    _train(tmp_path / "run", {}, 2000)
