"""Why the mix is what it is: one row per arm, the same in the engine, `status --json` and the console."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeGuard

from andrea_engine.curriculum.bandit import ArmState
from andrea_engine.curriculum.mixing import HeldBy

VERSION = 1
"""Version of the snapshot in `.state.json`."""


@dataclass(frozen=True, slots=True)
class ArmExplanation:
    """All that decides one arm's share of the next step. None means unknown or not applicable."""

    name: str
    available: bool
    zombie: bool  # known from the saved state or the loss record, but without a live source
    reason: str  # why it is not available, else empty
    pulls: int  # under this policy
    run_pulls: int  # over the whole run
    rejected: int  # pulls whose loss was not finite or absurd
    share: float  # of the last 500 steps of this policy
    ema: float | None  # of the loss, nats
    mean_reward: float
    spread: float | None  # standard deviation of the rewards
    bonus: float | None  # of UCB1; None if never pulled: the arm then ranks first
    in_focus: bool
    tentative: float
    epochs: float | None  # passes over the source in the whole run
    penalty: float | None  # factor 1 / (1 + epochs)
    floor: float
    cap: float | None  # None: unlimited
    weight: float
    probability: float
    held_by: HeldBy
    tokens: int | None  # one pass over the source
    stored_weight: float | None  # the weight a saved state claims for a zombie


def reconcile(
    saved: object, step: int, generation: int, arms: Mapping[str, ArmState], live: Collection[str]
) -> tuple[dict[str, float | None], list[str]]:
    """Compare a saved snapshot, whatever it holds, with the state folded from the loss record.

    Returns the zombies (name -> weight stored for it, None if unreadable) and one sentence for each finding.
    Nothing of the snapshot enters the bandit.
    """
    rows = saved.get("arms") if isinstance(saved, Mapping) else None
    if not isinstance(saved, Mapping) or not isinstance(rows, Mapping):
        return {}, ["The saved bandit state is unreadable; it was rebuilt from the loss record."]
    zombies = {
        str(name): _stored_weight(row) for name, row in rows.items() if name not in live and not _known_unavailable(row)
    }
    notices = [
        f"Arm {name!r} is in the saved bandit state but has no live source; it gets no share and no exploration"
        f" credit (saved weight {'unreadable' if weight is None else f'{weight:g}'})."
        for name, weight in zombies.items()
    ]
    place = saved.get("step"), saved.get("generation")
    if place != (step, generation):
        notices.append(
            f"The saved bandit state is of step {place[0]!r}, policy {place[1]!r}, the loss record of step {step}, "
            f"policy {generation}; it was rebuilt from the loss record."
        )
        return zombies, notices
    for name in sorted(live):
        difference = _difference(rows.get(name), arms.get(name) or ArmState())
        if difference:
            notices.append(
                f"The saved bandit state of arm {name!r} differs from the loss record ({difference}); "
                "the loss record is used."
            )
    return zombies, notices


def _finite(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < sys.float_info.max


def _known_unavailable(row: object) -> bool:
    return isinstance(row, Mapping) and row.get("available") is False and row.get("zombie") is False


def _stored_weight(row: object) -> float | None:
    if not isinstance(row, Mapping):
        return None
    value = row.get("stored_weight" if row.get("zombie") is True else "weight")
    return float(value) if _finite(value) else None


def _difference(row: object, arm: ArmState) -> str:
    if row is None:
        return f"it is not saved, recorded are {arm.pulls} pulls" if arm.pulls else ""
    if not isinstance(row, Mapping):
        return "it is not a table"
    for key, recorded in (("pulls", arm.pulls), ("ema", arm.ema), ("mean_reward", arm.mean)):
        if key in row and not _equal(row[key], recorded):
            return f"{key} {row[key]!r}, recorded {recorded!r}"
    return ""


def _equal(saved: object, recorded: float | None) -> bool:
    if saved is None or recorded is None:
        return saved is recorded
    return _finite(saved) and math.isclose(saved, recorded, rel_tol=1e-9)
