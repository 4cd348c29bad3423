"""Where the coherence gate stands, as the events of a run tell it: for whoever must not score samples itself."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from andrea_engine.run.events import Event


class GateFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The counters after the newest sample that counts. `window_low` of the last `window_filled` samples are low.

    `first_bad_step` begins the present low streak, None while there is none. `alarms` are the kinds whose condition
    is true now: `collapse`, `window`, `axis`, `divergence`.
    """

    low_in_row: int = 0
    window_low: int = 0
    window_filled: int = 0
    last_good_step: int | None = None
    first_bad_step: int | None = None
    alarms: list[str] = []


def gate_facts(events: Iterable[Event]) -> GateFacts | None:
    """The gate's counters on the present branch of the run; None when no sample is known.

    An override and a pivot begin a new count; a roll-back takes back what came after its step.
    """
    branch: list[tuple[int, GateFacts]] = []
    for event in events:
        step = event.step
        if step is None:
            continue
        if event.kind == "sample":
            branch.append((step, _facts(event)))
        elif event.kind in {"override", "pivot"}:
            branch.append((step, GateFacts()))
        elif event.kind == "rollback":
            branch = [(at, facts) for at, facts in branch if at <= step]
    return branch[-1][1] if branch else None


def nonfinite_halt(events: Iterable[Event]) -> Event | None:
    """The halt because of steps that were not finite which nobody has answered yet; its `step` is not None.

    An override, a roll-back and a pivot are answers.
    """
    halt: Event | None = None
    for event in events:
        if event.kind == "halt" and event.step is not None:
            halt = event if event.text("cause") == "nonfinite" else None
        elif event.kind in {"override", "rollback", "pivot"}:
            halt = None
    return halt


def counted_after(events: Iterable[Event]) -> int:
    """Samples up to this step do not count: the operator went on in spite of them. -1 when all count."""
    overrides: list[int] = []
    for event in events:
        if event.step is None:
            continue
        if event.kind == "override":
            overrides.append(event.step)
        elif event.kind == "rollback":
            overrides = [step for step in overrides if step <= event.step]
    return overrides[-1] if overrides else -1


def _facts(event: Event) -> GateFacts:
    alarms = event.facts.get("alarms")
    return GateFacts(
        low_in_row=event.integer("consecutive_low") or 0,
        window_low=event.integer("window_low") or 0,
        window_filled=event.integer("window_filled") or 0,
        last_good_step=event.integer("last_good_step"),
        first_bad_step=event.integer("first_bad_step"),
        alarms=[str(kind) for kind in alarms] if isinstance(alarms, list) else [],
    )
