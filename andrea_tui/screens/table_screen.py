"""Screens around one table: what its keys do, and the base of those whose table is read by a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from textual.screen import Screen

from andrea_tui.feed.poller import Poller
from andrea_tui.widgets.table import TablePanel

Listing = TypeVar("Listing")


class TableActions:
    """What `TABLE_BINDINGS` do, for a screen that has a `table` and a `redraw`."""

    table: TablePanel

    def redraw(self) -> None:
        """Bring every widget up to what is known."""
        raise NotImplementedError

    def action_move(self, by: int) -> None:
        self.table.move(by)
        self.redraw()

    def action_page(self, by: int) -> None:
        self.table.page(by)
        self.redraw()

    def action_move_to(self, index: int) -> None:
        self.table.move_to(index)
        self.redraw()


class TableScreen(TableActions, Screen[None], Generic[Listing]):
    """The base of the checkpoint browser and of the list of runs. Subclasses give `take` and `redraw`, and name
    `TABLE_BINDINGS` among their keys. `look` runs in the thread."""

    def __init__(self, look: Callable[[], Listing | None], seconds: float) -> None:
        super().__init__()
        self._poller = Poller(look, self._found, seconds)

    def take(self, listing: Listing) -> None:
        """A new listing for the table."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self._poller.start()

    def on_unmount(self) -> None:
        self._poller.stop()

    def _found(self, listing: Listing) -> None:
        self.app.call_later(self._take, listing)

    def _take(self, listing: Listing) -> None:
        self.take(listing)
        self.redraw()
