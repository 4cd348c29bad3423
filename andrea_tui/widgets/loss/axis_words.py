"""How each x axis is labelled."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from andrea_engine.run.energy_facts import JOULES_PER_KWH
from andrea_tui.plotting.format import compact_number, duration, energy, human_count, rounded_count, short_count
from andrea_tui.plotting.ticks import Tick, count_ticks, nice_ticks, time_ticks


class AxisWords(msgspec.Struct, frozen=True):
    """`name` in a sentence, `unit` at the axis, `end` for its right edge, `exact` for one x."""

    name: str
    unit: str
    ticks: Callable[[float, float, int], list[Tick]]
    end: Callable[[float], str]
    exact: Callable[[float], str]


def _kwh(x: float) -> str:
    return energy(x * JOULES_PER_KWH)


AXIS_WORDS = {
    "step": AxisWords("steps", "step", count_ticks, short_count, human_count),
    "tokens": AxisWords("tokens", "tokens", count_ticks, short_count, rounded_count),
    "active": AxisWords("active time, durations of the steps", "active time", time_ticks, duration, duration),
    "wall": AxisWords("wall time, from events and durations", "wall time", time_ticks, duration, duration),
    "energy": AxisWords("kWh", "kWh", nice_ticks, compact_number, _kwh),
}
