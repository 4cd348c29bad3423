"""A real terminal: a pty with the console in it, a screen that understands what it writes, and every byte kept."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyte

T = TypeVar("T")
PATIENCE = 60.0
PAUSE = 0.01
# What pyte does not know and would print: private CSI other than DEC modes.
_UNKNOWN = re.compile(rb"\x1b\[[<>=][0-9;]*[a-zA-Z]|\x1b\[\?[0-9;]*[$u][a-z]?")
_MODES = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
_SEQUENCES = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_=>78()][AB012]?")
MOUSE_AND_SCREEN = (47, 1000, 1002, 1003, 1004, 1006, 1015, 1047, 1049, 2004)
UNWANTED = ("NO_COLOR", "COLORTERM", "COLUMNS", "LINES")  # the size is that of the pty
ENVIRONMENT = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1"}


class Terminal:
    """`andrea-tui ARGUMENTS` in a pty of `size` (columns, rows). Output is read all the time by a thread.

    The slave side stays open here, so that its settings can be asked for after the console has gone.
    """

    def __init__(
        self,
        *arguments: object,
        size: tuple[int, int] = (120, 40),
        controlling: bool = True,
        ignore_hup: bool = False,
        environment: dict[str, str] | None = None,
    ) -> None:
        columns, rows = size
        self._master, self._slave = os.openpty()
        self.resize(columns, rows, tell_screen=False)
        self.settings_before = termios.tcgetattr(self._slave)
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self.raw = bytearray()

        def prepare() -> None:
            if controlling:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            if ignore_hup:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)

        known = {name: value for name, value in os.environ.items() if name not in UNWANTED}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "andrea_tui", *map(str, arguments)],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**known, **ENVIRONMENT, **(environment or {})},
            start_new_session=True,
            preexec_fn=prepare,  # noqa: PLW1509  (the tests start no threads that hold locks here)
        )
        self.pid = self.process.pid
        self._reading = True
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while self._reading:
            ready, _, _ = select.select([self._master], [], [], 0.05)
            if not ready:
                continue
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            with self._lock:
                self.raw += data
                self._stream.feed(_UNKNOWN.sub(b"", data))

    # -- what is on it ------------------------------------------------------------------------------------------

    @property
    def lines(self) -> list[str]:
        with self._lock:
            return list(self._screen.display)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def reversed_text(self) -> str:
        """What stands in reverse video."""
        with self._lock:
            rows = [self._screen.buffer[y] for y in range(self._screen.lines)]
            return "".join(cell.data for row in rows for _, cell in sorted(row.items()) if cell.reverse)

    def until(self, condition: Callable[[], T | None], what: str) -> T:
        """The first true value of `condition`. Fails with the screen, and at once when the console has ended."""
        deadline = time.monotonic() + PATIENCE
        while True:
            ended = self.process.poll() is not None
            value = condition()
            if value:
                return value
            assert not ended, f"the console ended ({self.process.returncode}) before: {what}\n{self.text}"
            assert time.monotonic() < deadline, f"waited in vain for: {what}\n{self.text}"
            time.sleep(PAUSE)

    def until_shown(self, *texts: str) -> None:
        self.until(lambda: all(text in self.text for text in texts), f"{texts} on the screen")

    def search(self, pattern: str) -> re.Match[str]:
        """Wait until the pattern is on the screen."""
        return self.until(lambda: re.search(pattern, self.text), f"{pattern} on the screen")

    # -- acting -------------------------------------------------------------------------------------------------

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int, *, tell_screen: bool = True) -> None:
        if tell_screen:
            with self._lock:
                self._screen.resize(rows, columns)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wipe(self) -> None:
        """Forget every cell, as a terminal does that shrank for a moment."""
        with self._lock:
            self._screen.erase_in_display(2)

    @property
    def console_pid(self) -> int:
        """The console itself, the only child of the process that was started."""
        (pid,) = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return int(pid)

    def send(self, number: signal.Signals) -> None:
        """A signal to what was started, the console's parent."""
        self.process.send_signal(number)

    def send_console(self, number: signal.Signals) -> None:
        """A signal past the parent."""
        os.kill(self.console_pid, number)

    def hang_up(self) -> None:
        """Close both sides, as a lost connection does."""
        self._stop_reading()
        os.close(self._master)
        os.close(self._slave)
        self._master = self._slave = -1

    def wait(self, seconds: float = PATIENCE) -> int:
        """Exit code of the console, once all it wrote has been read."""
        code = self.process.wait(seconds)
        if self._master >= 0:
            self.until_quiet()
        return code

    def until_quiet(self) -> None:
        """Everything that was written is read."""
        while select.select([self._master], [], [], 0)[0]:
            time.sleep(PAUSE)
        with self._lock:
            pass

    def _stop_reading(self) -> None:
        self._reading = False
        self._thread.join()

    def close(self) -> None:
        """End what still runs. The console first: without its parent it would leave in its own time, in the middle of
        the next test."""
        if self.process.poll() is None:
            with contextlib.suppress(OSError, ValueError):
                self.send_console(signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        if self._master >= 0:
            self.hang_up()

    # -- after the end ------------------------------------------------------------------------------------------

    def assert_sane(self) -> None:
        """As it was before: settings, main screen, cursor, line wrap, keyboard; no mouse, no bracketed paste."""
        assert termios.tcgetattr(self._slave) == self.settings_before
        modes = self.modes
        assert 1049 in modes, "the console had been on the alternate screen"
        assert [mode for mode in MOUSE_AND_SCREEN if modes.get(mode)] == []
        assert modes.get(25, True), "the cursor is visible"
        assert modes.get(7, True), "lines wrap"
        # The parent also takes one from a console that was killed before it had set any: each screen has its own.
        pushed, popped = len(re.findall(rb"\x1b\[>\d+u", bytes(self.raw))), self.raw.count(b"\x1b[<u")
        assert popped == max(pushed, 1), "keyboard protocol"
        assert self.raw.rfind(b"\x1b[<u") < self.raw.rfind(b"\x1b[?1049l"), "the shell's keyboard modes are its own"

    @property
    def modes(self) -> dict[int, bool]:
        """DEC private modes as the output left them."""
        found: dict[int, bool] = {}
        for match in _MODES.finditer(bytes(self.raw)):
            for number in match[1].split(b";"):
                found[int(number)] = match[2] == b"h"
        return found

    @property
    def farewell(self) -> list[str]:
        """The lines that are left in the shell: what was written after the alternate screen was closed."""
        after = bytes(self.raw).rpartition(b"\x1b[?1049l")[2]
        plain = _SEQUENCES.sub(b"", after).decode("utf-8", "replace")
        return [line.strip() for line in plain.splitlines() if line.strip()]


def console(*arguments: object, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    """`andrea-tui ARGUMENTS` without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "andrea_tui", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding=encoding,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, **ENVIRONMENT},
    )


def engine(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`andrea-engine ARGUMENTS`."""
    command = [sys.executable, "-m", "andrea_engine", *map(str, arguments)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


def engines_of(path: Path) -> list[int]:
    """Processes that train the run at `path`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"andrea_engine" in words and str(path).encode() in words:
            found.append(int(entry.name))
    return found
