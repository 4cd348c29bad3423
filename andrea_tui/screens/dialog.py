"""A small question over the screen: what Enter does, what d does, and Esc goes back."""

from __future__ import annotations

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from andrea_tui.widgets.rows import LONGEST, visible


class Choice(msgspec.Struct, frozen=True):
    """A key and what it does. `result` is handed to the caller."""

    key: str
    name: str
    text: str
    result: str


class Dialog(ModalScreen[str]):
    """Ends with the result of a choice, or '' for Esc. The key that opened it does nothing here."""

    BINDINGS = [Binding("escape", "back", "back", show=False)]

    def __init__(self, title: str, lines: list[str], choices: list[Choice]) -> None:
        super().__init__()
        self._title = title
        self._lines = lines
        self._choices = choices

    def compose(self) -> ComposeResult:
        text = Text()
        for line in self._lines:
            text.append(visible(line[:LONGEST]) + "\n")
        text.append("\n")
        for choice in self._choices:
            text.append(f"  {choice.name:<6}", style="bold")
            text.append(f"  {visible(choice.text[:LONGEST])}\n")
        text.append("  Esc   ", style="bold")
        text.append("  back")
        with Vertical(id="dialog"):
            yield Static(Text(self._title, style="bold"), id="dialog-title")
            yield Static(text, id="dialog-text")

    def on_mount(self) -> None:
        for choice in self._choices:
            self._bindings.bind(choice.key, f"choose({choice.result!r})", choice.text, show=False)

    def action_choose(self, result: str) -> None:
        self.dismiss(result)

    def action_back(self) -> None:
        self.dismiss("")
