"""The trail of a request: nothing is called saved before it is durable, and every end is told."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.run.events import Event
from andrea_engine.run.heartbeat import Heartbeat, Saving
from andrea_tui.feed.saves import STOP, SaveFollower, saved_text


def event(kind: str, step: int = 112_700, **facts: object) -> Event:
    return Event(time.time(), kind, 1, {"step": step, **facts})


def beat(step: int, *, at: float | None = None, saving: Saving | None = None) -> Heartbeat:
    return Heartbeat(
        pid=1,
        process_start=1,
        boot_id="",
        host="",
        session=1,
        phase="training",
        phase_since=0.0,
        time=time.time() if at is None else at,
        step=step,
        saving=saving,
    )


def durable(**facts: object) -> Event:
    known: dict[str, object] = {"step": 112_700, "bytes": 1_184_385_032, "seconds": 1.4, "reason": "operator"}
    return Event(time.time(), "save_durable", 1, known | facts)


def test_the_whole_trail_of_a_request() -> None:
    saves = SaveFollower()
    assert (saves.pending, saves.text) == (False, "")
    saves.ask(112_699)
    trail = [(saves.pending, saves.text)]
    for step in (
        event("save_asked", by="SIGUSR1"),
        event("save_seen"),
        event("save_writing"),
    ):
        saves.take(step)
        saves.look(beat(112_700), alive=True)
        trail.append((saves.pending, saves.text))
    saves.look(beat(112_700, saving=Saving(step=112_700, done=592_192_516, total=1_184_385_032)), alive=True)
    trail.append((saves.pending, saves.text))
    saves.take(durable())
    trail.append((saves.pending, saves.text))
    assert trail == [
        (True, "checkpoint asked, waiting for the end of the step"),
        (True, "checkpoint asked, waiting for the end of the step"),
        (True, "checkpoint request seen at step 112,700"),
        (True, "writing step 112,700"),
        (True, "writing step 112,700: 50 % of 1.18 GB"),  # one look gives no rate
        (False, "saved step 112,700 (1.18 GB, 1.4 s)"),
    ]
    assert saves.durable_step == 112_700
    assert not saves.failed


def test_a_late_heartbeat_does_not_take_back_what_is_saved() -> None:
    saves = SaveFollower()
    saves.take(event("save_writing"))
    saves.take(durable(reason="cadence"))
    saves.look(beat(112_700, saving=Saving(step=112_700, done=1, total=2)), alive=True)
    assert saves.text == "saved step 112,700 (1.18 GB, 1.4 s)"


def test_a_failed_save_says_why_and_ends_the_waiting() -> None:
    saves = SaveFollower()
    saves.ask(5)
    saves.take(event("save_failed", 6, error="disk full: need 1.18 GB, have 0.2 GB"))
    assert (saves.pending, saves.failed) == (False, True)
    assert saves.text == "NOT saved: disk full: need 1.18 GB, have 0.2 GB"
    saves.ask(7)
    assert not saves.failed
    saves.take(durable(step=8))
    assert (saves.pending, saves.failed, saves.durable_step) == (False, False, 8)


def test_an_engine_that_dies_before_it_answers() -> None:
    saves = SaveFollower()
    saves.ask(5)
    saves.take(event("save_seen", 5))
    saves.look(beat(5), alive=False)
    assert (saves.pending, saves.failed) == (False, True)
    assert saves.text == "the engine ended before it answered the request"
    assert saves.durable_step is None


def test_a_save_of_the_cadence_or_of_the_past_is_no_answer() -> None:
    saves = SaveFollower()
    saves.ask(99)
    saves.take(durable(step=100, reason="cadence"))
    saves.take(Event(time.time() - 60, "save_durable", 1, {"step": 90, "reason": "operator"}))
    assert saves.pending
    saves.take(durable(step=101))
    assert not saves.pending


def test_patience_is_two_steps_and_two_seconds() -> None:
    saves = SaveFollower()
    saves.ask(10)
    asked = time.time()
    waiting = saves.text
    saves.look(beat(11, at=asked + 600), alive=True)
    assert saves.text == waiting, "a long step is no sign of a deaf engine"
    saves.look(beat(500, at=asked + 0.5), alive=True)
    assert saves.text == waiting, "neither are many short ones"
    saves.look(beat(12, at=asked + 20), alive=True)
    assert "has not seen it" in saves.text
    assert saves.pending
    saves.take(event("save_seen", 12))
    saves.look(beat(900, at=asked + 90), alive=True)
    assert saves.text == "checkpoint request seen at step 12"


@dataclass
class Clock:
    """Both clocks of a follower, moved by hand."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now

    def follower(self) -> SaveFollower:
        return SaveFollower(clock=self, timer=self)

    def beat(self, step: int, *, silent: float = 0.0, **facts: object) -> Heartbeat:
        known: dict[str, object] = {"phase": "training", "phase_since": 900.0, "time": self.now - silent, "step": step}
        identity: dict[str, object] = {"pid": 1, "process_start": 1, "boot_id": "", "host": "", "session": 1}
        return Heartbeat(**(identity | known | facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "what_it_does"),
    [
        ({"step_time": 1010.0, "step_seconds": 3.0}, "the engine is in a long step (80 s so far, usually 3.0 s)"),
        ({"step_time": None}, "the engine is in a long step (190 s so far)"),
        ({"phase": "compiling", "phase_since": 1030.0}, "the engine is compiling (60 s so far)"),
        ({"phase": "sampling", "phase_since": 1080.0}, "the engine is making a sample (10 s so far)"),
        ({"phase": "odd", "phase_since": 1080.0}, "the engine is in phase odd (10 s so far)"),
        ({"silent": 40.0}, "the engine has not reported for 40 s"),
    ],
)
def test_what_is_not_seen_for_long_says_what_the_engine_does(facts: dict[str, object], what_it_does: str) -> None:
    clock = Clock()
    saves = clock.follower()
    saves.ask(10)
    clock.now += 90
    saves.look(clock.beat(10, **facts), alive=True)  # type: ignore[arg-type]
    assert saves.text == f"checkpoint asked 90 s ago and not seen yet; {what_it_does}"
    assert (saves.pending, saves.overdue, saves.failed) == (True, True, False)


def test_patience_knows_how_long_a_step_takes() -> None:
    clock = Clock()
    saves = clock.follower()
    saves.ask(10)
    clock.now += 50
    saves.look(clock.beat(10, step_time=1000.0, step_seconds=30.0), alive=True)
    assert (saves.text, saves.overdue) == ("checkpoint asked, waiting for the end of the step", False)
    clock.now += 10  # two steps of thirty seconds
    saves.look(clock.beat(10, step_time=1000.0, step_seconds=30.0), alive=True)
    assert saves.text.startswith("checkpoint asked 60 s ago and not seen yet")


def test_seen_and_then_nothing() -> None:
    clock = Clock()
    saves = clock.follower()
    saves.ask(10, STOP)
    saves.take(event("save_seen", 10))
    clock.now += 12
    saves.look(clock.beat(10, step_time=1000.0), alive=True)
    assert saves.text == (
        "checkpoint request seen at step 10, 12 s ago; the write has not begun, "
        "the engine is in a long step (12 s so far)"
    )
    assert saves.stopping


def write(saves: SaveFollower, clock: Clock, *looks: tuple[float, int]) -> list[str]:
    """Texts at looks of (seconds later, bytes written) of a write of 1,000 MB."""
    saves.take(event("save_writing", 20))
    texts = []
    for seconds, done in looks:
        clock.now += seconds
        saves.look(clock.beat(20, saving=Saving(step=20, done=done, total=1_000_000_000)), alive=True)
        texts.append(saves.text)
    return texts


def test_a_write_tells_bytes_and_rate() -> None:
    clock = Clock()
    saves = clock.follower()
    assert write(saves, clock, (1, 100_000_000), (1, 300_000_000), (1, 400_000_000), (0.1, 400_000_000)) == [
        "writing step 20: 10 % of 1.00 GB",
        "writing step 20: 30 % of 1.00 GB, 200 MB/s",
        "writing step 20: 40 % of 1.00 GB, 150 MB/s",
        "writing step 20: 40 % of 1.00 GB, 150 MB/s",
    ]
    assert not saves.overdue
    saves.take(durable(step=20, bytes=1_000_000_000))
    assert write(saves, clock, (9, 500_000_000)) == ["writing step 20: 50 % of 1.00 GB"], "each write has its own rate"


def test_a_write_that_stands_still_says_so_until_it_moves() -> None:
    clock = Clock()
    saves = clock.follower()
    texts = write(saves, clock, (1, 100_000_000), (25, 100_000_000), (1, 200_000_000))
    assert texts[1] == "writing step 20: 10 % of 1.00 GB, and no byte for 25 s"
    assert texts[2].startswith("writing step 20: 20 % of 1.00 GB, ")
    assert not saves.overdue


def test_written_is_not_yet_durable() -> None:
    clock = Clock()
    saves = clock.follower()
    texts = write(saves, clock, (1, 1_000_000_000), (30, 1_000_000_000))
    assert texts == [
        "writing step 20: all 1.00 GB are written, the disk has to confirm them",
        "writing step 20: all 1.00 GB are written, the disk has to confirm them (30 s so far)",
    ]
    assert saves.durable_step is None


def test_a_write_that_is_never_reported() -> None:
    clock = Clock()
    saves = clock.follower()
    saves.take(event("save_writing", 20))
    clock.now += 15
    saves.look(clock.beat(20, saving=Saving(step=10, done=1, total=2)), alive=True)
    assert saves.text == "writing step 20 for 15 s, and the engine does not say how far it is"


def test_a_new_process_has_not_begun_to_write() -> None:
    saves = SaveFollower()
    saves.take(durable(step=100))
    saves.take(event("save_writing", 200))
    saves.take(event("start", 0))
    assert saves.writing_step is None
    assert saves.text == "saved step 100 (1.18 GB, 1.4 s)"


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, "saved step 112,700 (–)"),
        ({"bytes": 384}, "saved step 112,700 (384 B)"),
        ({"bytes": "many", "seconds": None}, "saved step 112,700 (–)"),
        ({"bytes": 12_200_000, "seconds": 0.04}, "saved step 112,700 (12.2 MB, 0.0 s)"),
    ],
)
def test_words_for_what_is_known(facts: dict[str, object], text: str) -> None:
    assert saved_text(Event(1.0, "save_durable", 1, {"step": 112_700} | facts)) == text


KINDS = st.sampled_from(["save_asked", "save_seen", "save_writing", "save_durable", "save_failed", "start", "notice"])


@settings(deadline=None)
@given(st.lists(st.one_of(KINDS, st.sampled_from(["ask", "beat", "saving", "dead"])), max_size=30))
def test_saved_is_said_only_after_something_was_durable(schedule: list[str]) -> None:
    saves = SaveFollower()
    durable_steps = set()
    for step, what in enumerate(schedule, 1):
        if what == "ask":
            saves.ask(step)
        elif what in ("beat", "saving", "dead"):
            saving = Saving(step=step - 1, done=1, total=2) if what == "saving" else None
            saves.look(beat(step, saving=saving), alive=what != "dead")
        else:
            saves.take(event(what, step, reason="operator", error="no room"))
            if what == "save_durable":
                durable_steps.add(step)
        if saves.text.startswith("saved"):
            assert saves.durable_step in durable_steps
            assert f"saved step {saves.durable_step} " in saves.text
        assert not (saves.failed and saves.pending)
