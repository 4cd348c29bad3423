"""`--replay`: the same screens, a recorded run, and nothing written into it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ExitCode
from andrea_tui.app import AndreaApp
from andrea_tui.commands import COMMANDS
from andrea_tui.control import REPLAY
from andrea_tui.screens.dashboard import DashboardScreen
from tests.conftest import TrainedRun
from tests.e2e.conftest import OpenTerminal
from tests.e2e.terminal import console
from tests.feed.writer import entry
from tests.screens.conftest import Acts, Console
from tests.screens.conftest import acts as acts  # noqa: PLC0414  (a fixture)

HEARD = 300.0  # seconds of a step: at this speed none ends while a test looks


def digests(directory: RunDirectory) -> dict[str, str]:
    files = [path for path in directory.path.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory.path)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_run_is_played_and_left_as_it_was(trained: TrainedRun, open_terminal: OpenTerminal) -> None:
    assert trained.code == 0, trained.output
    before = digests(trained.directory)
    terminal = open_terminal(trained.directory.path, "--replay", "1000")
    terminal.until_shown("replay x1000, ended", "step 40 of", "the replay has ended, space plays it again")
    terminal.press("cqropflkt")
    terminal.until_shown("t: not now, this is a replay")
    terminal.press("d")
    assert terminal.wait() == 0
    terminal.assert_sane()
    assert digests(trained.directory) == before


@pytest.fixture
def slow_run(tmp_path: Path) -> RunDirectory:
    """A run that has one step of five minutes behind its first ones."""
    directory = RunDirectory(tmp_path / "run")
    directory.path.mkdir()
    entries = [entry(step, seconds=0.0 if step < 4 else HEARD) for step in (1, 2, 3, 4)]
    directory.loss.write_bytes(b"[\n" + b",\n".join(e.to_line() for e in entries) + b"\n]\n")
    return directory


async def test_no_command_acts_in_a_replay(slow_run: RunDirectory, acts: Acts) -> None:
    before = digests(slow_run)
    app = AndreaApp(slow_run, replay=1.0)
    async with app.run_test(size=(120, 40)) as pilot:
        running = Console(app, pilot)
        await running.until(lambda: app.store.complete and app.store.step == 3, "it plays")
        assert "replay x1" in running.lines[0]
        assert "watching" not in running.lines[0]
        assert "space pause" in running.lines[-1]
        control = [c.id for c in COMMANDS if c.group == "Control" and c.id != "detach"]
        for name in [*control, "ask", "runs"]:
            app.clear_notifications()
            running.dashboard.action_command(name)
            await running.settle()
            assert running.open == "DashboardScreen", name
            assert [REPLAY in notice for notice in running.notices] == [True], name
        store, dashboard = app.store, running.dashboard
        await running.press("space")
        await running.until(lambda: "replay x1, paused" in running.lines[0], "it stands still")
        assert "space go on" in running.lines[-1]
        await running.press("space")
        await running.until(lambda: "paused" not in running.lines[0], "it goes on")
        assert "space pause" in running.lines[-1]
        assert (app.store, running.dashboard) == (store, dashboard)
        await running.press("d")
    assert app.return_value is not None
    assert app.return_value.reason == "detached"
    assert acts.none
    assert digests(slow_run) == before


async def test_at_the_end_space_begins_again(slow_run: RunDirectory) -> None:
    app = AndreaApp(slow_run, replay=1e6)
    async with app.run_test(size=(120, 40)) as pilot:
        running = Console(app, pilot)
        await running.until(lambda: "ended" in app.store.condition.word, "it has ended")
        await running.until(lambda: "space play again" in running.lines[-1], "the key says what it does now")
        store = app.store
        await running.press("space")
        await running.until(
            lambda: app.store is not store and "ended" in app.store.condition.word, "it was played again"
        )
        assert len(app.store.loss) == 4
        assert [type(screen) for screen in app.screen_stack].count(DashboardScreen) == 1


async def test_elsewhere_the_key_says_how_to_replay(slow_run: RunDirectory) -> None:
    app = AndreaApp(slow_run, watch=True)
    async with app.run_test(size=(120, 40)) as pilot:
        running = Console(app, pilot)
        await running.until(lambda: app.store.complete, "it is read")
        await running.press("space")
        assert "this is no replay; --replay 60 makes one" in running.notices[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--replay", "60", "--start"], "--replay only plays a recorded run"),
        (["--replay", "60", "--once"], "--replay only plays a recorded run"),
        (["--replay", "0"], "give a speed above 0"),
        (["--replay", "nan"], "give a speed above 0"),
        (["--replay", "fast"], "such as 60, not fast"),
    ],
)
def test_what_makes_no_replay_is_said(arguments: list[str], words: str, slow_run: RunDirectory) -> None:
    done = console(slow_run.path, *arguments)
    assert done.returncode == ExitCode.USAGE
    assert words in done.stderr


def test_there_has_to_be_a_run(tmp_path: Path) -> None:
    done = console(tmp_path / "none", "--replay", "60")
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert done.stderr == f"andrea-tui: there is no run in {tmp_path / 'none'} to replay; name a run directory\n"
    assert not (tmp_path / "none").exists()
