"""Every kind of event in plain words: for the events panel and for the log screen."""

from __future__ import annotations

from collections.abc import Callable

from andrea_engine.run.energy_facts import energy_quality
from andrea_engine.run.events import Event, sets_pin
from andrea_engine.run.pins import why_saved
from andrea_tui.feed.saves import saved_text
from andrea_tui.plotting.format import fixed, human_count, size_bytes


def describe(event: Event) -> tuple[str, str]:
    """An event in words, and the meaning of its colour."""
    known = WORDS.get(event.kind)
    if known is not None:
        return known(event)
    return f"{event.kind} {event.text('text')}".rstrip(), ""


def _durable(event: Event) -> tuple[str, str]:
    reason = event.text("reason")
    pinned = ", pinned" if sets_pin(event) else ""
    return f"{saved_text(event)}, {why_saved(reason)}{pinned}", "good" if reason != "cadence" else ""


def _sample(event: Event) -> tuple[str, str]:
    low = event.integer("consecutive_low") or 0
    total = event.number("total")
    points = "–" if total is None else f"{total:.1f}"
    text = f"sample at step {human_count(event.step)}: {points} of 100"
    return (f"{text}, {low} low in a row", "warn") if low else (text, "dim")


def _after(event: Event) -> str:
    seconds = event.number("after")
    return "" if seconds is None else f", {seconds:.1f} s after it was asked"


def _by(event: Event) -> str:
    return f" by {event.text('by')}" if event.text("by") else ""


def _resumed(event: Event) -> tuple[str, str]:
    return (f"resumed at step {human_count(event.step)}" if event.step else "training starts from fresh weights"), ""


def _energy(event: Event) -> tuple[str, str]:
    quality = energy_quality(event)
    how = "estimated from power readings" if quality.estimated else "read from the hardware's counters"
    gap = "" if quality.complete else "; some of it was not measured, so the sum is at least that"
    return f"energy of the run: {how}{gap}", "dim" if quality.complete else "warn"


WORDS: dict[str, Callable[[Event], tuple[str, str]]] = {
    "start": lambda e: (
        f"engine started, session {e.session}, pid {human_count(e.integer('pid')).replace(',', '')}",
        "",
    ),
    "resumed": _resumed,
    "phase": lambda e: (f"phase {e.text('phase')}", "dim"),
    "save_asked": lambda e: (f"checkpoint asked by {e.text('by')}", ""),
    "save_seen": lambda e: (f"checkpoint request seen at step {human_count(e.step)}{_after(e)}", "dim"),
    "save_writing": lambda e: (f"writing step {human_count(e.step)}, {size_bytes(e.number('bytes'))}", "dim"),
    "save_durable": _durable,
    "save_failed": lambda e: (f"NOT saved step {human_count(e.step)}: {e.text('error')}", "bad"),
    "removed": lambda e: (f"keep rule removed old checkpoints, {size_bytes(e.number('bytes'))} freed", "dim"),
    "sample": _sample,
    "validation": lambda e: (f"validation at step {human_count(e.step)}: {fixed(e.number('loss'), 3)} nats", "dim"),
    "gate": lambda e: (f"gate: {e.text('text')}", "good" if e.text("alarm") == "recovered" else "bad"),
    "nonfinite": lambda e: (f"step {human_count(e.step)}: loss or gradient not finite, step skipped", "bad"),
    "halt": lambda e: (e.text("reason"), "bad"),
    "pin": lambda e: (f"pinned step {human_count(e.step)}: {e.text('reason')}", ""),
    "unpin": lambda e: (f"unpinned step {human_count(e.step)}{_by(e)}: the keep rule may remove it", ""),
    "pivot_asked": lambda e: (f"pivot asked for step {human_count(e.step)} by {e.text('by')}", ""),
    "pivot_seen": lambda e: (
        f"pivot seen at step {human_count(e.step)}, agreed for step {human_count(e.integer('agreed'))}",
        "",
    ),
    "pivot_cancelled": lambda e: (f"pivot at step {human_count(e.step)} cancelled", "warn"),
    "pivot": lambda e: (f"pivot: policy {e.integer('generation')} after step {human_count(e.step)}", "accent"),
    "rollback": lambda e: (
        f"rolled back to step {human_count(e.step)} from {human_count(e.integer('from_step'))}",
        "warn",
    ),
    "forked": lambda e: (f"forked at step {human_count(e.step)} from {e.text('origin')}", ""),
    "override": lambda e: (f"halt overridden at step {human_count(e.step)}", "warn"),
    "energy": _energy,
    "notice": lambda e: (e.text("text"), "warn"),
    "error": lambda e: (f"error: {e.text('error')}", "bad"),
    "stop": lambda e: (f"engine ended: {e.text('reason')}", ""),
}
