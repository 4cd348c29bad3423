"""`?`: the keys of the screen that is open; on the dashboard every command, and why some cannot be used now.

A screen says what its keys do in a class attribute `KEYS_HELP`, pairs of keys and a sentence; without one its bindings
are listed with their descriptions.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from andrea_tui.commands import COMMANDS, KEY_NAMES, Situation
from andrea_tui.widgets.rows import LONGEST, visible

KEY_ROOM = 12  # cells
_NOTES = """\
The engine is a process of its own: closing this console, losing the connection or killing it never stops training.
Nothing is called saved before it would survive a power cut.
Select text with shift + drag. Panels: the digit shows one alone, the same digit or Esc shows all again."""
_EVERYWHERE = (
    ("? F1", "This help."),
    (": ctrl+p", "All commands that make sense here."),
    ("ctrl+q ctrl+c", "Close the console; the engine goes on."),
)

_NAMES = {
    "escape": "Esc",
    "enter": "Enter",
    "tab": "Tab",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "plus": "+",
    "minus": "-",
}


class HelpScreen(ModalScreen[None]):
    """Closes with Esc, ? or q. What it shows is made by `command_keys` or `screen_keys`."""

    BINDINGS = [
        Binding("escape,question_mark,f1,q", "close", "close", show=False),
    ]

    def __init__(self, content: RenderableType) -> None:
        super().__init__()
        self._content = content

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            yield Static(self._content)

    def action_close(self) -> None:
        self.dismiss()


def command_keys(situation: Situation) -> RenderableType:
    """Every command of the dashboard, by groups, with what stands against it now."""
    table = _table()
    group = ""
    for command in COMMANDS:
        if command.group != group:
            group = command.group
            _heading(table, group)
        text = Text(command.help)
        reason = command.reason(situation)
        if reason:
            text.append(f"\nnot now: {visible(reason[:LONGEST])}", style="italic dim")
        table.add_row(Text(" ".join(command.key_names), style="bold"), text)
    return Group(table, Text("\n" + _NOTES))


def screen_keys(screen: Screen[object]) -> RenderableType:
    """The keys of another screen, and those that work everywhere."""
    table = _table()
    table.add_row("", "")
    for keys, text in own_keys(screen):
        table.add_row(Text(keys, style="bold"), Text(text))
    _heading(table, "Everywhere")
    for keys, text in _EVERYWHERE:
        table.add_row(Text(keys, style="bold"), Text(text))
    return table


def _table() -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=KEY_ROOM, max_width=2 * KEY_ROOM)
    table.add_column()
    table.add_row(Text("Keys", style="bold"), "Esc closes")
    return table


def _heading(table: Table, text: str) -> None:
    table.add_row("", "")
    table.add_row(Text(text, style="bold"), "")


def own_keys(screen: Screen[object]) -> list[tuple[str, str]]:
    """What a screen says of its keys: pairs of keys and a sentence."""
    said: Iterable[tuple[str, str]] | None = getattr(screen, "KEYS_HELP", None)
    if said is not None:
        return list(said)
    bindings = [binding for binding in type(screen).BINDINGS if isinstance(binding, Binding) and binding.description]
    return [(" ".join(map(key_name, binding.key.split(","))), _sentence(binding.description)) for binding in bindings]


def key_name(key: str) -> str:
    """A key as people write it."""
    return _NAMES.get(key, KEY_NAMES.get(key, key))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
