"""A pivot that is interrupted anywhere, and again anywhere in its recovery, is in the end done or not begun."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.intent import read_intent
from andrea_engine.run.pivot import ask
from andrea_engine.run.pivot_sequence import finish, finish_locked
from andrea_engine.run.policy import parse_policy
from tests.run import pivot_support as support
from tests.run.faults import EVERY, VISIBLE, Death, Faults, die, fail

KILLER = Path(__file__).with_name("pivot_killer.py")


@pytest.fixture
def place() -> Iterator[Path]:
    """Thousands of fsyncs: in memory, where there is such a place."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


@pytest.fixture
def reached(place: Path) -> RunDirectory:
    """A run whose engine has left for a pivot that nobody has begun to carry out."""
    directory = support.build(place / "reached")
    support.pending(directory)
    return directory


def carry_out(directory: RunDirectory) -> None:
    """Without the engine's lock: a process that only plays dead would keep it."""
    finish_locked(directory, by="a test")


def ask_and_carry_out(directory: RunDirectory) -> None:
    ask(directory, parse_policy(support.NEW_POLICY, ""), "boundary", by="a test")
    carry_out(directory)


def interrupt(
    act: Callable[[RunDirectory], None],
    directory: RunDirectory,
    stop_at: int,
    how: Callable[[], None] = die,
    names: tuple[str, ...] = EVERY,
) -> bool:
    """Do `act` up to its operation `stop_at`; False when it has fewer."""
    faults = Faults(stop_at, how, names)
    try:
        with faults:
            act(directory)
    except (Death, RunError):
        assert faults.count >= stop_at
    return faults.count >= stop_at


def copy(template: RunDirectory, path: Path) -> RunDirectory:
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(template.path, path)
    return RunDirectory(path)


@pytest.mark.parametrize("how", [die, fail])
def test_stopped_once_anywhere(reached: RunDirectory, place: Path, how: Callable[[], None]) -> None:
    before = support.contents(reached)
    stop_at = 0
    more = True
    while more:
        stop_at += 1
        directory = copy(reached, place / "run")
        more = interrupt(carry_out, directory, stop_at, how)
        support.safe(directory, before)
        carry_out(directory)
        support.carried_out(directory, before)
        assert support.pivot_events(directory) <= 1
        assert how is fail or support.pivot_events(directory) == 1, stop_at
    assert stop_at > 50, "every file is created, written, synced and renamed"


def test_stopped_anywhere_between_asking_and_the_end(place: Path) -> None:
    """Asking leaves no trace or an intent; with the intent the pivot is done in the end."""
    template = support.build(place / "template")
    before = support.contents(template)
    not_begun = done = 0
    stop_at = 0
    more = True
    while more:
        stop_at += 1
        directory = copy(template, place / "run")
        more = interrupt(ask_and_carry_out, directory, stop_at)
        if read_intent(directory) is None and not directory.archives():
            support.untouched(directory, before)
            not_begun += 1
            continue
        support.safe(directory, before)
        carry_out(directory)
        support.carried_out(directory, before)
        done += 1
    assert not_begun > 3
    assert done > 50


def test_stopped_anywhere_and_again_anywhere_in_the_recovery(reached: RunDirectory, place: Path) -> None:
    before = support.contents(reached)
    pairs = 0
    first = 0
    more = True
    while more:
        first += 1
        once = copy(reached, place / "once")
        more = interrupt(carry_out, once, first, names=VISIBLE)
        second = 0
        again = more
        while again:
            second += 1
            directory = copy(once, place / "twice")
            again = interrupt(carry_out, directory, second, names=VISIBLE)
            support.safe(directory, before)
            with Faults(names=VISIBLE):
                carry_out(directory)
            support.carried_out(directory, before)
            assert support.pivot_events(directory) == 1
            pairs += 1
    assert pairs > 400


def test_killed_once_anywhere(reached: RunDirectory, place: Path) -> None:
    assert _kill(reached, place) > 50


@pytest.mark.soak
def test_killed_anywhere_and_again_anywhere_in_the_recovery(reached: RunDirectory, place: Path) -> None:
    assert _kill(reached, place, "pairs") > 400


def _kill(template: RunDirectory, place: Path, *words: str) -> int:
    victims = place / "killed"
    victims.mkdir()
    before = support.contents(template)
    command = [sys.executable, str(KILLER), str(template.path), str(victims), *words]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    runs = [RunDirectory(path) for path in victims.iterdir()]
    for directory in runs:
        support.safe(directory, before)
        finish(directory, by="a test")
        support.carried_out(directory, before)
        assert support.pivot_events(directory) == 1
    return len(runs)
