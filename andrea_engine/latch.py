"""Signals as flags. Handlers note the time of the request; the training loop acts at the end of a step."""

from __future__ import annotations

import signal
import time
from types import FrameType

_HANDLED = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class SignalLatch:
    """`save_asked` and `stop_asked` hold the time (seconds since the epoch) of the newest request, or None.

    SIGUSR1 asks for a checkpoint; SIGTERM, SIGINT and a hang-up ask to save and stop. A handler does one assignment
    and nothing else, so it may interrupt anything.
    """

    def __init__(self) -> None:
        self.save_asked: float | None = None
        self.stop_asked: float | None = None

    def arm(self) -> None:
        """Install the handlers, then let signals through that the launcher blocked across the spawn."""
        signal.signal(signal.SIGUSR1, self._on_save)
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGINT, self._on_stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup means: a hang-up is no request
            signal.signal(signal.SIGHUP, self._on_stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)

    def disarm(self) -> None:
        """Give the signals their ordinary effect back, for the short commands."""
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        self.let_stop()

    def let_stop(self) -> None:
        """Give those that ask to stop their ordinary effect back; a save that is asked for is still noted."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)

    def retire(self) -> None:
        """Ignore the signals from now on: everything asked for is done, and the process is about to end.

        Python gives handled signals their deadly default back while it shuts down, but leaves ignored ones alone.
        """
        for number in _HANDLED:
            signal.signal(number, signal.SIG_IGN)

    def _on_save(self, signum: int, frame: FrameType | None) -> None:
        self.save_asked = time.time()

    def _on_stop(self, signum: int, frame: FrameType | None) -> None:
        self.stop_asked = time.time()

    def take_save(self) -> float | None:
        """The pending save request, taken off the latch. One save answers all signals before it."""
        asked = self.save_asked
        if asked is not None:
            self.save_asked = None
        return asked

    @property
    def stopping(self) -> bool:
        """True once a stop was asked."""
        return self.stop_asked is not None

    @property
    def interrupting(self) -> bool:
        """True when something waits for the end of the step: long work should make room."""
        return self.save_asked is not None or self.stop_asked is not None


LATCH = SignalLatch()
