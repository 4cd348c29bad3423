"""The samples in full width: after a halt, what happened and what can be done; else the last two side by side."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding

from andrea_tui.commands import BY_ID, Situation
from andrea_tui.feed.store import Store
from andrea_tui.screens.store_screen import StoreScreen
from andrea_tui.widgets.key_bar import key_and_label, whole_keys
from andrea_tui.widgets.rows import Row, RowsWidget
from andrea_tui.widgets.sample_compare import SampleCompare
from andrea_tui.widgets.status_bar import StatusBar

CHOICES = ("rollback", "fork", "pivot", "override", "ask", "detach", "help")


class Choices(RowsWidget):
    """The commands that lead on from here."""

    def __init__(self) -> None:
        super().__init__(id="keys")
        self.read_only = ""

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        situation = Situation(store, self.read_only)
        choices = [BY_ID[name] for name in CHOICES if not BY_ID[name].reason(situation)]
        keys = [("Esc", "all panels"), *((command.key_name, command.label) for command in choices)]
        return [whole_keys([(key, key_and_label(key, label)) for key, label in keys], width)]


class SamplesScreen(StoreScreen[str]):
    """Ends with the id of the command that was chosen, or '' for Esc."""

    BINDINGS = [
        Binding("escape,e", "leave('')", "all panels", show=False),
        *(
            Binding(",".join(BY_ID[name].keys), f"leave('{name}')", BY_ID[name].help, show=False)
            for name in CHOICES
            if name != "help"
        ),
    ]

    def __init__(self, store: Store, name: str, read_only: str) -> None:
        super().__init__(store)
        self._run_name = name
        self._read_only = read_only

    def compose(self) -> ComposeResult:
        yield StatusBar(self._run_name)
        yield SampleCompare(id="compare")
        yield Choices()

    def on_mount(self) -> None:
        self.query_one(Choices).read_only = self._read_only

    def action_leave(self, name: str) -> None:
        self.dismiss(name)
