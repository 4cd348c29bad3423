"""The coherence gate: when do low samples mean that a run must stop?

Pure: the status is a fold over the stored samples, so the counter lives and dies with them (a restart resumes it, a
pivot, which archives them, resets it). `Gate` is the same fold, one sample at a time.

Three conditions, each raising one alarm on the sample where it becomes true:

- *collapse*: `consecutive` samples in a row below `threshold`; one good sample resets the counter;
- *window*: more than `window_share` of the last `window` samples below it (only a full window is judged), for
  the collapse that lets a good sample through now and then;
- *axis*: one axis below `axis_share` of its range for `axis_consecutive` samples in a row that all pass as a
  whole, for a drift that the total hides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from andrea_engine.coherence.metrics import AXES, Scores
from andrea_engine.run.errors import ConfigError

AlarmKind = Literal["collapse", "window", "axis"]


@dataclass(frozen=True, slots=True)
class GateConfig:
    """The gate's rule. `halt = false` only watches: alarms, never a halt, `halt_on_window` included.

    Raises `ConfigError` for a value out of its range.
    """

    threshold: float = 30.0  # of the 100 points; a sample below it is low
    consecutive: int = 5
    window: int = 20
    window_share: float = 0.6
    axis_share: float = 0.4
    axis_consecutive: int = 5
    halt: bool = True
    halt_on_window: bool = False

    def __post_init__(self) -> None:
        for name, maximum in (("threshold", 100), ("window_share", 1), ("axis_share", 1)):
            number = getattr(self, name)
            if not _is_number(number) or not 0 <= number <= maximum:
                raise ConfigError(f"gate: {name} must be a number from 0 to {maximum}, not {number!r}")
        for name in ("consecutive", "window", "axis_consecutive"):
            count = getattr(self, name)
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                raise ConfigError(f"gate: {name} must be a whole number of samples from 1 up, not {count!r}")
        for name in ("halt", "halt_on_window"):
            switch = getattr(self, name)
            if not isinstance(switch, bool):
                raise ConfigError(f"gate: {name} must be true or false, not {switch!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True, slots=True)
class Alarm:
    """A condition that became true at the sample of `step`. `axis` names the axis of an axis alarm."""

    kind: AlarmKind
    step: int
    message: str
    axis: str | None = None


@dataclass(frozen=True, slots=True)
class GateStatus:
    """What the gate knows after the last sample.

    `first_bad_step` is the first sample of the present low streak (None while the last sample is good),
    `alarms` are those raised by the last sample alone, and `should_halt` stays true while its condition does.
    """

    consecutive_low: int
    low_in_window: int
    window_filled: int
    last_good_step: int | None
    first_bad_step: int | None
    should_halt: bool
    alarms: tuple[Alarm, ...]


@dataclass(frozen=True, slots=True)
class _State:
    """The fold's memory."""

    window: tuple[bool, ...] = ()  # newest last; True is a low sample
    consecutive_low: int = 0
    last_good_step: int | None = None
    first_bad_step: int | None = None
    axis_streaks: tuple[int, ...] = (0,) * len(AXES)

    def collapsed(self, config: GateConfig) -> bool:
        return self.consecutive_low >= config.consecutive

    def window_low(self, config: GateConfig) -> bool:
        return len(self.window) == config.window and sum(self.window) / config.window > config.window_share


def _advance(state: _State, step: int, scores: Scores, config: GateConfig) -> _State:
    low = not scores.total >= config.threshold  # this way round a NaN, from a damaged file, is low
    return _State(
        window=(*state.window, low)[-config.window :],
        consecutive_low=state.consecutive_low + 1 if low else 0,
        last_good_step=state.last_good_step if low else step,
        first_bad_step=(step if state.first_bad_step is None else state.first_bad_step) if low else None,
        axis_streaks=tuple(
            streak + 1 if not low and getattr(scores, axis.name) < config.axis_share * axis.maximum else 0
            for axis, streak in zip(AXES, state.axis_streaks, strict=True)
        ),
    )


def _alarms(before: _State, after: _State, step: int, config: GateConfig) -> tuple[Alarm, ...]:
    alarms = []
    limit = f"{config.threshold:g}"
    if after.collapsed(config) and not before.collapsed(config):
        good = "no sample passed yet"
        if after.last_good_step is not None:
            good = f"the last good sample was at step {after.last_good_step:,}"
        message = f"{after.consecutive_low} samples in a row below {limit} since step {after.first_bad_step:,}; {good}"
        alarms.append(Alarm("collapse", step, message))
    if after.window_low(config) and not before.window_low(config):
        message = f"{sum(after.window)} of the last {config.window} samples are below {limit}"
        alarms.append(Alarm("window", step, message))
    for axis, streak in zip(AXES, after.axis_streaks, strict=True):
        if streak == config.axis_consecutive:
            message = (
                f"{axis.name} below {config.axis_share:.0%} of its range for {streak} samples in a row,"
                " though the total passes"
            )
            alarms.append(Alarm("axis", step, message, axis.name))
    return tuple(alarms)


def _status(state: _State, alarms: tuple[Alarm, ...], config: GateConfig) -> GateStatus:
    tripped = state.collapsed(config) or (config.halt_on_window and state.window_low(config))
    return GateStatus(
        consecutive_low=state.consecutive_low,
        low_in_window=sum(state.window),
        window_filled=len(state.window),
        last_good_step=state.last_good_step,
        first_bad_step=state.first_bad_step,
        should_halt=config.halt and tripped,
        alarms=alarms,
    )


class Gate:
    """The gate of a living run: starts from the stored samples, then observes one at a time.

    After an operator's override start it from the samples behind the override, or the old streak halts again.
    """

    def __init__(self, config: GateConfig | None = None, history: Iterable[tuple[int, Scores]] = ()) -> None:
        self.config = config or GateConfig()
        self._state = _State()
        self._status = _status(self._state, (), self.config)
        for step, scores in history:
            self.observe(step, scores)

    @property
    def status(self) -> GateStatus:
        """The status after the last sample observed."""
        return self._status

    def observe(self, step: int, scores: Scores) -> GateStatus:
        """Take in the sample of `step` and return the new status."""
        before, self._state = self._state, _advance(self._state, step, scores, self.config)
        self._status = _status(self._state, _alarms(before, self._state, step, self.config), self.config)
        return self._status


def evaluate(history: Sequence[tuple[int, Scores]], config: GateConfig | None = None) -> GateStatus:
    """The status after `history`, pairs of step and scores in the order the samples were made."""
    return Gate(config, history).status
