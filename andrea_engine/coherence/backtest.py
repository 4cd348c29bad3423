"""Replay the gate over the samples of an old run: where would it have fired, and what would that have saved?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from andrea_engine.coherence.gate import Alarm, AlarmKind, Gate, GateConfig
from andrea_engine.coherence.metrics import Scores, score
from andrea_engine.run.errors import ConfigError

_PLOT_WIDTH = 72
_PLOT_STEP = 10  # points per row
_PLOT_ROWS = 100 // _PLOT_STEP + 1


class StoredText(NamedTuple):
    """A sample of an old run. `ema`: its loss EMA in nats, without which no divergence can be seen."""

    step: int
    text: str
    ema: float | None = None


@dataclass(frozen=True, slots=True)
class Savings:
    """What stopping early is worth; None where the inputs do not tell. `cost` is in the price's currency."""

    steps: int
    minutes: float | None = None
    hours: float | None = None
    days: float | None = None
    kwh: float | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Firing:
    """The first alarm of its kind, and what a stop there would have saved."""

    alarm: Alarm
    saved: Savings

    @property
    def step(self) -> int:
        return self.alarm.step


@dataclass(frozen=True, slots=True)
class BacktestResult:
    """`gate` and `window` are None where they never fired; `alarms` holds every alarm in order."""

    config: GateConfig
    scored: tuple[tuple[int, Scores], ...]
    ended_at: int | None
    gate: Firing | None
    window: Firing | None
    alarms: tuple[Alarm, ...]


def savings(
    fired_at: int,
    ended_at: int,
    *,
    steps_per_minute: float | None = None,
    watts: float | None = None,
    price_per_kwh: float | None = None,
) -> Savings:
    """The steps from `fired_at` to `ended_at` as time, energy (`watts` drawn on average) and money."""
    steps = ended_at - fired_at
    if steps_per_minute is None:
        return Savings(steps)
    minutes = steps / steps_per_minute
    hours = minutes / 60
    kwh = None if watts is None else hours * watts / 1000
    cost = None if kwh is None or price_per_kwh is None else kwh * price_per_kwh
    return Savings(steps, minutes, hours, hours / 24, kwh, cost)


def backtest(
    samples: Iterable[StoredText],
    config: GateConfig | None = None,
    *,
    steps_per_minute: float | None = None,
    watts: float | None = None,
    ended_at: int | None = None,
    price_per_kwh: float | None = None,
) -> BacktestResult:
    """Score `samples`, in the order they were made, and replay the gate over them.

    The run goes on after an alarm, as the old one did. `ended_at` is the step at which it was stopped in the end,
    by default its last sample. Raises `ConfigError` for a rate, power or price that cannot be, or an end before
    the last sample.
    """
    config = config or GateConfig()
    _check("steps per minute", steps_per_minute, zero_allowed=False)
    _check("watts", watts, zero_allowed=True)
    _check("price per kWh", price_per_kwh, zero_allowed=True)
    samples = tuple(samples)
    scored = tuple((sample.step, score(sample.text)) for sample in samples)
    newest = max((step for step, _ in scored), default=None)
    if ended_at is None:
        ended_at = newest
    elif newest is not None and ended_at < newest:
        raise ConfigError(
            f"backtest: the run cannot have ended at step {ended_at:,}, it has a sample of step {newest:,}; give"
            " the step of its end"
        )

    gate = Gate(config)
    alarms = tuple(
        alarm
        for sample, (step, scores) in zip(samples, scored, strict=True)
        for alarm in gate.observe(step, scores, sample.ema).alarms
    )

    def first(kind: AlarmKind) -> Firing | None:
        alarm = next((alarm for alarm in alarms if alarm.kind == kind), None)
        if alarm is None or ended_at is None:
            return None
        saved = savings(
            alarm.step, ended_at, steps_per_minute=steps_per_minute, watts=watts, price_per_kwh=price_per_kwh
        )
        return Firing(alarm, saved)

    return BacktestResult(config, scored, ended_at, first("collapse"), first("window"), alarms)


def _check(name: str, value: float | None, *, zero_allowed: bool) -> None:
    if value is None or (math.isfinite(value) and (value > 0 or (zero_allowed and value == 0))):
        return
    bound = "0 or more" if zero_allowed else "above 0"
    raise ConfigError(f"backtest: {name} must be a number {bound}, not {value!r}")


def render(result: BacktestResult) -> str:
    """The result as plain ASCII text: the totals over the steps, then both alarms and their savings."""
    if not result.scored:
        return "coherence gate: no samples to replay\n"
    steps = [step for step, _ in result.scored]
    lines = [
        f"coherence gate replayed on {len(steps):,} samples, steps {min(steps):,} to {max(steps):,}",
        "",
        *_plot(result),
        "",
        *_report("gate", result.gate),
        *_report("window alarm", result.window),
    ]
    for kind, name in (("axis", "axis alarms"), ("divergence", "divergence")):
        raised = [alarm for alarm in result.alarms if alarm.kind == kind]
        if raised:
            lines.append(f"{name:<13} {len(raised):,}, the first at step {raised[0].step:,}")
            lines.append(f"{'':<13} {raised[0].message}")
    return "\n".join(lines) + "\n"


def _report(name: str, firing: Firing | None) -> list[str]:
    if firing is None:
        return [f"{name:<13} would not have fired"]
    saved = firing.saved
    parts = [f"{saved.steps:,} steps"]
    if saved.minutes is not None and saved.hours is not None and saved.days is not None:
        parts.append(f"{saved.minutes:,.0f} min")
        parts.append(f"{saved.hours:,.1f} h")
        parts.append(f"{saved.days:,.1f} days")
    text = " = ".join(parts)
    if saved.kwh is not None:
        text += f", {saved.kwh:,.1f} kWh"
    if saved.cost is not None:
        text += f", energy cost {saved.cost:,.2f}"
    return [f"{name:<13} fires at step {firing.step:,}, saves {text}", f"{'':<13} {firing.alarm.message}"]


def _plot(result: BacktestResult) -> list[str]:
    """Each column shows the span from its lowest to its highest total, so no single sample is averaged away."""
    steps = [step for step, _ in result.scored]
    first, last = min(steps), max(steps)

    def column(step: int) -> int:
        return (step - first) * (_PLOT_WIDTH - 1) // max(last - first, 1)

    grid = [[" "] * _PLOT_WIDTH for _ in range(_PLOT_ROWS)]
    spans: dict[int, tuple[float, float]] = {}
    for step, scores in result.scored:
        low, high = spans.get(column(step), (scores.total, scores.total))
        spans[column(step)] = min(low, scores.total), max(high, scores.total)
    for index, (low, high) in spans.items():
        for row in range(_row(low), _row(high) + 1):
            grid[row][index] = "|"
        grid[_row(low)][index] = grid[_row(high)][index] = "*"
    threshold_row = grid[_row(result.config.threshold)]
    threshold_row[:] = ["-" if cell == " " else cell for cell in threshold_row]

    lines = [f"{row * _PLOT_STEP:>4} {''.join(cells).rstrip()}" for row, cells in reversed(list(enumerate(grid)))]
    for mark, firing in (("W window alarm", result.window), ("G gate", result.gate)):
        if firing is not None:
            lines.append(f"{'':>5}{'':>{column(firing.step)}}{mark}, step {firing.step:,}")
    left, right = f"step {first:,}", f"{last:,}"
    lines.append(f"{'':>5}{left}{right:>{_PLOT_WIDTH - len(left)}}")
    return lines


def _row(total: float) -> int:
    """Rounded down: a sample below the threshold is never drawn on its line."""
    return int(total // _PLOT_STEP)
