"""The engine has ended badly, or gets nowhere: how, what is lost, what its log says last, and the keys that help."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from textual.geometry import Size

from andrea_tui.commands import BY_ID, Situation
from andrea_tui.feed.store import Store
from andrea_tui.feed.trouble import Trouble
from andrea_tui.widgets.key_bar import key_and_label
from andrea_tui.widgets.panel import Panel
from andrea_tui.widgets.rows import LONGEST, Row, visible

FACT_ROWS = 4  # of one sentence
MOST_ROWS = 100


class TroublePanel(Panel):
    """`trouble` is set by the screen; None draws nothing."""

    def __init__(self) -> None:
        super().__init__(id="trouble")
        self.trouble: Trouble | None = None
        self.read_only = ""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        rows = self.content(self.store, width - 4, MOST_ROWS) if self.store is not None else []
        return len(rows) + 2

    def title(self, store: Store, room: int) -> Row:
        found = self.trouble
        return [] if found is None else [(f"{'✕' if found.ended else '▲'} {found.title}", "bad")]

    def content(self, store: Store, width: int, height: int) -> list[Row]:
        found = self.trouble
        if found is None:
            return []
        rows: list[Row] = []
        for number, fact in enumerate(found.facts):
            rows += [[(line, "bright" if number == 0 else "")] for line in _wrapped(fact, width)]
        rows.append(self._keys(store))
        if not found.ended:
            return rows
        heading = found.log_note or "the last lines of its log"
        rows.append([(f"── {heading} ", "dim")])
        room = height - len(rows)
        return rows + [[(line, "label")] for line in (found.log_lines[-room:] if room > 0 else ())]

    def _keys(self, store: Store) -> Row:
        row: Row = []
        if self.trouble is not None and self.trouble.ended:
            reason = BY_ID["resume"].reason(Situation(store, self.read_only))
            row += key_and_label("r", "resume", possible=not reason)
        return [*row, *key_and_label("v", "log"), *key_and_label("Esc", "put this away")]


def _wrapped(text: str, width: int) -> Iterator[str]:
    shown = " ".join(visible(text[:LONGEST]).split())
    room = width if shown.isascii() else width // 2  # a sign may be two cells wide
    yield from textwrap.wrap(shown, max(1, room), max_lines=FACT_ROWS, placeholder=" …")
