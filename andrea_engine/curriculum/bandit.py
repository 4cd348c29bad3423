"""UCB1 over data sources: what each arm has earned, and which arms are in the focus set.

UCB1: Auer, Cesa-Bianchi and Fischer, "Finite-time Analysis of the Multiarmed Bandit Problem", 2002.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

ALPHA = 0.1
"""Weight of the newest loss in an arm's loss EMA."""

REWARD_SCALE = 1000.0

LOSS_LIMIT = 100.0
"""A loss outside [0, LOSS_LIMIT] is a blow-up, not a measurement: chance is ln(vocabulary), about 9 nats.
It would buy the arm thousands of reward while its EMA comes down again."""

RECENT = 500
"""Steps over which an arm's share is reported."""


class StepRecord(Protocol):
    """What the fold reads of a loss entry; a loss that was not finite is None."""

    @property
    def step(self) -> int: ...
    @property
    def source(self) -> str | None: ...
    @property
    def loss(self) -> float | None: ...
    @property
    def policy(self) -> int | None: ...


@dataclass(slots=True)
class ArmState:
    """Statistics of one arm under the present policy. `mean` and `spread` are over accepted rewards."""

    pulls: int = 0
    rejected: int = 0
    ema: float | None = None
    mean: float = 0.0
    deviation: float = 0.0  # sum of squared deviations from the mean (Welford)

    def observe(self, loss: float | None) -> float | None:
        """Count one pull that ended with `loss` (nats). Returns the reward, or None if it was rejected.

        reward = max(0, EMA before its update - loss) * 1000; the first accepted loss sets the EMA and earns 0.
        """
        if loss is None or not 0.0 <= loss <= LOSS_LIMIT:  # false for NaN as well
            self.pulls += 1
            self.rejected += 1
            return None
        if self.ema is None:
            self.ema = loss
        reward = max(0.0, self.ema - loss) * REWARD_SCALE
        self.ema += ALPHA * (loss - self.ema)
        self.credit(reward)
        return reward

    def credit(self, reward: float) -> None:
        """Count one pull that earned `reward`."""
        self.pulls += 1
        delta = reward - self.mean
        self.mean += delta / (self.pulls - self.rejected)
        self.deviation += delta * (reward - self.mean)

    @property
    def spread(self) -> float | None:
        """Sample standard deviation of the rewards, None below two of them."""
        accepted = self.pulls - self.rejected
        return math.sqrt(max(0.0, self.deviation) / (accepted - 1)) if accepted > 1 else None


def bonus(c: float, pulls: int, total: int) -> float:
    """Exploration bonus of UCB1, `c * sqrt(ln total / pulls)`; infinite for an arm never pulled."""
    return c * math.sqrt(math.log(total) / pulls) if pulls else math.inf


@dataclass(frozen=True, slots=True)
class Focus:
    """The focus set of one window of steps.

    `standing` holds (pulls, mean reward) of the live arms when the set was drawn. With it the set can be drawn
    again when a source disappears within the window, as if that arm had never been there: what a restart without
    the source finds is then what the running engine has.
    """

    index: int  # counts the draws of this policy, from 0
    until: int  # first step of the next window
    standing: Mapping[str, tuple[int, float]]
    arms: tuple[str, ...]


def top_arms(
    standing: Mapping[str, tuple[int, float]],
    eligible: Iterable[str],
    size: int | None,
    c: float,
    tie: Callable[[str], float],
) -> tuple[str, ...]:
    """The `size` eligible arms that rank highest by UCB1, best first; `size` None means a third, rounded up.

    Arms never pulled come first; `tie(name)` orders arms of equal rank. The total in the bonus counts the
    pulls of all arms in `standing` and of no others.
    """
    total = sum(pulls for pulls, _ in standing.values())

    def rank(name: str) -> tuple[float, float, str]:
        pulls, mean = standing[name]
        return -(mean + bonus(c, pulls, total)), tie(name), name

    ranked = sorted(eligible, key=rank)
    return tuple(ranked[: math.ceil(len(ranked) / 3) if size is None else size])


@dataclass(slots=True)
class BanditState:
    """All that the fold over the loss record builds. Arms without a live source keep their counts here, unused."""

    arms: dict[str, ArmState] = field(default_factory=dict)  # under the present policy
    run_pulls: Counter[str] = field(default_factory=Counter)  # over the whole run: data order and epochs
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=RECENT))  # newest last
    focus: Focus | None = None  # None before the first step of the policy
    step: int = 0  # last step folded

    def arm(self, name: str) -> ArmState:
        """Statistics of `name`, fresh if it was never pulled under this policy."""
        return self.arms.get(name) or ArmState()

    def skip(self, step: int, name: str | None) -> None:
        """Count one step for the data order and the epochs only; a step of unknown source for nothing."""
        self.step = step
        if name is not None:
            self.run_pulls[name] += 1

    def pull(self, step: int, name: str, focus: Focus) -> ArmState:
        """Count one step under the present policy; the caller reports its outcome to the arm returned."""
        self.skip(step, name)
        self.focus = focus
        self.recent.append(name)
        return self.arms.setdefault(name, ArmState())
