"""How often the run directory is looked at.

Three times a second while an engine runs; without one less and less. Where the engine needs every processor, what the
console uses is taken from the steps, so that it takes `SHARE` of one at most while nobody is at it.
"""

from __future__ import annotations

import os
import socket
import time

from andrea_engine.run.heartbeat import Heartbeat
from andrea_tui.feed.update import Update

INTERVAL = 0.3  # what the engine writes is on the screen within half a second
IDLE_INTERVAL = 0.5  # without an engine; it grows while nothing happens
LONGEST_IDLE = 2.0  # an engine that somebody else starts is seen within this time
SHARE = 0.005  # of a processor
LONGEST_BUSY = 5.0  # but the screen moves at least so often
ENOUGH_IDLE = 0.5  # processors: an engine with a thread on each idles a little between its parallel parts
ATTENDED_SECONDS = 30.0  # somebody who has just come, or pressed a key, is still there


class Pace:
    """Chooses the pause after each look. Seconds throughout."""

    def __init__(self) -> None:
        self._attended_until = time.monotonic() + ATTENDED_SECONDS
        self._idle = IDLE_INTERVAL
        self._cpu = time.process_time()
        self._cost = 0.0

    def begin(self) -> None:
        """A look begins: what the process has used since the last one is what a look and its frame cost."""
        before, self._cpu = self._cpu, time.process_time()
        self._cost = self._cpu - before

    def attended(self) -> bool:
        """Somebody is there. True if nobody was: what stands on the screen may be old."""
        now = time.monotonic()
        fresh = now >= self._attended_until
        self._attended_until = now + ATTENDED_SECONDS
        return fresh

    def beside(self, update: Update) -> float | None:
        """The pause while the engine lives; None without one."""
        if not update.condition.alive:
            return None
        if time.monotonic() < self._attended_until or not _needs_every_processor(update.heartbeat):
            return INTERVAL
        return min(max(INTERVAL, self._cost / SHARE), LONGEST_BUSY)

    def pause(self, update: Update, *, news: bool) -> float:
        """The pause after a look. `news`: it found something, or something is about to happen."""
        self._idle = IDLE_INTERVAL if news else min(self._idle * 1.5, LONGEST_IDLE)
        pause = self.beside(update)
        return self._idle if pause is None else pause


def _needs_every_processor(beat: Heartbeat | None) -> bool:
    """Whether what is used on this machine is taken from the engine."""
    share = beat.telemetry.cpu_percent if beat is not None and beat.telemetry is not None else None
    if beat is None or share is None or beat.host != socket.gethostname():
        return False
    return (1 - share / 100) * (os.cpu_count() or 1) < ENOUGH_IDLE
