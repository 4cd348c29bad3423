"""Rows of the arms table, read from a bandit snapshot of any age and quality."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice

import msgspec

MOST_ARMS = 1000  # that are shown; a state may claim any number


class ArmRow(msgspec.Struct, frozen=True):
    """One arm as the screen shows it; None is unknown. `share` is of the last 500 steps, `cap` None is unlimited."""

    name: str
    available: bool
    zombie: bool
    reason: str
    pulls: int | None
    share: float | None
    ema: float | None
    mean_reward: float | None
    spread: float | None
    bonus: float | None
    tentative: float | None
    in_focus: bool
    epochs: float | None
    penalty: float | None
    floor: float | None
    cap: float | None
    weight: float | None
    probability: float | None
    held_by: str
    stored_weight: float | None


def arm_rows(snapshot: object) -> list[ArmRow]:
    """Rows of a snapshot (`.state.json`, or the heartbeat's `curriculum`), largest share first."""
    arms = snapshot.get("arms") if isinstance(snapshot, Mapping) else None
    if not isinstance(arms, Mapping):
        return []
    rows = [_row(str(name), arm) for name, arm in islice(arms.items(), MOST_ARMS) if isinstance(arm, Mapping)]
    return sorted(rows, key=lambda row: (not row.available, -(row.share or 0.0), -(row.weight or 0.0), row.name))


def _row(name: str, arm: Mapping[str, object]) -> ArmRow:
    held_by = arm.get("held_by")
    reason = arm.get("reason")
    pulls = _number(arm.get("pulls"))
    return ArmRow(
        name=name,
        available=arm.get("available", True) is not False,
        zombie=arm.get("zombie") is True,
        reason=reason if isinstance(reason, str) else "",
        pulls=None if pulls is None else int(pulls),
        share=_number(arm.get("share")),
        ema=_number(arm.get("ema")),
        mean_reward=_number(arm.get("mean_reward")),
        spread=_number(arm.get("spread")),
        bonus=_number(arm.get("bonus")),
        tentative=_number(arm.get("tentative")),
        in_focus=arm.get("in_focus") is True,
        epochs=_number(arm.get("epochs")),
        penalty=_number(arm.get("penalty")),
        floor=_number(arm.get("floor")),
        cap=_number(arm.get("cap")),
        weight=_number(arm.get("weight")),
        probability=_number(arm.get("probability")),
        held_by=held_by if isinstance(held_by, str) else "",
        stored_weight=_number(arm.get("stored_weight")),
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def focus_text(snapshot: object, step: int) -> str:
    """`focus 2 of 5, 23 steps left`, or '' when the snapshot does not tell."""
    focus = snapshot.get("focus") if isinstance(snapshot, Mapping) else None
    if not isinstance(focus, Mapping) or not isinstance(focus.get("arms"), list):
        return ""
    live = sum(1 for row in arm_rows(snapshot) if row.available)
    until = _number(focus.get("until"))
    left = "" if until is None else f", {max(0, int(until) - step):d} steps left"
    return f"focus {len(focus['arms'])} of {live}{left}"
