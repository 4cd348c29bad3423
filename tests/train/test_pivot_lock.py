"""The engine's side of a pivot and the lock on the event log: it changes no intent that somebody else is changing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from andrea_engine.latch import SignalLatch
from andrea_engine.run.config import load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog
from andrea_engine.run.intent import guard, read_intent
from andrea_engine.train import pivoting
from andrea_engine.train.engine import EngineContext, TrainOptions
from andrea_engine.train.pivoting import PivotWatch
from tests.run import pivot_support as support
from tests.support import records


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    monkeypatch.setattr(pivoting, "PATIENCE", 0.0)
    return support.build(tmp_path / "run")


def watch(directory: RunDirectory) -> PivotWatch:
    reporter: Any = SimpleNamespace(set=lambda **facts: None)
    events = EventLog(directory.events, 1)
    context = EngineContext(directory, load_config(directory), TrainOptions(), SignalLatch(), events, [], reporter)
    return PivotWatch(context, target=1000)


def test_the_engine_leaves_for_no_intent_that_is_being_changed(stopped: RunDirectory) -> None:
    asked = support.pending(stopped, 40, phase="asked", reached=None)
    watching = watch(stopped)
    assert watching.look(30)
    assert watching.due(40)
    with guard(stopped):
        assert not watching.confirm(40)
        assert read_intent(stopped) == asked
    assert "the pivot moves from step 40 to step 50" in records.notices(stopped)
    assert watching.look(49) is False
    assert watching.confirm(50)
    reached = read_intent(stopped)
    assert reached is not None
    assert (reached.phase, reached.step) == ("reached", 50)


def test_a_step_that_passed_unseen_moves_when_nobody_changes_the_intent(stopped: RunDirectory) -> None:
    asked = support.pending(stopped, 40, phase="asked", reached=None)
    watching = watch(stopped)
    with guard(stopped):
        assert watching.look(45)
        assert not watching.due(49)
        assert read_intent(stopped) == asked
    watching.look(49)
    moved = read_intent(stopped)
    assert moved is not None
    assert moved.step == 50
