"""A request goes to the process that was checked, whatever its number means by the time the signal is sent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import msgspec
import pytest

from andrea_engine.run import launch
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.heartbeat import read_heartbeat, write_heartbeat
from andrea_engine.run.launch import request

from .helpers import beat, fake_engine, killed, wait_for


def test_a_number_that_was_given_to_another_process_meanwhile(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel does it between the check and the signal; here `os.pidfd_open` plays the kernel."""
    with ExitStack() as stack:
        command = [sys.executable, "-c", "print('up', flush=True); input()"]
        processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
        for process in processes:
            stack.enter_context(killed(process))
            assert process.stdout is not None
            process.stdout.readline()
        engine, stranger = processes
        owner, real = engine, os.pidfd_open

        def check(*_: object) -> None:
            nonlocal owner
            owner = stranger

        monkeypatch.setattr(os, "pidfd_open", lambda number: real(owner.pid))
        monkeypatch.setattr(launch, "_identity_problem", check)
        write_heartbeat(run.heartbeat, beat(stranger.pid))
        request(run, "save")
        wait_for(lambda: any(process.poll() is not None for process in processes), "the signal")
        assert [process.poll() for process in processes] == [-signal.SIGUSR1, None]


def test_only_the_engine_that_was_meant_is_asked(run: RunDirectory) -> None:
    """Another one has started since the operator looked."""
    with fake_engine(run) as process:
        meant = read_heartbeat(run.heartbeat)
        assert meant is not None
        for other in ({"pid": 1}, {"process_start": 1}, {"boot_id": "another"}):
            with pytest.raises(RunError, match=rf"another one \(pid {process.pid}\) runs by now"):
                request(run, "stop", msgspec.structs.replace(meant, **other))
        assert request(run, "stop", meant) == process.pid
        assert process.wait(20) == 0
