"""What happened? The event log in plain words, newest first."""

from __future__ import annotations

from andrea_tui.feed.event_words import describe
from andrea_tui.feed.log_text import clock
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import human_count
from andrea_tui.view import ViewState
from andrea_tui.widgets.panel import Panel
from andrea_tui.widgets.rows import Row

_HIDDEN = {"save_writing", "save_seen"}


class EventsPanel(Panel):
    NUMBER = "5"

    def __init__(self, view: ViewState | None = None) -> None:
        super().__init__(id="events")
        self.view = view if view is not None else ViewState()

    def title(self, store: Store, room: int) -> Row:
        if self.view.cursor is not None:
            return [("events", "title"), (f"  at the cursor, step {human_count(self.view.cursor)}", "cursor-text")]
        return [("events", "title"), ("  newest first, v shows all", "faint")]

    def content(self, store: Store, width: int, height: int) -> list[Row]:
        rows: list[Row] = []
        cursor = self.view.cursor
        waiting = cursor is not None  # until the newest event of the cursor's step or before
        for event in reversed(store.events):
            if len(rows) >= height:
                break
            if waiting and (event.step is None or cursor is None or event.step > cursor):
                continue
            waiting = False
            if event.kind in _HIDDEN:
                continue
            text, style = describe(event)
            rows.append([(f"{when(event.time, store.updated)}  ", "dim"), (text, style)])
        nothing = "nothing has happened yet" if cursor is None else "no event from then or before is kept here"
        return rows or [[(nothing, "message")]]


def when(seconds: float, now: float) -> str:
    """The time of a day that is today, else day and time; always as wide."""
    today = clock(seconds, "%Y-%m-%d") == clock(now, "%Y-%m-%d")
    return clock(seconds, "%H:%M:%S" if today else "%m-%d %H:%M")[:11].ljust(11)
