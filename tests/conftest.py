"""Fixtures that several packages share: engines as processes, and a run that has been trained for a while."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from andrea_engine.run.directory import RunDirectory
from tests.support.engines import Engines
from tests.support.tiny import make_run

TRAINED_STEPS = 40


@dataclass(frozen=True)
class TrainedRun:
    """A tiny run after `andrea-engine train RUN --steps 40`: look at it, copy it, never change it."""

    directory: RunDirectory
    steps: int
    code: int
    output: str


@pytest.fixture(autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes what the console remembers for the user who runs it."""
    home = tmp_path_factory.mktemp("state-home")
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home


@pytest.fixture
def engines() -> Iterator[Engines]:
    with Engines() as factory:
        yield factory


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    directory = make_run(tmp_path_factory.mktemp("trained") / "run")
    with Engines() as factory:
        engine = factory.train(directory, "--steps", str(TRAINED_STEPS))
        return TrainedRun(directory, TRAINED_STEPS, engine.process.returncode, engine.output)


@pytest.fixture
def run_copy(trained: TrainedRun, tmp_path: Path) -> RunDirectory:
    """The trained run, to damage or to go on with."""
    assert trained.code == 0, trained.output
    shutil.copytree(trained.directory.path, tmp_path / "run")
    return RunDirectory(tmp_path / "run")
