"""What happened? The event log in plain words, newest first."""

from __future__ import annotations

import time
from collections.abc import Callable

from andrea_engine.run.events import Event
from andrea_tui.feed.saves import saved_text
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import fixed, human_count, size_bytes
from andrea_tui.widgets.panel import Panel
from andrea_tui.widgets.rows import Row

_HIDDEN = {"save_writing", "save_seen"}


class EventsPanel(Panel):
    NUMBER = "5"

    def __init__(self) -> None:
        super().__init__(id="events")

    def title(self, store: Store, room: int) -> Row:
        return [("events", "title")]

    def content(self, store: Store, width: int, height: int) -> list[Row]:
        rows: list[Row] = []
        for event in reversed(store.events):
            if len(rows) >= height:
                break
            if event.kind in _HIDDEN:
                continue
            text, style = describe(event)
            rows.append([(time.strftime("%H:%M:%S  ", time.localtime(event.time)), "dim"), (text, style)])
        return rows or [[("nothing has happened yet", "message")]]


def describe(event: Event) -> tuple[str, str]:
    """An event in words, and the meaning of its colour."""
    known = _WORDS.get(event.kind)
    if known is not None:
        return known(event)
    return f"{event.kind} {event.text('text')}".rstrip(), ""


def _durable(event: Event) -> tuple[str, str]:
    reasons = {"operator": "asked for by you, pinned", "stop": "before the stop", "final": "end of the training"}
    reason = event.text("reason")
    return f"{saved_text(event)}, {reasons.get(reason, reason)}", "good" if reason != "cadence" else ""


def _sample(event: Event) -> tuple[str, str]:
    low = event.integer("consecutive_low") or 0
    total = event.number("total")
    points = "–" if total is None else f"{total:.1f}"
    text = f"sample at step {human_count(event.step)}: {points} of 100"
    return (f"{text}, {low} low in a row", "warn") if low else (text, "dim")


def _resumed(event: Event) -> tuple[str, str]:
    return (f"resumed at step {human_count(event.step)}" if event.step else "training starts from fresh weights"), ""


_WORDS: dict[str, Callable[[Event], tuple[str, str]]] = {
    "start": lambda e: (
        f"engine started, session {e.session}, pid {human_count(e.integer('pid')).replace(',', '')}",
        "",
    ),
    "resumed": _resumed,
    "phase": lambda e: (f"phase {e.text('phase')}", "dim"),
    "save_asked": lambda e: (f"checkpoint asked by {e.text('by')}", ""),
    "save_durable": _durable,
    "save_failed": lambda e: (f"NOT saved step {human_count(e.step)}: {e.text('error')}", "bad"),
    "removed": lambda e: (f"keep rule removed old checkpoints, {size_bytes(e.number('bytes'))} freed", "dim"),
    "sample": _sample,
    "validation": lambda e: (f"validation at step {human_count(e.step)}: {fixed(e.number('loss'), 3)} nats", "dim"),
    "gate": lambda e: (f"gate: {e.text('text')}", "good" if e.text("alarm") == "recovered" else "bad"),
    "nonfinite": lambda e: (f"step {human_count(e.step)}: loss or gradient not finite, step skipped", "bad"),
    "halt": lambda e: (e.text("reason"), "bad"),
    "pin": lambda e: (f"pinned step {human_count(e.step)}: {e.text('reason')}", ""),
    "pivot_asked": lambda e: (f"pivot asked for step {human_count(e.step)} by {e.text('by')}", ""),
    "pivot_cancelled": lambda e: (f"pivot at step {human_count(e.step)} cancelled", "warn"),
    "pivot": lambda e: (f"pivot: policy {e.integer('generation')} after step {human_count(e.step)}", "accent"),
    "rollback": lambda e: (
        f"rolled back to step {human_count(e.step)} from {human_count(e.integer('from_step'))}",
        "warn",
    ),
    "forked": lambda e: (f"forked at step {human_count(e.step)} from {e.text('origin')}", ""),
    "override": lambda e: (f"halt overridden at step {human_count(e.step)}", "warn"),
    "notice": lambda e: (e.text("text"), "warn"),
    "error": lambda e: (f"error: {e.text('error')}", "bad"),
    "stop": lambda e: (f"engine ended: {e.text('reason')}", ""),
}
