"""`n`: the processes that train the run together."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding

from andrea_tui.feed.store import Store
from andrea_tui.screens.store_screen import StoreScreen
from andrea_tui.screens.table_screen import TableActions
from andrea_tui.widgets.key_bar import KeyLine
from andrea_tui.widgets.ranks_table import RanksTable
from andrea_tui.widgets.status_bar import StatusBar
from andrea_tui.widgets.table import TABLE_BINDINGS


class RanksScreen(StoreScreen[None], TableActions):
    """Follows the heartbeat as the dashboard does."""

    BINDINGS = [*TABLE_BINDINGS, Binding("escape,n", "dismiss", "back", show=False)]

    def __init__(self, store: Store, name: str) -> None:
        super().__init__(store)
        self._run_name = name
        self.table = RanksTable()

    def compose(self) -> ComposeResult:
        yield StatusBar(self._run_name)
        yield self.table
        yield KeyLine([("Esc", "back")])
