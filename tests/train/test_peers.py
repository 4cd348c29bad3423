"""Processes that die, and those that would wait for them for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from andrea_engine.run.errors import RunError
from andrea_engine.train import peers
from andrea_engine.train.peers import Peers, identity
from tests.support.engines import wait_until


@pytest.fixture
def dead() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def among(pid: int, host: int | None = None) -> Peers:
    """This process is rank 0; rank 1 is `pid`, here unless said otherwise."""
    me, here = identity()
    return Peers([(me, here), (pid, here if host is None else host)], 0)


def test_a_broken_connection_becomes_a_sentence(dead: int) -> None:
    with (
        pytest.raises(RunError, match=rf"^rank 1 \(process {dead}\) has ended; start the run again"),
        among(dead).expected(),
    ):
        raise RuntimeError("gloo: connection closed")


def test_where_nobody_is_missing_here_the_first_line_of_the_error_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "GONE_SECONDS", 0.0)
    with (
        pytest.raises(RunError, match=r"cannot be reached \(timed out\); start the run again"),
        among(os.getpid()).expected(),
    ):
        raise RuntimeError("timed out\nmany more lines")


def test_our_own_errors_pass_unchanged(dead: int) -> None:
    with pytest.raises(RunError, match=r"^the weights differ$"), among(dead).expected():
        raise RunError("the weights differ")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(peers, "LOST_SECONDS", 0.1)


def test_who_waits_in_vain_is_told(dead: int, quick: None) -> None:
    watched = among(dead)
    told: list[str] = []
    watched.on_lost = told.append
    watched.start()
    wait_until(lambda: told or None, "the word")
    assert told == [f"rank 1 (process {dead}) has ended; start the run again, it goes on from its last checkpoint"]


@pytest.mark.parametrize("case", ["alive", "elsewhere", "allowed to end"])
def test_nobody_is_told_without_need(case: str, dead: int, quick: None) -> None:
    watched = among(os.getpid() if case == "alive" else dead, host=1 if case == "elsewhere" else None)
    told: list[str] = []
    watched.on_lost = told.append
    if case == "allowed to end":
        watched.stop()
    watched.start()
    threading.Event().wait(0.3)
    assert told == []


def test_a_process_inside_of_a_call_that_never_returns_ends_with_a_sentence(dead: int) -> None:
    code = f"""
import threading
from andrea_engine.train import peers
peers.LOOK_SECONDS, peers.LOST_SECONDS = 0.01, 0.05
me, here = peers.identity()
peers.Peers([(me, here), ({dead}, here)], 0).start()
threading.Event().wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"andrea-engine: rank 1 (process {dead}) has ended")
