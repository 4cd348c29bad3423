"""Start an engine so that it outlives whoever started it, find it again, and ring its bell safely."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import msgspec

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.heartbeat import Heartbeat, read_heartbeat
from andrea_engine.run.io import open_regular
from andrea_engine.run.module_command import module_command
from andrea_engine.run.process import boot_id, is_alive, lock_holders, start_time

REQUESTS = {"save": signal.SIGUSR1, "pivot": signal.SIGUSR1, "stop": signal.SIGTERM, "kill": signal.SIGKILL}
_BLOCKED = {signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


def spawn_engine(directory: RunDirectory, arguments: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start `andrea-engine train` on a run, in its own session, with output to `engine.log`.

    The signals are blocked across the spawn and the mask is inherited, so that a request sent before the engine has
    its handlers waits instead of killing it. Raises RunError when the process cannot be started.
    """
    command = module_command("andrea_engine", "train", directory.path, *arguments)
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    try:
        with _open_log(directory) as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, close_fds=True
            )
    except OSError as error:
        raise RunError(f"the engine for {directory.path} could not be started: {error.strerror}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _open_log(directory: RunDirectory) -> IO[bytes]:
    return os.fdopen(open_regular(directory.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")


class EngineStatus(msgspec.Struct, frozen=True):
    """What can be said about a run's engine from outside. `alive`: this machine runs it now."""

    heartbeat: Heartbeat | None
    alive: bool
    elsewhere: bool

    @property
    def pid(self) -> int | None:
        return self.heartbeat.pid if self.heartbeat else None


def engine_status(directory: RunDirectory) -> EngineStatus:
    """Find the engine by its heartbeat and check start time, boot and lock ownership."""
    heartbeat = read_heartbeat(directory.heartbeat)
    if heartbeat is None:
        return EngineStatus(None, bool(lock_holders(directory.lock)), elsewhere=False)
    elsewhere = heartbeat.host != socket.gethostname()
    return EngineStatus(heartbeat, not elsewhere and _identity_problem(directory, heartbeat) is None, elsewhere)


def _identity_problem(directory: RunDirectory, heartbeat: Heartbeat) -> str | None:
    if heartbeat.boot_id != boot_id():
        return "the machine was restarted since"
    if not is_alive(heartbeat.pid):
        return "its process has ended"
    if heartbeat.process_start is not None and start_time(heartbeat.pid) != heartbeat.process_start:
        return "its process number belongs to another process now"
    if Path("/proc/locks").exists() and heartbeat.pid not in lock_holders(directory.lock):
        return "the process does not hold the run's lock"
    return None


def _identity(heartbeat: Heartbeat) -> tuple[int, int | None, str]:
    return heartbeat.pid, heartbeat.process_start, heartbeat.boot_id


def request(directory: RunDirectory, what: str, meant: Heartbeat | None = None) -> int:
    """Ask the engine to `save` or `stop`, or to look for a `pivot`; returns its pid. The answer comes as events.
    `kill` does not ask: the process ends at once, and what was not saved is lost.

    The signal goes through a pidfd to the process whose identity was checked; with `meant` only to the one that wrote
    that heartbeat. Raises RunError, with the reason, when there is no such engine on this machine.
    """
    heartbeat = read_heartbeat(directory.heartbeat)
    if heartbeat is None:
        raise RunError(f"no engine has reported from {directory.path} yet")
    if heartbeat.host != socket.gethostname():
        raise RunError(f"the engine runs on {heartbeat.host}; requests can only be sent from there")
    try:
        descriptor = os.pidfd_open(heartbeat.pid)
    except (OSError, OverflowError):
        raise RunError("the engine has ended, so there is nothing to ask; resume it first") from None
    try:
        problem = _identity_problem(directory, heartbeat)
        if meant is not None and _identity(meant) != _identity(heartbeat):
            problem = f"another one (pid {heartbeat.pid}) runs by now"
        if problem is not None:
            raise RunError(f"the engine cannot be asked: {problem}")
        signal.pidfd_send_signal(descriptor, REQUESTS[what])
    except ProcessLookupError:
        raise RunError("the engine ended at this very moment") from None
    finally:
        os.close(descriptor)
    return heartbeat.pid
