"""The restart rule on a clock moved by hand, and a real engine that is killed and comes back."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import read_events
from andrea_engine.run.heartbeat import read_heartbeat
from andrea_engine.run.process import is_alive
from andrea_tui import restart
from andrea_tui.app import AndreaApp
from andrea_tui.cli import run
from andrea_tui.control import Control
from andrea_tui.restart import HEALTHY, HOUR, PAUSES, Look, RestartRule, Watchdog
from tests.screens.conftest import Acts, Console, console
from tests.screens.situations import another_console, situation
from tests.support.engines import Engines
from tests.support.tiny import RARELY, make_run

ALIVE = Look(alive=True, word="training", engine=1)
CRASHED = Look(alive=False, word="crashed", engine=1)


def living(limit: int = 3) -> RestartRule:
    rule = RestartRule(limit)
    assert rule.observe(ALIVE, 0.0) == ""
    return rule


def test_a_crash_waits_and_is_restarted_once() -> None:
    rule = living()
    assert rule.observe(CRASHED, 1.0) == "waiting"
    assert rule.due == 11.0
    assert [rule.observe(CRASHED, t) for t in (2.0, 10.9, 11.0)] == ["", "", "restart"]
    assert rule.observe(replace(CRASHED, starting=True), 12.0) == "", "it is on its way up"
    assert rule.observe(replace(ALIVE, engine=2), 15.0) == ""
    assert (rule.due, rule.within_the_hour(15.0)) == (None, 1)


def crash_until_given_up(rule: RestartRule, now: float) -> list[float]:
    """Pauses before each restart, with engines that die at once."""
    pauses, last = [], now
    while True:
        news = rule.observe(CRASHED, now)
        if news == "gave up":
            return pauses
        if news == "waiting":
            last = now
        elif news == "restart":
            pauses.append(now - last)
        now += 1.0


@pytest.mark.parametrize("limit", [1, 3, 5])
def test_pauses_grow_and_the_limit_holds(limit: int) -> None:
    rule = living(limit)
    assert crash_until_given_up(rule, 1.0) == [10.0, 60.0, 300.0, 300.0, 300.0][:limit]
    assert rule.observe(CRASHED, 2 * HOUR) == "", "once given up, a person has to start it"
    rule.observe(replace(ALIVE, engine=9), 2 * HOUR)
    assert rule.observe(replace(CRASHED, engine=9), 2 * HOUR + 1) == "waiting", "and then it counts anew"


def test_after_a_long_life_the_pause_is_short_again() -> None:
    rule = living()
    for t, pause in ((1.0, PAUSES[0]), (100.0, PAUSES[1])):
        assert rule.observe(CRASHED, t) == "waiting"
        assert rule.due == t + pause
        assert rule.observe(CRASHED, t + pause) == "restart"
        rule.observe(replace(ALIVE, engine=t), t + pause + 1)
    rule.observe(replace(ALIVE, engine=100.0), 161.0 + HEALTHY)
    assert rule.observe(CRASHED, 1000.0) == "waiting"
    assert rule.due == 1000.0 + PAUSES[0]


@pytest.mark.parametrize(
    "look",
    [
        *(replace(CRASHED, word=word) for word in ("stopped", "finished", "halted", "pivot", "elsewhere", "missing")),
        *(replace(CRASHED, word=word, exit_code=c) for c in (0, 2, 3, 4, 5, 6, 7) for word in ("crashed", "failed")),
        replace(CRASHED, asked_to_stop=True),
    ],
    ids=str,
)
def test_a_decision_is_never_undone(look: Look) -> None:
    rule = living()
    assert [rule.observe(look, float(t)) for t in range(1, 1000, 7)] == [""] * 143
    assert rule.observe(CRASHED, 2000.0) == "", "nor what became of it later"


@pytest.mark.parametrize("code", [None, 1, -9, -11, 139])
def test_what_counts_as_a_crash(code: int | None) -> None:
    for word in ("crashed", "failed"):
        assert living().observe(replace(CRASHED, word=word, exit_code=code), 1.0) == "waiting"


def test_a_stop_that_was_asked_while_it_lived_counts() -> None:
    rule = living()
    rule.observe(replace(ALIVE, asked_to_stop=True), 1.0)
    assert rule.observe(CRASHED, 2.0) == ""
    rule.observe(replace(ALIVE, engine=2), 3.0)
    assert rule.observe(replace(CRASHED, engine=2), 4.0) == "waiting", "that was another engine"


def test_what_was_dead_before_is_left_alone_and_so_is_one_that_came_back() -> None:
    assert RestartRule(3).observe(CRASHED, 0.0) == ""
    rule = living()
    rule.observe(CRASHED, 1.0)
    rule.observe(replace(ALIVE, engine=2), 5.0)  # the operator was faster
    assert rule.due is None
    rule.observe(CRASHED, 6.0)
    assert rule.observe(replace(CRASHED, word="stopped"), 7.0) == "", "a roll-back, say"
    assert rule.observe(CRASHED, 500.0) == ""


def test_off_does_nothing_until_it_is_switched_on() -> None:
    rule = living(0)
    assert [rule.observe(CRASHED, float(t)) for t in range(1, 100)] == [""] * 99
    rule.switch(2)
    assert rule.observe(CRASHED, 100.0) == "waiting"
    rule.switch(0)
    assert rule.due is None
    assert rule.observe(CRASHED, 500.0) == ""


LOOKS = st.builds(
    Look,
    alive=st.booleans(),
    word=st.sampled_from(["training", "crashed", "failed", "stopped", "halted"]),
    engine=st.integers(1, 3),
    starting=st.booleans(),
    exit_code=st.sampled_from([None, 0, 1, 3, 6, -9]),
    asked_to_stop=st.booleans(),
)


@settings(deadline=None)
@given(st.integers(0, 4), st.lists(st.tuples(LOOKS, st.floats(0, 900)), max_size=60))
def test_never_more_than_the_limit_nor_without_a_pause(limit: int, looks: list[tuple[Look, float]]) -> None:
    rule, now = RestartRule(limit), 0.0
    planned: float | None = None
    restarts: list[float] = []
    for look, later in looks:
        now += later
        news = rule.observe(look, now)
        if news == "waiting":
            planned = now
        elif news == "restart":
            assert not look.alive
            assert look.word in ("crashed", "failed")
            assert look.exit_code in (None, 1, -9)
            assert planned is not None
            assert now - planned >= PAUSES[0]
            planned = None
            restarts.append(now)
    for at in restarts:
        assert sum(at - HOUR < other <= at for other in restarts) <= limit


# -- the watchdog -----------------------------------------------------------------------------------------------------


def test_a_console_that_may_not_act_restarts_nothing(tmp_path: Path, acts: Acts) -> None:
    said: list[str] = []
    with situation("training", tmp_path / "run") as directory:
        control = Control(directory, watch=False)
        dog = Watchdog(control, 1, lambda text, severity: said.append(text))
        dog.look(0.0)
        directory.lock.unlink()
        with another_console(directory):
            for now in (1.0, 11.0, 12.0):
                dog.look(now)
    assert acts.none
    assert any("not restarted: another console" in text for text in said)


def test_a_locked_console_still_keeps_its_standing_order(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        control = Control(directory, watch=False)
        control.locked = True
        dog = Watchdog(control, 1, lambda text, severity: None)
        dog.look(0.0)
        directory.lock.unlink()
        dog.look(1.0)
        assert dog.text == "restart in 10 s"
        dog.look(11.0)
        assert acts.started == [()]
        assert dog.text == ""
        with pytest.raises(RunError, match="locked"):
            control.start()
    assert "console: restarted after a crash: 1 of 1 this hour" in [
        event.text("text") for event in read_events(directory.events)
    ]


def resumed(directory: RunDirectory) -> list[int]:
    """Where each session began."""
    return [event.step or 0 for event in read_events(directory.events) if event.kind == "resumed"]


def beating(directory: RunDirectory) -> int:
    """The pid in the heartbeat, 0 without one."""
    beat = read_heartbeat(directory.heartbeat)
    return beat.pid if beat is not None else 0


async def test_a_killed_engine_comes_back_and_a_stopped_one_does_not(
    tmp_path: Path, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restart, "PAUSES", (0.2, 0.2, 0.2))
    monkeypatch.setattr(restart, "LOOK_SECONDS", 0.05)
    directory = make_run(tmp_path / "run", {**RARELY, "checkpoint": {"every": 20}})
    engine = engines.launch(directory)
    engine.wait_event("save_durable")
    app = AndreaApp(directory, restart=1)
    async with app.run_test(size=(120, 40)) as pilot:
        running = Console(app, pilot)
        assert app.watchdog is not None
        await running.until(lambda: app.watchdog.rule._armed, "it was seen alive")  # type: ignore[union-attr]
        engine.kill()
        await running.until(lambda: app.control.child is not None, "another one is started")
        child = app.control.child
        assert child is not None
        engines.callback(child.kill)
        # What the store knows may be a look old, and then it is the dead engine's.
        await running.until(lambda: beating(directory) == child.pid, "it lives")
        await running.until(lambda: app.store.condition.alive, "and is seen to live")
        assert child.pid != engine.pid
        assert any("restart 1 of 1 this hour" in notice for notice in running.notices)
        await running.until(lambda: len(resumed(directory)) == 2, "it goes on")
        first, second = resumed(directory)
        assert first == 0
        assert second >= 20, "from the last checkpoint"
        os.kill(child.pid, signal.SIGTERM)
        await running.until(lambda: app.store.condition.word == "stopped", "it has saved and ended")
        await running.until(lambda: not app.watchdog.rule._armed, "the watchdog has seen that")  # type: ignore[union-attr]
        assert app.control.child is None or app.control.child.poll() is not None
        running.assert_sound()
    assert not is_alive(child.pid)
    texts = [event.text("text") for event in read_events(directory.events) if event.kind == "notice"]
    assert "console: restarted after a crash: 1 of 1 this hour" in texts


async def test_the_palette_switches_it_on_and_off(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            dog = running.app.watchdog
            assert dog is not None
            assert dog.rule.limit == 0
            for limit, word in ((3, "on: after a crash"), (0, "off: a crashed")):
                running.dashboard._last_command.clear()
                running.dashboard.action_command("restart_policy")
                await running.settle()
                assert dog.rule.limit == limit
                assert word in running.notices[-1]
    assert acts.none


@pytest.mark.parametrize("text", ["0", "-1", "61", "many", "1.5", "9" * 5000, "³"])
def test_the_flag_takes_a_sensible_number(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([str(tmp_path / "run"), f"--restart={text}"]) == 2
    assert "give a number of restarts an hour from 1 to 60" in capsys.readouterr().err
