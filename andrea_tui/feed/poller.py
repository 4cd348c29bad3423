"""Look at something again and again in a thread of its own, and hand out what was found."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
EASE = 10.0  # the pause is at least so many times as long as the look took: a slow disk is not kept busy


class Poller(Generic[T]):
    """Calls `look` every `seconds` and passes what is not None to `deliver`; neither may raise, nor `deliver` block."""

    def __init__(self, look: Callable[[], T | None], deliver: Callable[[T], object], seconds: float) -> None:
        self._look = look
        self._deliver = deliver
        self._seconds = seconds
        self._stop = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="poller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; nothing is delivered any more once the present look is over."""
        self._stop = True
        self._wake.set()

    def look_now(self) -> None:
        """Do not wait for the end of the pause."""
        self._wake.set()

    def _run(self) -> None:
        while not self._stop:
            self._wake.clear()
            started = time.monotonic()
            found = self._look()
            if found is not None and not self._stop:
                self._deliver(found)
            self._wake.wait(max(self._seconds, EASE * (time.monotonic() - started)))
