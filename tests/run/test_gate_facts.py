"""The gate's counters as events tell them, on the branch that the run stands on."""

from __future__ import annotations

from andrea_engine.run.events import Event
from andrea_engine.run.gate_facts import GateFacts, counted_after, gate_facts, nonfinite_halt


def event(kind: str, step: int | None, **facts: object) -> Event:
    return Event(0.0, kind, 1, {"step": step, **facts})


def sample(step: int, low: int = 0) -> Event:
    return event("sample", step, consecutive_low=low)


def low_in_row(*events: Event) -> int | None:
    facts = gate_facts(events)
    return None if facts is None else facts.low_in_row


def test_the_newest_sample_tells_all() -> None:
    newest = event(
        "sample",
        300,
        consecutive_low=2,
        window_low=14,
        window_filled=20,
        last_good_step=100,
        first_bad_step=200,
        alarms=["window", "axis"],
    )
    assert gate_facts([sample(200), newest, event("save_durable", 300)]) == GateFacts(
        low_in_row=2,
        window_low=14,
        window_filled=20,
        last_good_step=100,
        first_bad_step=200,
        alarms=["window", "axis"],
    )


def test_what_is_unknown_or_damaged() -> None:
    assert gate_facts([]) is None
    assert gate_facts([event("sample", None), event("rollback", 5)]) is None
    assert gate_facts([event("sample", 5, consecutive_low="x", alarms=7)]) == GateFacts()


def test_an_override_and_a_pivot_begin_anew() -> None:
    for kind in ("override", "pivot"):
        assert low_in_row(sample(100, 5), event(kind, 100)) == 0
        assert low_in_row(sample(100, 5), event(kind, 100), sample(200, 1)) == 1


def test_a_rollback_takes_back_what_came_after_its_step() -> None:
    streak = [sample(100), sample(200, 1), sample(300, 2)]
    assert low_in_row(*streak, event("rollback", 200)) == 1
    assert low_in_row(*streak, event("rollback", 200), sample(300)) == 0
    assert low_in_row(*streak, event("override", 300), event("rollback", 300)) == 0
    assert low_in_row(*streak, event("override", 300), event("rollback", 200)) == 1
    assert low_in_row(*streak, event("rollback", 50)) is None


def test_which_samples_the_operator_left_behind() -> None:
    assert counted_after([sample(100)]) == -1
    assert counted_after([event("override", 100), event("override", 300)]) == 300
    assert counted_after([event("override", 100), event("override", 300), event("rollback", 200)]) == 100
    assert counted_after([event("override", 100), event("rollback", 100)]) == 100
    assert counted_after([event("override", 100), event("rollback", 50), event("override", 70)]) == 70
    assert counted_after([event("override", None)]) == -1


def test_a_halt_for_steps_that_are_not_finite_stands_until_somebody_answers_it() -> None:
    halt = event("halt", 14, cause="nonfinite", reason="3 steps in a row")
    assert nonfinite_halt([sample(10), halt, event("start", None), event("stop", 14)]) == halt
    assert nonfinite_halt([sample(10)]) is None
    assert nonfinite_halt([event("halt", 14, cause="gate")]) is None, "the gate counts the samples itself"
    for answer in ("override", "rollback", "pivot"):
        assert nonfinite_halt([halt, event(answer, 10)]) is None
        assert nonfinite_halt([event(answer, 10), halt]) == halt
