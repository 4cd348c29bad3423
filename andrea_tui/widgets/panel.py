"""A framed panel: a thin border with the number that matters in its title."""

from __future__ import annotations

from andrea_tui.feed.store import Store
from andrea_tui.widgets.rows import Row, RowsWidget, row_width, shortened

_FRAME = {"unicode": tuple("┌─┐│└┘"), "ascii": tuple("+-+|++")}


class Panel(RowsWidget):
    """Subclasses give `title` and `content`; the frame is drawn here, so that it costs no repaint of the whole."""

    NUMBER = ""

    def title(self, store: Store, room: int) -> Row:
        """Runs in the top border, after the panel's digit; `room` cells are there."""
        raise NotImplementedError

    def footer(self, store: Store) -> Row:
        """Runs in the bottom border."""
        return []

    def content(self, store: Store, width: int, height: int) -> list[Row]:
        """Rows inside of the frame."""
        raise NotImplementedError

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        if width < 4 or height < 2:
            return []
        rows = self.content(store, width - 4, height - 2)
        return self._framed(self.title(store, width - 8), rows, self.footer(store), width, height)

    def lay_out(self, store: Store, width: int, height: int) -> list[Row]:
        """The rows of a frame are plain and as wide as they should be."""
        return self.build(store, width, height) or super().lay_out(store, width, height)

    def unread(self, width: int, height: int) -> list[Row]:
        return [] if width < 4 or height < 2 else self._framed([], [], [], width, height)

    def _framed(self, title: Row, content: list[Row], footer: Row, width: int, height: int) -> list[Row]:
        top_left, line, top_right, side, bottom_left, bottom_right = _FRAME[
            "ascii" if self.kind == "ascii" else "unicode"
        ]
        left, right = (f"{side} ", "frame"), (f" {side}", "frame")
        middle = [[left, *row, right] for row in self._fitted(content, width - 4, height - 2)]
        label: Row = [(f" {self.NUMBER} ", "faint"), *self.plain(title), (" ", "")]
        return [
            self._border(top_left, line, top_right, label, width),
            *middle,
            self._border(bottom_left, line, bottom_right, self.plain(footer), width),
        ]

    def _border(self, left: str, line: str, right: str, label: Row, width: int) -> Row:
        room = width - 4
        if row_width(label) > room and label[-1][0].isspace():
            label = label[:-1]  # a border needs no blank before it
        label = self.plain(shortened(label, room))  # its ellipsis is a sign too
        rest = width - 3 - row_width(label)
        return [(left + line, "frame"), *label, (line * rest + right, "frame")]
