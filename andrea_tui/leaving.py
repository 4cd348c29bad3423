"""How the console is left: the reasons, and the signals that end it as a key would."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec

LEAVE_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class ExitState(msgspec.Struct, frozen=True):
    """Why the console was left: `left`, `detached`, `stopped`, or `signal` with its number. `listing`: the directory
    whose runs were listed at the end, None when a run was open."""

    reason: str
    signal: int = 0
    listing: Path | None = None


def leave_on_signals(leave: Callable[[str, int], object]) -> None:
    """Have the running loop call `leave`, also for signals that have waited until now.

    After the driver has set up its own handlers, or ours would be lost; without them a TERM or a hang-up leaves the
    terminal raw.
    """
    loop = asyncio.get_running_loop()
    for number in LEAVE_SIGNALS:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, leave, "signal", number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, LEAVE_SIGNALS)
