"""The last line: what can be done now. What cannot is dim, and `?` tells why."""

from __future__ import annotations

from collections.abc import Iterable

from textual import events
from textual.message import Message

from andrea_tui.commands import COMMANDS, Command, Situation
from andrea_tui.feed.store import Store
from andrea_tui.widgets.rows import Row, RowsWidget, row_width

# Shown only while they can be used: dim they would only be noise.
_ONLY_WHEN_POSSIBLE = {"resume", "override", "take_over", "older", "newer", "rollback", "fork", "ask", "replay_pause"}


class KeyBar(RowsWidget):
    """Click runs the command, like its key."""

    class Pressed(Message):
        """A command was clicked."""

        def __init__(self, command: str) -> None:
            super().__init__()
            self.command = command

    def __init__(self) -> None:
        super().__init__(id="keys")
        self.read_only = ""
        self._places: list[tuple[int, int, str]] = []
        self._built_of: object = None
        self._row: Row = []

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        situation = Situation(store, self.read_only)
        shown = [(c, not c.reason(situation)) for c in COMMANDS if c.label]
        if self.read_only:  # one reason stands against all of them: it is told in the first line
            shown = [(c, possible) for c, possible in shown if possible]
        shown = [(c, possible) for c, possible in shown if possible or c.id not in _ONLY_WHEN_POSSIBLE]
        if self._built_of != (shown, width):
            self._built_of = (shown, width)
            self._row = self._line(shown, width)
        return [self._row]

    def _line(self, shown: list[tuple[Command, bool]], width: int) -> Row:
        row: Row = [(" ", "")]
        self._places = []
        always = row_width([run for c, _ in shown if c.id in ("help", "palette") for run in shown_keys(c, True)])
        for command, possible in shown:
            runs = shown_keys(command, possible)
            last = command.id in ("help", "palette")
            if row_width(row) + row_width(runs) + (0 if last else always) > width:
                continue
            start = row_width(row)
            row += runs
            self._places.append((start, row_width(row), command.id))
        return row

    def on_click(self, event: events.Click) -> None:
        for start, end, command in self._places:
            if start <= event.x < end:
                self.post_message(self.Pressed(command))


class KeyLine(RowsWidget):
    """The last line of a screen whose keys can always be used: pairs of a key and its label."""

    def __init__(self, keys: Iterable[tuple[str, str]]) -> None:
        super().__init__(id="keys")
        self._keys = tuple(keys)

    def show(self, keys: Iterable[tuple[str, str]]) -> None:
        """Other keys from the next drawing on."""
        self._keys = tuple(keys)

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        return [[(" ", ""), *(run for key, label in self._keys for run in key_and_label(key, label))]]


def shown_keys(command: Command, possible: bool) -> Row:
    """The key of a command and its label."""
    return key_and_label(command.key_name, command.label, possible=possible)


def key_and_label(key: str, label: str, *, possible: bool = True) -> Row:
    """A key and what it does, dim when that is not possible now."""
    return [(key, "key" if possible else "key-off"), (f" {label}  ", "" if possible else "key-off")]
