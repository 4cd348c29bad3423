"""The lock, the kill and the second q: what protects a run from a hand, and what only a word can do."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from signal import SIGHUP

import pytest
from textual.css.query import NoMatches
from textual.worker import WorkerFailed

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import EventLog, read_events
from andrea_engine.run.heartbeat import read_heartbeat, write_heartbeat
from andrea_engine.run.process import is_alive
from andrea_tui.commands import COMMANDS, key_table
from andrea_tui.control import LOCKED, Control
from tests.screens.conftest import Acts, Console, console
from tests.screens.situations import another_console, beat, situation
from tests.support.engines import Engines
from tests.support.tiny import RARELY, make_run

# -- lock -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["training", "stopped", "halted"])
async def test_a_locked_console_does_nothing_until_it_is_unlocked(name: str, tmp_path: Path, acts: Acts) -> None:
    with situation(name, tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.press(*(["escape"] if name == "halted" else []), "k")
            await running.until(lambda: "locked" in running.lines[0], "it is shown")
            control = [command for command in COMMANDS if command.group == "Control" and command.id != "lock"]
            for command in control:
                running.app.clear_notifications()
                running.dashboard.action_command(command.id)
                await running.settle()
                assert running.open == "DashboardScreen", command.id
                assert [LOCKED in notice for notice in running.notices] == [True], command.id
            assert acts.none
            assert running.app.return_value is None
            running.dashboard._last_command.clear()
            await running.press("k")
            assert running.open == "Dialog"
            await running.press("k", "escape")
            assert "locked" in running.lines[0]
            running.dashboard._last_command.clear()
            await running.press("k", "enter")
            await running.until(lambda: "locked" not in running.lines[0], "it acts again")
            assert not running.app.control.read_only_reason()
            await running.press("d")
        assert running.app.return_value is not None
        assert not directory.console.exists()


async def test_ctrl_q_leaves_a_locked_console(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.press("k", "ctrl+q")
        assert running.app.return_value is not None
    assert acts.none


async def test_the_lock_is_not_the_watching_of_others(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory, watch=True) as running:
            await running.press("k")
            assert "only watches" in running.notices[0]
            assert not running.app.control.locked
        with another_console(directory) as pid:
            async with console(directory) as running:
                await running.press("k")
                await running.until(lambda: "locked" in running.lines[0], "it is locked")
                running.dashboard._last_command.clear()
                await running.press("k", "enter")
                await running.until(lambda: "watching" in running.lines[0], "the other one is in charge all the same")
                assert f"pid {pid}" in running.app.control.read_only_reason()


def test_a_control_that_was_released_never_claims_the_run_again(tmp_path: Path) -> None:
    control = Control(RunDirectory(tmp_path), watch=False)
    assert control.read_only_reason() == ""
    assert RunDirectory(tmp_path).console.exists()
    control.release()
    assert control.read_only_reason() == "this console has left the run"
    assert not RunDirectory(tmp_path).console.exists()


def test_a_run_on_a_disk_that_can_only_be_read_can_be_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control = Control(RunDirectory(tmp_path), watch=False)
    assert control.read_only_reason() == ""

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refuse)
    control.release()
    assert control.read_only_reason() == "this console has left the run"


# -- stopping ---------------------------------------------------------------------------------------------------------


async def test_the_second_q_says_that_it_is_being_saved(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.press("q", "enter")
            assert acts.rung == ["stop"]
            EventLog(directory.events, 1).append("save_writing", step=41, bytes=384_008, reason="stop")
            await running.until(lambda: running.app.store.saves.writing_step == 41, "the write is seen")
            running.dashboard._last_command.clear()
            await running.press("q")
            assert running.open == "DashboardScreen"
            assert "stopping already: writing step 41; nothing hurries it" in running.notices[-1]
    assert acts.rung == ["stop"]


async def test_q_while_somebody_else_stops_it(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        write_heartbeat(directory.heartbeat, beat("training", stop_asked=True))
        async with console(directory) as running:
            await running.press("q")
            assert "stopping already" in running.notices[-1]
    assert acts.none


# -- kill -------------------------------------------------------------------------------------------------------------


async def ask_to_kill(running: Console) -> None:
    running.dashboard._last_command.clear()
    await running.press("colon")
    await running.search("kill the engine")
    await running.until(lambda: "Kill the engine: what" in running.text, "the palette found it")
    await running.press("enter")
    await running.until(lambda: "Kill the engine (pid" in running.text, "it asks")


async def test_kill_names_what_is_lost_and_needs_the_word(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        engine = read_heartbeat(directory.heartbeat)
        assert engine is not None
        async with console(directory, (80, 24)) as running:
            for word in ("", "k", "yes", "kill it", None):
                await ask_to_kill(running)
                text = " ".join(running.text.replace("│", " ").split())
                assert f"Kill the engine (pid {engine.pid})?" in text
                assert "last save at step 30, 10 steps ago" in text
                assert "The 10 steps since then are lost" in text
                await running.press(
                    *(word or "").replace(" ", "_").replace("_", ""), "enter" if word is not None else "escape"
                )
                assert running.open == "DashboardScreen"
                assert acts.none
            assert running.notices[-1] == "not killed: the word is kill"


async def test_kill_ends_the_real_engine_and_tells_what_is_left(tmp_path: Path, engines: Engines) -> None:
    directory = make_run(tmp_path / "run", {**RARELY, "checkpoint": {"every": 20}})
    engine = engines.launch(directory)
    engine.wait_event("save_durable")
    async with console(directory) as running:
        running.app.control.child = engine.process
        await running.until(lambda: running.app.store.condition.alive, "it is seen")
        await ask_to_kill(running)
        await running.press(*"kill", "enter")
        await running.until(
            lambda: any("is gone; the run stands at the saved step" in n for n in running.notices), "told"
        )
        assert not is_alive(engine.pid)
        await running.until(lambda: running.app.store.condition.word == "crashed", "the console shows it")
        await running.until(lambda: "killed from here" in running.text, "and by whom")
        running.assert_sound()
    notices = [e.text("text") for e in read_events(directory.events) if e.kind == "notice"]
    assert f"console: killed by the operator, pid {engine.pid}" in notices


def test_only_the_engine_that_was_meant_is_killed(tmp_path: Path) -> None:
    with situation("training", tmp_path / "run") as directory:
        meant = read_heartbeat(directory.heartbeat)
        assert meant is not None
        other = json.loads(directory.heartbeat.read_bytes()) | {"process_start": 1}
        control = Control(directory, watch=False)
        for changed in ({"process_start": 1}, {"pid": 1}, {"boot_id": "other"}):
            directory.heartbeat.write_text(json.dumps(other | changed))
            with pytest.raises(RunError, match="the engine cannot be asked"):
                control.kill(meant)
        write_heartbeat(directory.heartbeat, beat("training"))
        foreign = type(meant)(**{name: getattr(meant, name) for name in meant.__struct_fields__} | {"process_start": 7})
        with pytest.raises(RunError, match="another one"):
            control.kill(foreign)
        assert control.killed_pid is None


def test_commands_of_the_palette_only_have_no_key() -> None:
    kill = next(command for command in COMMANDS if command.id == "kill")
    assert (kill.keys, kill.key_name) == ((), "palette")
    assert f"| palette | {kill.help} |" in key_table().splitlines()


# -- leaving ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [False, True])
async def test_a_screen_that_opens_while_the_console_leaves_is_no_failure(
    wrapped: bool, tmp_path: Path, acts: Acts
) -> None:
    """Textual's palette looks for its list when that is gone, in a handler or in a worker."""
    error: Exception = NoMatches("No nodes match 'CommandList'")
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            running.app.leave("signal", SIGHUP)
            running.app._handle_exception(WorkerFailed(error) if wrapped else error)
        assert running.app.return_code == 128 + SIGHUP
        assert running.app._exception is None


async def test_the_same_error_in_a_console_that_stays_is_told(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory, pytest.raises(NoMatches):
        async with console(directory) as running:
            running.app._handle_exception(NoMatches("No nodes match 'CommandList'"))
