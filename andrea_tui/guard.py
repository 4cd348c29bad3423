"""The last gate before the terminal: whatever widget drew it, no control character passes."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from andrea_engine.run.plain import clean


class ControlGuard(LineFilter):
    """Blanks out what a terminal would obey. Our own widgets show it as marks before; ready-made ones do not."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(clean(segment.text) == segment.text for segment in segments):
            return segments
        return [Segment(_blanked(segment.text), segment.style, segment.control) for segment in segments]


def _blanked(text: str) -> str:
    """As many cells as before, so that the layout stays."""
    return "".join(char if clean(char) == char else " " * cell_len(char) for char in text)
