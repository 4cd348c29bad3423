"""The last line: what can be done now. What cannot is dim, and `?` tells why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual import events
from textual.message import Message

from andrea_tui.commands import COMMANDS, Situation
from andrea_tui.feed.store import Store
from andrea_tui.widgets.rows import Row, RowsWidget, row_width

# Shown only while they can be used: dim they would only be noise.
_ONLY_WHEN_POSSIBLE = {"resume", "override", "take_over", "older", "newer", "rollback", "fork", "ask", "replay_pause"}


_WAYS_OUT = ("Esc", "q", "?")


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
        shown = []
        for command in COMMANDS:
            possible = not command.reason(situation)
            # Of a console that may not act one reason stands against all keys: it is told in the first line.
            hidden = not possible and (self.read_only or command.id in _ONLY_WHEN_POSSIBLE)
            if command.label and not hidden:
                runs = key_and_label(command.key_name, command.label_in(situation), possible=possible)
                shown.append((command.id, runs))
        if self._built_of != (shown, width):
            self._built_of = (shown, width)
            self._row = self._line(shown, width)
        return [self._row]

    def _line(self, shown: list[tuple[str, Row]], width: int) -> Row:
        row: Row = [(" ", "")]
        self._places = []
        for index in fitting([(runs, command in ("help", "palette")) for command, runs in shown], width):
            command, runs = shown[index]
            start = row_width(row)
            row += runs
            self._places.append((start, row_width(row), command))
        return row

    def on_click(self, event: events.Click) -> None:
        for start, end, command in self._places:
            if start <= event.x < end:
                self.post_message(self.Pressed(command))


class KeyLine(RowsWidget):
    """The last line of a screen whose keys can always be used: pairs of a key and its label, those first without which
    the screen is of no use."""

    def __init__(self, keys: Iterable[tuple[str, str]]) -> None:
        super().__init__(id="keys")
        self._keys = tuple(keys)

    def show(self, keys: Iterable[tuple[str, str]]) -> None:
        """Other keys from the next drawing on."""
        self._keys = tuple(keys)

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        return [whole_keys([(key, key_and_label(key, label)) for key, label in self._keys], width)]


def fitting(keys: Sequence[tuple[Row, bool]], width: int) -> list[int]:
    """Which keys stand whole in a line of `width` cells, the first ones first; room is kept for those
    marked True, which lead out of everything."""
    left = width - 1
    always = sum(row_width(runs) for runs, stays in keys if stays)
    shown = []
    for index, (runs, stays) in enumerate(keys):
        cells = row_width(runs)
        always -= cells * stays
        if cells + always <= left:
            shown.append(index)
            left -= cells
    return shown


def whole_keys(keys: Sequence[tuple[str, Row]], width: int) -> Row:
    """A line of keys, each with its runs, none of which is cut in two."""
    shown = fitting([(runs, key in _WAYS_OUT) for key, runs in keys], width)
    return [(" ", ""), *(run for index in shown for run in keys[index][1])]


def key_and_label(key: str, label: str, *, possible: bool = True) -> Row:
    """A key and what it does, dim when that is not possible now."""
    return [(key, "key" if possible else "key-off"), (f" {label}  ", "" if possible else "key-off")]
