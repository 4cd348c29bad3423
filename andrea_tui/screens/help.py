"""`?`: every command with its key, and why some cannot be used now."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from andrea_tui.commands import COMMANDS, KEY_NAMES, Situation
from andrea_tui.widgets.rows import LONGEST, visible

_NOTES = """\
The engine is a process of its own: closing this console, losing the connection or killing it never stops training.
Nothing is called saved before it would survive a power cut.
Select text with shift + drag. Panels: the digit shows one alone, the same digit or Esc shows all again."""


class HelpScreen(ModalScreen[None]):
    """Closes with Esc, ? or q."""

    BINDINGS = [
        Binding("escape,question_mark,f1,q", "close", "close", show=False),
    ]

    def __init__(self, situation: Situation) -> None:
        super().__init__()
        self._situation = situation

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            yield Static(self._text())

    def _text(self) -> Text:
        text = Text()
        text.append("Keys", style="bold")
        text.append("   Esc closes\n")
        group = ""
        for command in COMMANDS:
            if command.group != group:
                group = command.group
                text.append(f"\n{group}\n", style="bold")
            keys = " ".join(KEY_NAMES.get(key, key) for key in command.keys)
            text.append(f"  {keys:<10}", style="bold")
            text.append(command.help)
            reason = command.reason(self._situation)
            if reason:
                text.append(f"\n            not now: {visible(reason[:LONGEST])}", style="italic dim")
            text.append("\n")
        text.append("\n" + _NOTES)
        return text

    def action_close(self) -> None:
        self.dismiss()
