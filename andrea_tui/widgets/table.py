"""A framed table with a cursor: the base of the checkpoint browser and of the list of runs."""

from __future__ import annotations

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from andrea_tui.feed.store import Store
from andrea_tui.widgets.panel import Panel
from andrea_tui.widgets.rows import Row

TABLE_BINDINGS: list[BindingType] = [
    Binding("up,k", "move(-1)", "up", show=False),
    Binding("down,j", "move(1)", "down", show=False),
    Binding("pageup", "page(-1)", "page up", show=False),
    Binding("pagedown", "page(1)", "page down", show=False),
    Binding("home", "move_to(0)", "first", show=False),
    Binding("end", "move_to(-1)", "last", show=False),
]
MARGIN = 2  # cells of the cursor's sign


class TablePanel(Panel):
    """Subclasses give `count`, `heading` and `line`; here are the cursor and what of the table is in view."""

    class Chosen(Message):
        """The row under the cursor was clicked once more."""

    def __init__(self, *, id: str) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self.cursor = 0
        self._top = 0

    @property
    def count(self) -> int:
        """Rows of the table."""
        raise NotImplementedError

    def heading(self, width: int) -> Row:
        raise NotImplementedError

    def line(self, index: int, width: int) -> Row:
        raise NotImplementedError

    def above(self, store: Store, width: int) -> list[Row]:
        """Rows over the heading."""
        return []

    def nothing(self) -> Row:
        """What stands there when the table has no rows."""
        raise NotImplementedError

    def content(self, store: Store, width: int, height: int) -> list[Row]:
        head = [
            *self.above(store, width),
            [("", "")] * (height > 12),
            [(" " * MARGIN, ""), *self.heading(width - MARGIN)],
        ]
        self._head = len(head) + 1  # and the border
        if not self.count:
            return [*head[:-1], self.nothing()]
        room = self._room = max(1, height - len(head))
        self.cursor = max(0, min(self.cursor, self.count - 1))
        self._top = max(min(self._top, self.cursor, self.count - room), self.cursor - room + 1, 0)
        shown = range(self._top, min(self.count, self._top + room))
        return head + [self._marked(index, width) for index in shown]

    _head = 1
    _room = 1

    def _marked(self, index: int, width: int) -> Row:
        line = self.line(index, width - MARGIN)
        if index != self.cursor:
            return [(" " * MARGIN, ""), *line]
        return [
            ("› ", "accent-bold"),
            *((text, "bright" if meaning in ("", "dim") else meaning) for text, meaning in line),
        ]

    def move(self, by: int) -> None:
        """Move the cursor by rows; it stays in the table."""
        self.cursor = max(0, min(self.count - 1, self.cursor + by))

    def page(self, by: int) -> None:
        self.move(by * max(1, self._room - 1))

    def move_to(self, index: int) -> None:
        self.cursor = index if index >= 0 else max(0, self.count + index)

    def on_click(self, event: events.Click) -> None:
        index = self._top + int(event.y) - self._head
        if not 0 <= index < self.count or event.y < self._head:
            return
        if index == self.cursor:
            self.post_message(self.Chosen())
        self.cursor = index
        self._redraw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.move(3)
        self._redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.move(-3)
        self._redraw()

    def _redraw(self) -> None:
        if self.store is not None:
            self.update_from(self.store)
