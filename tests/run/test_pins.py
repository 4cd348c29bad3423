"""Pins by hand: events that a trained engine honours, never a promise about a file that is gone."""

from __future__ import annotations

import struct
import threading
from pathlib import Path

import pytest

from andrea_engine.run.checkpoint import checkpoint_name, list_checkpoints
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import NoCheckpointError, RunError
from andrea_engine.run.events import EventLog, pinned_steps, read_events
from andrea_engine.run.intent import guard
from andrea_engine.run.pins import PinFollower, PinNote, pin, pin_of, unpin
from tests.support.engines import Engines
from tests.support.tiny import make_run


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """Two valid checkpoints and a broken one, in the third session."""
    directory = RunDirectory(tmp_path)
    for step in (100, 200):
        (tmp_path / checkpoint_name(step)).write_bytes(struct.pack("<ii3f", step, 1, 0.5, 0.0, 0.0))
    (tmp_path / checkpoint_name(300)).write_bytes(b"torn")
    EventLog(directory.events, 3).append("start", pid=1)
    return directory


def test_a_pin_is_an_event_with_who_and_why(run: RunDirectory) -> None:
    pin(run, 100, by="eve@host (test)", reason="before the exam")
    event = read_events(run.events)[-1]
    assert (event.kind, event.step, event.session) == ("pin", 100, 3)
    assert pin_of(event) == PinNote("before the exam", "eve@host (test)", event.time)
    assert pinned_steps(read_events(run.events)) == {100}
    unpin(run, 100, by="eve@host (test)")
    assert pinned_steps(read_events(run.events)) == set()


@pytest.mark.parametrize(("step", "why"), [(300, "only 4 bytes long"), (400, "is not there any more")])
def test_only_what_is_there_and_valid_is_pinned(run: RunDirectory, step: int, why: str) -> None:
    before = run.events.read_bytes()
    with pytest.raises(NoCheckpointError, match=why):
        pin(run, step, by="eve")
    assert run.events.read_bytes() == before


def test_a_busy_log_is_an_answer_and_no_pin(run: RunDirectory) -> None:
    before = run.events.read_bytes()
    with guard(run), pytest.raises(RunError, match="another process is changing the pins"):
        pin(run, 100, by="eve", patience=0.0)
    assert run.events.read_bytes() == before


def test_a_log_that_is_a_link_is_not_written_through(run: RunDirectory, tmp_path: Path) -> None:
    decoy = tmp_path / "decoy"
    decoy.write_text("")
    run.events.unlink()
    run.events.symlink_to(decoy)
    with pytest.raises(RunError, match="cannot be opened"):
        pin(run, 100, by="eve")
    assert decoy.read_text() == ""


def test_the_follower_adds_and_takes_out_in_the_order_of_the_log(run: RunDirectory) -> None:
    follower, pinned = PinFollower(run), {7}
    follower.read(pinned)
    assert pinned == {7}, "what only memory knows stays"
    log = EventLog(run.events, 3)
    log.append("save_durable", step=100, reason="operator", pinned=True)
    log.append("save_durable", step=200, reason="cadence", pinned=False)
    follower.read(pinned)
    assert pinned == {7, 100}
    unpin(run, 100, by="eve")
    pin(run, 200, by="eve")
    follower.read(pinned)
    follower.read(pinned)
    assert pinned == {7, 200}
    assert PinFollower(run).read(again := set()) is None
    assert again == pinned_steps(read_events(run.events)) == {200}


def test_pins_of_many_at_once_are_all_there(run: RunDirectory) -> None:
    threads = [threading.Thread(target=pin, args=(run, 100 + 100 * (i % 2)), kwargs={"by": f"{i}"}) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(e.text("by") for e in read_events(run.events) if e.kind == "pin") == [str(i) for i in range(8)]


# -- a running engine -------------------------------------------------------------------------------------------------


def there(directory: RunDirectory) -> list[int]:
    return [file.step for file in list_checkpoints(directory.path) if file.valid]


def test_a_running_engine_leaves_a_pinned_checkpoint_alone_until_it_is_unpinned(
    tmp_path: Path, engines: Engines
) -> None:
    table = {"every": 10, "keep": "rule", "keep_last": 2, "keep_every": 1_000_000}
    directory = make_run(tmp_path / "run", {"checkpoint": table, "sample": {"every": 1_000_000}})
    engine = engines.start(directory)

    def one_pinned() -> int | None:
        for step in there(directory):
            try:
                pin(directory, step, by="eve")
            except RunError:  # removed, or the engine is at it this very moment
                continue
            return step
        return None

    step = engine.wait_for(one_pinned, "a pin")
    engine.wait_step(step + 200)
    assert step in there(directory)
    assert len(there(directory)) <= 4, "the others went as ever"
    with guard(directory):  # somebody pins, or holds the log for whatever reason: the engine does not wait for that
        begun = max(there(directory))
        engine.wait_for(lambda: max(there(directory)) >= begun + 100, "training and saving to go on")
        assert {begun, begun + 10, begun + 20} <= set(there(directory)), "nothing is removed meanwhile"
    unpin(directory, step, by="eve")
    engine.wait_for(lambda: len(there(directory)) <= 3 and step not in there(directory), "the keep rule to catch up")
