"""The lock on the event log: whoever changes pins, pivots or the log itself holds it, and the others say so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from andrea_engine.run import events, pins, pivot, pivot_sequence, repair_stages
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import read_events
from andrea_engine.run.intent import guard
from andrea_engine.run.pins import pin, unpin
from andrea_engine.run.pivot import ask, cancel
from andrea_engine.run.pivot_sequence import finish
from andrea_engine.run.policy import parse_policy
from andrea_engine.run.repair import repair
from tests.run import pivot_support as support

POLICY = parse_policy(support.NEW_POLICY, "new.toml")
Act = Callable[[RunDirectory], object]


@pytest.fixture
def stopped(tmp_path: Path) -> RunDirectory:
    return support.build(tmp_path / "run")


def torn(directory: RunDirectory) -> None:
    directory.events.write_bytes(directory.events.read_bytes() + b'{"time":1,"ki')


CHANGES: dict[str, tuple[object, Act, Act]] = {
    "take a pin back": (pins, lambda run: None, lambda run: unpin(run, 40, by="a test")),
    "ask for a pivot": (pivot, lambda run: None, lambda run: ask(run, POLICY, "now", by="a test")),
    "take a pivot back": (
        pivot,
        lambda run: support.pending(run, 50, phase="asked", reached=None),
        lambda run: cancel(run, by="a test"),
    ),
    "seal a pivot": (pivot_sequence, support.pending, lambda run: finish(run, by="a test")),
    "cut the log": (repair_stages, torn, lambda run: repair(run, apply=True, announce=lambda one: None)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_nobody_changes_what_somebody_else_is_changing(
    stopped: RunDirectory, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    module, prepare, act = CHANGES[change]
    prepare(stopped)
    monkeypatch.setattr(module, "guard", partial(guard, patience=0.0))

    def facts() -> list[bytes | None]:
        return [path.read_bytes() if path.exists() else None for path in (stopped.events, stopped.pivot_intent)]

    before = facts()
    with guard(stopped), pytest.raises(RunError, match="another process is changing the "):
        act(stopped)
    assert facts() == before
    act(stopped)
    assert facts() != before


def test_a_pin_that_could_not_be_written_is_not_called_one(
    stopped: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, line: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(events, "append_line", fail)
    with pytest.raises(RunError, match="the event log cannot be written: No space left"):
        pin(stopped, 40, by="a test")
    assert not [event for event in read_events(stopped.events) if event.kind == "pin"]
