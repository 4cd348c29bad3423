"""A screen around one table that a thread reads: the base of the checkpoint browser and of the list of runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from textual.screen import Screen

from andrea_tui.feed.poller import Poller
from andrea_tui.widgets.table import TablePanel

Listing = TypeVar("Listing")


class TableScreen(Screen[None], Generic[Listing]):
    """Subclasses give `take` and `redraw`, and name `TABLE_BINDINGS` among their keys. `look` runs in the thread."""

    table: TablePanel

    def __init__(self, look: Callable[[], Listing | None], seconds: float) -> None:
        super().__init__()
        self._poller = Poller(look, self._found, seconds)

    def take(self, listing: Listing) -> None:
        """A new listing for the table."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Bring every widget up to what is known."""
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

    def action_move(self, by: int) -> None:
        self.table.move(by)
        self.redraw()

    def action_page(self, by: int) -> None:
        self.table.page(by)
        self.redraw()

    def action_move_to(self, index: int) -> None:
        self.table.move_to(index)
        self.redraw()
