"""A screen that follows the store: the base of the samples in full width and of the table of ranks."""

from __future__ import annotations

from typing import TypeVar

from textual.screen import Screen

from andrea_tui.feed.store import Store
from andrea_tui.widgets.rows import RowsWidget

Result = TypeVar("Result")
FRAME_SECONDS = 0.25


class StoreScreen(Screen[Result]):
    """All rows are brought up to the store when it has changed, and when the size has."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._drawn = -1

    def on_mount(self) -> None:
        self.set_interval(FRAME_SECONDS, self._frame)

    def on_resize(self) -> None:
        self._drawn = -1

    def _frame(self) -> None:
        if self._drawn != self._store.version:
            self._drawn = self._store.version
            self.redraw()

    def redraw(self) -> None:
        """Bring every widget up to what is known."""
        for widget in self.query(RowsWidget):
            widget.update_from(self._store)
