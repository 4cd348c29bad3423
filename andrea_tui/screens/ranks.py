"""`n`: the processes that train the run together."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen

from andrea_tui.feed.store import Store
from andrea_tui.widgets.key_bar import key_and_label
from andrea_tui.widgets.ranks_table import RanksTable
from andrea_tui.widgets.rows import Row, RowsWidget
from andrea_tui.widgets.status_bar import StatusBar
from andrea_tui.widgets.table import TABLE_BINDINGS

FRAME_SECONDS = 0.25


class RanksKeys(RowsWidget):
    """The one thing to do here."""

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        return [[(" ", ""), *key_and_label("Esc", "back")]]


class RanksScreen(Screen[None]):
    """Follows the heartbeat as the dashboard does."""

    BINDINGS = [*TABLE_BINDINGS, Binding("escape,n", "dismiss", "back", show=False)]

    def __init__(self, store: Store, name: str) -> None:
        super().__init__()
        self._store = store
        self._run_name = name
        self._drawn = -1
        self.table = RanksTable()

    def compose(self) -> ComposeResult:
        yield StatusBar(self._run_name)
        yield self.table
        yield RanksKeys(id="keys")

    def on_mount(self) -> None:
        self.set_interval(FRAME_SECONDS, self._frame)

    def on_resize(self) -> None:
        self._drawn = -1

    def _frame(self) -> None:
        if self._drawn != self._store.version:
            self._drawn = self._store.version
            for widget in self.query(RowsWidget):
                widget.update_from(self._store)

    def _moved(self) -> None:
        self.table.update_from(self._store)

    def action_move(self, by: int) -> None:
        self.table.move(by)
        self._moved()

    def action_page(self, by: int) -> None:
        self.table.page(by)
        self._moved()

    def action_move_to(self, index: int) -> None:
        self.table.move_to(index)
        self._moved()
