"""Who may act on a run: the console in charge, and nobody for one that is gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.heartbeat import read_heartbeat
from andrea_engine.run.process import boot_id, process_state
from andrea_tui.control import Control, Owner
from tests.run.helpers import wait_for
from tests.screens.conftest import Acts
from tests.screens.situations import another_console, situation


def _kill(control: Control) -> None:
    engine = read_heartbeat(control.directory.heartbeat)
    assert engine is not None
    control.kill(engine)


ACTS: dict[str, Callable[[Control], object]] = {
    "start": Control.start,
    "restart": Control.restart,
    "kill": _kill,
    "save": Control.save,
    "stop": Control.stop,
}


@pytest.mark.parametrize("act", ACTS)
def test_who_may_not_act_does_nothing(act: str, tmp_path: Path, acts: Acts, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr("andrea_tui.control.request", lambda directory, what, *meant: heard.append(what) or 1)
    with situation("training", tmp_path / "run") as directory, another_console(directory):
        for control in (Control(directory, watch=False), Control(directory, watch=True)):
            with pytest.raises(RunError):
                ACTS[act](control)
        replay = Control(directory, watch=False, replay=True)
        with pytest.raises(RunError, match="this is a replay"):
            ACTS[act](replay)
        assert (heard, acts.started) == ([], [])
        taking_over = Control(directory, watch=False)
        assert taking_over.take_over() == ""
        ACTS[act](taking_over)
        assert len(heard) + len(acts.started) == 1


@pytest.mark.parametrize("why", ["another boot", "another process", "it ended"])
def test_a_console_that_is_gone_is_not_in_charge(why: str, tmp_path: Path) -> None:
    with situation("training", tmp_path / "run") as directory, another_console(directory) as pid:
        assert "another console" in Control(directory, watch=False).read_only_reason()
        owner = _owner(directory)
        if why == "another boot":
            owner = msgspec.structs.replace(owner, boot_id=f"not {boot_id()}")
        elif why == "another process":
            owner = msgspec.structs.replace(owner, process_start=(owner.process_start or 0) + 1)
        else:  # and nobody has asked for its exit code: the number still is its own
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: process_state(pid) == "Z", "its end")
        directory.console.write_bytes(msgspec.json.encode(owner))
        control = Control(directory, watch=False)
        assert control.read_only_reason() == ""
        assert _owner(directory) == control._me


def test_leaving_takes_no_right_from_another_console(tmp_path: Path) -> None:
    with situation("training", tmp_path / "run") as directory:
        first, second = Control(directory, watch=False), Control(directory, watch=False)
        second._me = msgspec.structs.replace(second._me, pid=second._me.pid + 1)
        first.take_over()
        second.take_over()
        first.release()
        assert _owner(directory) == second._me
        second.release()
        assert not directory.console.exists()


def _owner(directory: RunDirectory) -> Owner:
    return msgspec.json.decode(directory.console.read_bytes(), type=Owner)
