"""What the energy of a run is worth: how it was measured, joules a token, cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from andrea_engine.run.config import RunConfig
from andrea_engine.run.events import Event
from andrea_engine.run.loss_entry import LossEntry

JOULES_PER_KWH = 3.6e6


class EnergyQuality(msgspec.Struct, frozen=True):
    """`complete`: nothing is missing, else the sum is a lower bound. `estimated`: integrated from power readings, at
    least in part, instead of read from the hardware's counter. None is unknown."""

    complete: bool | None = None
    estimated: bool | None = None


class EnergySpan(msgspec.Struct, frozen=True):
    """Energy of the steps after `first_step` up to `last_step`, both with a known sum."""

    first_step: int
    first_j: float
    last_step: int
    last_j: float

    def up_to(self, later: EnergySpan) -> EnergySpan:
        """This span continued to the end of a later one."""
        return EnergySpan(self.first_step, self.first_j, later.last_step, later.last_j)

    def joules_per_token(self, config: RunConfig | None) -> float | None:
        """Mean over the steps whose energy is known; None where there is no such step."""
        steps = self.last_step - self.first_step
        if config is None or steps <= 0:
            return None
        return (self.last_j - self.first_j) / (steps * config.tokens_per_step)


def energy_quality(event: Event) -> EnergyQuality:
    """What an `energy` event says."""
    complete, estimated = event.facts.get("complete"), event.facts.get("estimated")
    return EnergyQuality(
        complete if isinstance(complete, bool) else None, estimated if isinstance(estimated, bool) else None
    )


def last_quality(events: Iterable[Event]) -> EnergyQuality:
    """How the energy of a run was measured so far."""
    return next((energy_quality(event) for event in reversed(list(events)) if event.kind == "energy"), EnergyQuality())


def energy_span(entries: Sequence[LossEntry], before: EnergySpan | None = None) -> EnergySpan | None:
    """The span of a record, or of `before` continued by new entries; None while no energy is known."""
    last = _first_known(reversed(entries))
    if last is None:
        return before
    first = _first_known(entries) if before is None else (before.first_step, before.first_j)
    return None if first is None else EnergySpan(*first, *last)


def _first_known(entries: Iterable[LossEntry]) -> tuple[int, float] | None:
    return next(((entry.step, entry.energy_j) for entry in entries if entry.energy_j is not None), None)


def cost(joules: float | None, config: RunConfig | None) -> float | None:
    """Price of an energy in the run's currency; None without a price or an energy."""
    price = config.power.price_per_kwh if config is not None else None
    return None if price is None or joules is None else joules / JOULES_PER_KWH * price
