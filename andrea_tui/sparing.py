"""Send only the cells that changed.

Textual 8.2 repaints a changed part of a widget from the widget's left edge on. On a status line that ticks several
times a second most of what goes over ssh would be cells that are on the screen already.
"""

from __future__ import annotations

from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate, Compositor


class SparingUpdate(ChopsUpdate):
    """Spans of lines, each from its first changed cell to its last."""

    def render_segments(self, console: Console) -> str:
        """What to write to the terminal."""
        parts: list[str] = []
        for y, x1, x2 in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                first, last = max(x, x1), min(end, x2)
                if strip is not None and first < last:
                    parts.append(Control.move_to(first, y).segment.text)
                    parts.append(strip.crop(first - x, last - x).render(console))
        return "".join(parts)


class SparingCompositor(Compositor):
    """A screen's compositor whose partial updates are no wider than they have to be."""

    def render_partial_update(self) -> ChopsUpdate | None:
        update = super().render_partial_update()
        return None if update is None else SparingUpdate(update.chops, update.spans, update.chop_ends)
