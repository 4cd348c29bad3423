"""A page of terminal cells: one character and one style name each, read out as runs."""

from __future__ import annotations

import re

from .format import one_cell, to_ascii

Run = tuple[str, str]
_SAME = re.compile(rb"(.)\1*", re.DOTALL)


class CellGrid:
    """`height` rows of exactly `width` cells, blank at first (a space in style ''). Nothing written outside sticks.

    Text is made to fit: a character that is not one cell wide becomes '?', with `ascii_only` so does every one that
    has no ASCII look-alike.
    """

    __slots__ = ("_ids", "_names", "ascii_only", "chars", "height", "styles", "width")

    def __init__(self, width: int, height: int, *, ascii_only: bool = False) -> None:
        self.width = max(width, 0)
        self.height = max(height, 0)
        self.ascii_only = ascii_only
        self.chars: list[list[str]] = [[" "] * self.width for _ in range(self.height)]
        self.styles: list[bytearray] = [bytearray(self.width) for _ in range(self.height)]
        self._names = [""]
        self._ids = {"": 0}

    def style_id(self, name: str) -> int:
        """The number under which `styles` holds this name; ValueError beyond 255 names."""
        found = self._ids.get(name)
        if found is None:
            found = len(self._names)
            if found > 255:
                raise ValueError("more than 255 styles on one page")
            self._names.append(name)
            self._ids[name] = found
        return found

    def put(self, row: int, col: int, text: str, style: str) -> None:
        """Write `text` from (row, col) to the right, cut at the page's edges."""
        if not 0 <= row < self.height:
            return
        text = text[max(-col, 0) : max(self.width - col, 0)]
        col = max(col, 0)
        if not text:
            return
        text = one_cell(text)
        self.chars[row][col : col + len(text)] = to_ascii(text) if self.ascii_only else text
        self.styles[row][col : col + len(text)] = bytes([self.style_id(style)]) * len(text)

    def restyle(self, row: int, col: int, style: str) -> None:
        """Change the style of one cell and keep its character."""
        if 0 <= row < self.height and 0 <= col < self.width:
            self.styles[row][col] = self.style_id(style)

    def blank(self, row: int, col: int, length: int = 1) -> bool:
        """Whether all these cells exist and are empty."""
        if not 0 <= row < self.height or col < 0 or col + length > self.width:
            return False
        return all(char in " \u2800" for char in self.chars[row][col : col + length])

    def rows(self) -> list[list[Run]]:
        """The page as rows of (text, style) runs; neighbours of one style are one run."""
        names = self._names
        return [
            [("".join(chars[run.start() : run.end()]), names[styles[run.start()]]) for run in _SAME.finditer(styles)]
            for chars, styles in zip(self.chars, self.styles, strict=True)
        ]
