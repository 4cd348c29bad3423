"""A program in a pty, every piece of its output with its time, and what the terminal showed at each moment.

Nothing is parsed while the program runs, so that the harness does not compete with it for the processor: the pieces
are shown on a screen of pyte's afterwards.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import psutil
import pyte

SIZE = (120, 40)  # columns, rows
BUSY = 0.03  # CPU seconds that a program at rest may use meanwhile
PATIENCE = 10.0  # seconds for a program to end after it was told to
# The last: modules are compiled once and kept, as on any machine where the program has run before.
_UNWANTED = ("NO_COLOR", "COLORTERM", "COLUMNS", "LINES", "PYTHONDONTWRITEBYTECODE")
# What pyte does not know and would print: questions to the terminal, and the keyboard protocol.
_UNKNOWN = re.compile(rb"\x1b\[[<>=][0-9;]*[a-zA-Z]|\x1b\[\?[0-9;]*[$u][a-z]?")


@dataclass(frozen=True, slots=True)
class Piece:
    """Output, and the seconds since the spawn at which it was read."""

    at: float
    data: bytes


class Terminal:
    """`command` in a pty of `SIZE`; use it as a context manager. Times are seconds since the spawn."""

    def __init__(self, command: Sequence[object]) -> None:
        columns, rows = SIZE
        self._master, self._slave = os.openpty()
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._home = tempfile.TemporaryDirectory()
        kept = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
        wanted = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "XDG_STATE_HOME": self._home.name}
        self.pieces: list[Piece] = []
        self.spawned, self.spawned_at = time.monotonic(), time.time()  # the latter since the epoch
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**kept, **wanted},
            start_new_session=True,
        )
        self._closing = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while not self._closing:
            if select.select([self._master], [], [], 0.1)[0]:
                data = os.read(self._master, 65536)
                self.pieces.append(Piece(time.monotonic() - self.spawned, data))

    def wait_for_output(self, limit: float) -> None:
        """Until it has written anything. Raises RuntimeError after `limit` or an early end."""
        self._wait(lambda: bool(self.pieces), limit)

    def wait_for_rest(self, seconds: float, limit: float) -> None:
        """Until it has written something, and then for so long nothing, and hardly used the processor. Raises
        RuntimeError after `limit` or an early end."""
        rest = time.monotonic()
        used = self.cpu()

        def at_rest() -> bool:
            nonlocal rest, used
            now, cpu = time.monotonic(), self.cpu()
            if cpu - used > BUSY or not self.pieces or now - self.spawned - self.pieces[-1].at < seconds:
                rest, used = now, cpu
            return now - rest >= seconds

        self._wait(at_rest, limit)

    def _wait(self, done: Callable[[], bool], limit: float) -> None:
        deadline = time.monotonic() + limit
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.process.args} ended with exit code {self.process.returncode}")
            if done():
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.process.args} was still at work after {limit:g} s")
            time.sleep(0.02)

    def rss(self) -> int:
        """Resident bytes of the process tree."""
        return sum(process.memory_info().rss for process in self._tree())

    def cpu(self) -> float:
        """User and system seconds of the process tree so far."""
        try:
            return sum(sum(process.cpu_times()[:2]) for process in self._tree())
        except psutil.NoSuchProcess:
            return 0.0

    def written(self) -> int:
        """Bytes so far."""
        return sum(len(piece.data) for piece in self.pieces)

    def _tree(self) -> Iterator[psutil.Process]:
        root = psutil.Process(self.process.pid)
        yield from (root, *root.children(recursive=True))

    def first(self, shown: Callable[[str], bool]) -> float | None:
        """When the screen first satisfied `shown`, which gets its text; None if it never did."""
        return next((at for at, text in self.screens() if shown(text)), None)

    def screens(self) -> Iterator[tuple[float, str]]:
        """What was on the screen after each piece of output."""
        screen = pyte.Screen(*SIZE)
        stream = pyte.ByteStream(screen)
        for piece in list(self.pieces):
            stream.feed(_UNKNOWN.sub(b"", piece.data))
            yield piece.at, "\n".join(screen.display)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE)
        self.process.kill()
        self.process.wait()
        self._closing = True
        self._reader.join()
        os.close(self._master)
        os.close(self._slave)
        self._home.cleanup()
