"""From tentative weight to probability: focus, epoch penalty, floor, cap, and the draw."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from andrea_engine.run.errors import ConfigError

HeldBy = Literal["focus", "background", "floor", "cap", "penalty", "warm-up", "unavailable"]

FOCUS_WEIGHT = 1.0


@dataclass(frozen=True, slots=True)
class Weight:
    """How an arm came to its sampling weight."""

    tentative: float
    weight: float
    held_by: HeldBy


def penalty(epochs: float) -> float:
    """Factor in (0, 1] that keeps a source seen `epochs` times from being memorised: 1 / (1 + epochs)."""
    return 1.0 / (1.0 + epochs)


def weigh(in_focus: bool, background: float, epochs: float, floor: float, cap: float | None) -> Weight:
    """`min(cap, max(tentative / (1 + epochs), floor))`.

    `held_by` is the cap or the floor if it binds; else the penalty once the source has been read in full
    (it then takes half of the weight or more); else the focus set or the background.
    """
    tentative = FOCUS_WEIGHT if in_focus else background
    held: HeldBy = "focus" if in_focus else "background"
    if epochs >= 1.0:
        held = "penalty"
    weight = tentative * penalty(epochs)
    if weight < floor:
        weight, held = floor, "floor"
    if cap is not None and weight > cap:
        weight, held = cap, "cap"
    return Weight(tentative, weight, held)


def normalise(weights: Mapping[str, float]) -> dict[str, float]:
    """Probabilities in proportion to `weights`. Raises ConfigError if no weight is above 0."""
    total = math.fsum(weights.values())
    if not total > 0.0:
        raise ConfigError(
            "all arms have weight zero, so there is nothing to train on; raise a cap above 0 or restore a source."
        )
    return {name: weight / total for name, weight in weights.items()}


def pick(weights: Mapping[str, float], u: float) -> str:
    """The arm at `u` in [0, 1) along the weights laid end to end in the order of their names.

    An arm of weight 0 is never picked. Raises ConfigError if no weight is above 0.
    """
    probabilities = normalise(weights)
    names = sorted(name for name, weight in weights.items() if weight > 0.0)
    edge = 0.0
    for name in names:
        edge += probabilities[name]
        if u < edge:
            return name
    return names[-1]  # rounding left the last edge just below u


def reach(arms: Mapping[str, tuple[float, float]], size: int) -> dict[str, tuple[float, float]]:
    """Least and greatest probability of each arm over all focus sets of `size` arms.

    `arms` maps a name to its weight (outside the focus set, inside it). An arm is drawn least when it is
    outside and the arms that gain most are inside; it is drawn most when it is inside with those that gain least.
    """
    bounds = {}
    for name, (outside, inside) in arms.items():
        others = [weights for other, weights in arms.items() if other != name]
        rest = math.fsum(low for low, _ in others)
        gains = sorted(high - low for low, high in others)
        most = inside, rest + math.fsum(gains[: size - 1])
        least = (outside, rest + math.fsum(gains[len(gains) - size :])) if size < len(arms) else most
        bounds[name] = (_part(*least), _part(*most))
    return bounds


def _part(own: float, rest: float) -> float:
    return own / (own + rest) if own > 0.0 else 0.0
