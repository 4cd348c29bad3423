"""Acting on a run: start its engine, ask it to save or stop, and which of several consoles may do so."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence

import msgspec

from andrea_engine.run.checkpoint import CheckpointFile, list_checkpoints
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import continued_log
from andrea_engine.run.heartbeat import Heartbeat
from andrea_engine.run.io import atomic_write, read_optional
from andrea_engine.run.launch import request, spawn_engine
from andrea_engine.run.process import boot_id, is_alive, start_time

LOCKED = "this console is locked; k unlocks it"
REPLAY = "this is a replay"


class Owner(msgspec.Struct, frozen=True):
    """The console that may act; the others watch."""

    pid: int
    process_start: int | None
    boot_id: str


class Control:
    """The console's side of the interface. `watch` forbids every act, as `replay` does, `locked` every act until it is
    taken back.

    `exit_code`: how the engine that was started from here last has ended (negative: by which signal), None before.
    `stopped_pid`, `killed_pid`: the engine that was asked to stop, or was killed, from here.
    """

    def __init__(self, directory: RunDirectory, *, watch: bool, replay: bool = False) -> None:
        self.directory = directory
        self.watch = watch or replay
        self.replay = replay
        self.locked = False
        self._released = False
        self.child: subprocess.Popen[bytes] | None = None
        self.exit_code: int | None = None
        self.stopped_pid: int | None = None
        self.killed_pid: int | None = None
        self._me = Owner(os.getpid(), start_time(os.getpid()), boot_id())

    def read_only_reason(self) -> str:
        """Why this console may not act, or ''. A free run is claimed on the way."""
        return LOCKED if self.locked and not self.watch else self.foreign_reason()

    def foreign_reason(self) -> str:
        """Like `read_only_reason`, without the operator's own lock: a standing order is not a slip of the hand."""
        if self.watch:
            return REPLAY if self.replay else "this console only watches (--watch)"
        if self._released:  # a last look of a closing screen must not claim the run again
            return "this console has left the run"
        if not self.directory.path.is_dir():
            return ""
        owner = self._owner()
        if owner == self._me:
            return ""
        if owner is not None and self._lives(owner):
            return f"another console (pid {owner.pid}) is in charge; t takes over"
        return self.take_over()

    def _lives(self, owner: Owner) -> bool:
        same_boot = owner.boot_id == self._me.boot_id
        return same_boot and is_alive(owner.pid) and start_time(owner.pid) == owner.process_start

    def take_over(self) -> str:
        """Become the console that may act; returns why that failed, or ''."""
        try:
            atomic_write(self.directory.console, msgspec.json.encode(self._me), durable=False)
        except OSError as error:
            return f"{self.directory.path} cannot be written ({error.strerror}), so this console only watches"
        return ""

    def release(self) -> None:
        """Leave: the next console need not take over."""
        self._released = True
        if not self.watch and self._owner() == self._me:
            with contextlib.suppress(OSError):  # a disk that can only be read: who comes next sees that we have gone
                self.directory.console.unlink(missing_ok=True)

    def _owner(self) -> Owner | None:
        try:
            data = read_optional(self.directory.console, 4096)
            return msgspec.json.decode(data, type=Owner) if data else None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def start(self, *arguments: str) -> None:
        """Start the engine. Raises RunError when it cannot be started."""
        self._may_act()
        self._spawn(arguments)

    def restart(self) -> None:
        """Start the engine again, as ordered before: a lock that was set since does not forbid it. Raises RunError."""
        reason = self.foreign_reason()
        if reason:
            raise RunError(reason)
        self._spawn(())

    def _spawn(self, arguments: Sequence[str]) -> None:
        self.exit_code = self.stopped_pid = self.killed_pid = None
        self.child = spawn_engine(self.directory, arguments)

    def kill(self, engine: Heartbeat) -> None:
        """End the engine that wrote this heartbeat at once, unsaved. Raises RunError when it is not there any more."""
        self._may_act()
        self.killed_pid = request(self.directory, "kill", engine)

    def save(self) -> None:
        """Ring for a checkpoint. Raises RunError when there is nobody to hear."""
        self._may_act()
        request(self.directory, "save")

    def stop(self) -> None:
        """Ring for save and exit. Raises RunError when there is nobody to hear."""
        self._may_act()
        self.stopped_pid = request(self.directory, "stop")

    def checkpoints(self) -> list[CheckpointFile]:
        """All that are named like one, newest first."""
        return list_checkpoints(self.directory.path)

    def _may_act(self) -> None:
        reason = self.read_only_reason()
        if reason:
            raise RunError(reason)

    def ended(self) -> bool:
        """True once, when the engine that this console started has ended; `exit_code` then tells how."""
        child = self.child
        code = None if child is None else child.poll()
        if code is None:
            return False
        self.exit_code = code
        if self.child is child:  # the watchdog may have started the next one
            self.child = None
        return True


def log_notice(directory: RunDirectory, text: str) -> None:
    """Put down in the event log what a console did. A log that cannot be written is no reason not to go on."""
    continued_log(directory.events).append("notice", text=f"console: {text}")
