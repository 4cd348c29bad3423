"""The coherence gate: when do low samples mean that a run must stop?

Pure: the status is a fold over the stored samples, so the counter lives and dies with them (a restart resumes it, a
pivot, which archives them, resets it). `Gate` is the same fold, one sample at a time.

Four conditions, each raising one alarm on the sample where it becomes true:

- *collapse*: `consecutive` samples in a row below `threshold`; one good sample resets the counter;
- *window*: more than `window_share` of the last `window` samples below it (only a full window is judged), for
  the collapse that lets a good sample through now and then;
- *axis*: one axis below `axis_share` of its range for `axis_consecutive` samples in a row that all pass as a
  whole, for a drift that the total hides;
- *divergence*: the mean total of the last `divergence_samples` lies at least `divergence_drop` points below that of
  as many before, while the mean loss EMA at those samples fell: the loss calls better what reads worse.

The first halts a run, the second where `halt_on_window` asks for it, the others never.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, NamedTuple

from andrea_engine.coherence.metrics import AXES, Axis, Scores
from andrea_engine.run.errors import ConfigError

AlarmKind = Literal["collapse", "window", "axis", "divergence"]


class Observed(NamedTuple):
    """What the gate sees of one sample. `ema`: the loss EMA at its step in nats, None when unknown."""

    step: int
    scores: Scores
    ema: float | None = None


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
    divergence_samples: int = 10
    divergence_drop: float = 15.0
    halt: bool = True
    halt_on_window: bool = False

    def __post_init__(self) -> None:
        for name, maximum in (("threshold", 100), ("window_share", 1), ("axis_share", 1), ("divergence_drop", 100)):
            number = getattr(self, name)
            if not _is_number(number) or not 0 <= number <= maximum:
                raise ConfigError(f"gate: {name} must be a number from 0 to {maximum}, not {number!r}")
        for name in ("consecutive", "window", "axis_consecutive", "divergence_samples"):
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

    `first_bad_step` is the first sample of the present low streak (None while the last sample is good).
    `alarms` are those raised by the last sample alone, `active` the kinds whose condition is true now, and
    `halt_reason` says for people why the run must stop, as long as that is so.
    """

    consecutive_low: int
    low_in_window: int
    window_filled: int
    last_good_step: int | None
    first_bad_step: int | None
    alarms: tuple[Alarm, ...]
    active: tuple[AlarmKind, ...]
    halt_reason: str | None

    @property
    def should_halt(self) -> bool:
        return self.halt_reason is not None


@dataclass(frozen=True, slots=True)
class _State:
    """The fold's memory."""

    window: tuple[bool, ...] = ()  # newest last; True is a low sample
    consecutive_low: int = 0
    last_good_step: int | None = None
    first_bad_step: int | None = None
    axis_streaks: tuple[int, ...] = (0,) * len(AXES)
    recent: tuple[Observed, ...] = ()  # newest last, two spans of `divergence_samples`

    def collapsed(self, config: GateConfig) -> bool:
        return self.consecutive_low >= config.consecutive

    def window_low(self, config: GateConfig) -> bool:
        return len(self.window) == config.window and sum(self.window) / config.window > config.window_share

    def weak_axes(self, config: GateConfig) -> list[Axis]:
        streaks = zip(AXES, self.axis_streaks, strict=True)
        return [axis for axis, streak in streaks if streak >= config.axis_consecutive]

    def divergence(self, config: GateConfig) -> _Divergence | None:
        """Both spans in numbers while the score falls with the loss, else None."""
        count = config.divergence_samples
        emas = [sample.ema for sample in self.recent if sample.ema is not None]
        if len(emas) < 2 * count:
            return None
        totals = [sample.scores.total for sample in self.recent]
        drop = round(fmean(totals[:count]) - fmean(totals[count:]), 6)
        before, after = fmean(emas[:count]), fmean(emas[count:])
        return _Divergence(drop, before, after) if drop >= config.divergence_drop and after < before else None

    def active(self, config: GateConfig) -> tuple[AlarmKind, ...]:
        conditions: dict[AlarmKind, bool] = {
            "collapse": self.collapsed(config),
            "window": self.window_low(config),
            "axis": bool(self.weak_axes(config)),
            "divergence": self.divergence(config) is not None,
        }
        return tuple(kind for kind, holds in conditions.items() if holds)


class _Divergence(NamedTuple):
    """`drop`: points lost between the spans; `before` and `after`: their mean EMA in nats."""

    drop: float
    before: float
    after: float


def _advance(state: _State, sample: Observed, config: GateConfig) -> _State:
    step, scores, _ = sample
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
        recent=(*state.recent, sample)[-2 * config.divergence_samples :],
    )


def _alarms(before: _State, after: _State, step: int, config: GateConfig) -> tuple[Alarm, ...]:
    alarms = []
    if after.collapsed(config) and not before.collapsed(config):
        good = "no sample passed yet"
        if after.last_good_step is not None:
            good = f"the last good sample was at step {after.last_good_step:,}"
        message = f"{_streak(after, config)} since step {after.first_bad_step:,}; {good}"
        alarms.append(Alarm("collapse", step, message))
    if after.window_low(config) and not before.window_low(config):
        alarms.append(Alarm("window", step, _share(after, config)))
    known = before.weak_axes(config)
    for axis in after.weak_axes(config):
        if axis not in known:
            message = (
                f"{axis.name} below {config.axis_share:.0%} of its range for {config.axis_consecutive} samples in a"
                " row, though the total passes"
            )
            alarms.append(Alarm("axis", step, message, axis.name))
    divergence = after.divergence(config)
    if divergence is not None and before.divergence(config) is None:
        message = (
            f"the last {config.divergence_samples} samples score {divergence.drop:.1f} points less than those before,"
            f" though the loss EMA fell from {divergence.before:.3f} to {divergence.after:.3f}"
        )
        alarms.append(Alarm("divergence", step, message))
    return tuple(alarms)


def _streak(state: _State, config: GateConfig) -> str:
    return f"{state.consecutive_low} samples in a row below {config.threshold:g}"


def _share(state: _State, config: GateConfig) -> str:
    return f"{sum(state.window)} of the last {config.window} samples are below {config.threshold:g}"


def _halt_reason(state: _State, config: GateConfig) -> str | None:
    if config.halt and state.collapsed(config):
        return _streak(state, config)
    if config.halt and config.halt_on_window and state.window_low(config):
        return _share(state, config)
    return None


def _status(state: _State, alarms: tuple[Alarm, ...], config: GateConfig) -> GateStatus:
    return GateStatus(
        consecutive_low=state.consecutive_low,
        low_in_window=sum(state.window),
        window_filled=len(state.window),
        last_good_step=state.last_good_step,
        first_bad_step=state.first_bad_step,
        alarms=alarms,
        active=state.active(config),
        halt_reason=_halt_reason(state, config),
    )


class Gate:
    """The gate of a living run: starts from the stored samples, then observes one at a time.

    After an operator's override start it from the samples behind the override, or the old streak halts again.
    """

    def __init__(self, config: GateConfig | None = None, history: Iterable[Observed] = ()) -> None:
        self.config = config or GateConfig()
        self._state = _State()
        self._status = _status(self._state, (), self.config)
        for sample in history:
            self.observe(*sample)

    @property
    def status(self) -> GateStatus:
        """The status after the last sample observed."""
        return self._status

    def observe(self, step: int, scores: Scores, ema: float | None = None) -> GateStatus:
        """Take in the sample of `step` and return the new status."""
        before, self._state = self._state, _advance(self._state, Observed(step, scores, ema), self.config)
        self._status = _status(self._state, _alarms(before, self._state, step, self.config), self.config)
        return self._status


def evaluate(history: Iterable[Observed], config: GateConfig | None = None) -> GateStatus:
    """The status after `history`, the samples in the order they were made."""
    return Gate(config, history).status
