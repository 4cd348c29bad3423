"""The console's parent gives the terminal back, however the console ends: also by SIGKILL or a crash of native code.

It is forked off before anything is imported, so it weighs little; it waits, passes on what it is sent, and ends as the
console does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
from collections.abc import Callable

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_WAITED_FOR = {signal.SIGCHLD, signal.SIGINT, *_PASSED_ON}
# No keyboard protocol (the main screen has one of its own: the shell's), main screen, visible cursor, no mouse, no
# pasting or focus reports, wrapping, plain text.
_RESET = (
    b"\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?2004l"
    b"\x1b[?1004l\x1b[?2026l\x1b[?2048l\x1b[?7h\x1b[0m\r"
)


def guarded(console: Callable[[], int]) -> int:
    """Run `console` in a child where there is a terminal to give back; returns its exit code, 128 + n for signal n."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return console()
    settings = termios.tcgetattr(0)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    parent = os.getpid()
    child = os.fork()
    if not child:
        _end_with(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return console()
    status = _wait(child)
    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    with contextlib.suppress(OSError, termios.error):  # the terminal may have gone
        _give_back(settings, killed)
    return 128 + killed if killed else os.WEXITSTATUS(status)


def _end_with(parent: int) -> None:
    """Where the kernel can: a console whose parent was killed leaves as if the terminal had been closed."""
    from andrea_engine.run.process import signal_at_parents_end  # by the child, which needs that module anyway

    signal_at_parents_end(signal.SIGHUP)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGHUP)


def _wait(child: int) -> int:
    """The wait status of the console's end."""
    while True:
        number = signal.sigwait(_WAITED_FOR)
        if number in _PASSED_ON:
            os.kill(child, number)
            continue
        if number == signal.SIGINT:  # a key of the console, not ours
            continue
        pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
        if pid and os.WIFSTOPPED(status):
            if os.WSTOPSIG(status) == signal.SIGTSTP:
                signal.raise_signal(signal.SIGSTOP)  # suspended by the user: the shell waits for us
        elif pid:
            return status


def _give_back(settings: list[object], killed: int) -> None:
    now = termios.tcgetattr(0)
    if not killed and now[:4] == settings[:4]:
        return
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # also from the background
    termios.tcsetattr(0, termios.TCSANOW, settings)  # type: ignore[arg-type]
    os.write(1, _RESET)
    if killed:
        name = signal.Signals(killed).name
        os.write(2, f"andrea-tui: the console was killed by {name}; the engine was not touched\r\n".encode())
