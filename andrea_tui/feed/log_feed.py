"""The thread that reads logs for the log screen: orders in, pages out. Nothing blocks the one who asks."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from andrea_tui.feed.log_window import LogWindow, Page, SupersededError

INTERVAL = 0.25
COUNTED_AT_ONCE = 8  # blocks between two looks at the orders
TELL_SECONDS = 0.15  # between two pages that only say how far a search is

Order = Callable[[LogWindow], object]


class LogFeed:
    """Serves one of several windows at a time. `deliver(name, page)` is called in the thread and must not block.

    An order that comes while a long search is under way ends that search.
    """

    def __init__(self, windows: Mapping[str, LogWindow], deliver: Callable[[str, Page], object], first: str) -> None:
        self._windows = windows
        self._deliver = deliver
        self._name = first
        self._orders: list[tuple[str, Order]] = []
        self._changed = threading.Condition()
        self._stopping = False
        self._last: tuple[str, Page] | None = None
        self._told = self._counts_told = 0.0
        self._owed = True  # something changed that was not handed over yet
        self._uncounted = False
        self._thread = threading.Thread(target=self._run, name="log reader", daemon=True)
        for window in windows.values():
            window.busy = self._busy

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(timeout=2.0)

    def ask(self, name: str, order: Order = lambda window: None) -> None:
        """Carry `order` out on the window called `name`, and show that window from now on."""
        with self._changed:
            self._orders.append((name, order))
            self._changed.notify()

    def _busy(self, share: float) -> None:
        """Between two blocks of a long search."""
        with self._changed:
            if self._orders or self._stopping:
                raise SupersededError
        now = time.monotonic()
        if now - self._told >= TELL_SECONDS and self._last is not None and self._last[0] == self._name:
            self._told = now
            self._deliver(self._name, replace(self._last[1], searched=share))

    def _run(self) -> None:
        counting = False
        try:
            while True:
                with self._changed:
                    if not counting:
                        self._changed.wait_for(lambda: self._orders or self._stopping, timeout=INTERVAL)
                    if self._stopping:
                        return
                    orders, self._orders = self._orders, []
                counting = self._serve(orders)
        finally:
            for window in self._windows.values():
                window.file.close()

    def _serve(self, orders: list[tuple[str, Order]]) -> bool:
        """One round; True when counting has to go on. Never raises: a dead thread would show an old page for ever."""
        self._told = time.monotonic()
        try:
            for name, order in orders:
                self._name = name
                self._windows[name].refresh()
                with contextlib.suppress(SupersededError):
                    order(self._windows[name])
            window = self._windows[self._name]
            self._owed = window.refresh() or bool(orders) or self._owed
            before = window.counted
            counting = window.count_on(COUNTED_AT_ONCE)
            self._uncounted = self._uncounted or window.counted != before
            due = not counting or time.monotonic() - self._counts_told >= TELL_SECONDS
            if self._owed or (self._uncounted and due):
                self._hand_over(window.page())
                self._counts_told = time.monotonic()
                self._owed = self._uncounted = False
            return counting
        except SupersededError:
            return False  # the page that was cut off is still owed
        except Exception as error:  # whatever it is, a person has to see it
            self._hand_over(Page(name=self._name, problem=f"it cannot be read: {type(error).__name__}: {error}"))
            return False

    def _hand_over(self, page: Page) -> None:
        if (self._name, page) != self._last:
            self._last = (self._name, page)
            self._deliver(self._name, page)
