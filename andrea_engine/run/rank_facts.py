"""The processes that train a run together, as the heartbeat tells of them, and which one holds the others back."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Annotated

import msgspec

SLOW = 1.25  # times the others' median: beyond what processes on equal devices differ by


Count = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Nothing that is counted is larger: a longer integer cannot even be made a float."""


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a run. `device` in words.

    `step_seconds`: recent median of its own work in a step, without the time it waits for the others;
    `tokens_per_second`: its share of the batch in that time. None before the first step.
    """

    rank: Count
    host: str
    pid: Count
    device: str = ""
    step_seconds: float | None = None
    tokens_per_second: float | None = None


class Straggler(msgspec.Struct, frozen=True, kw_only=True):
    """The slowest rank, and the median time of the others' work in a step."""

    rank: Rank
    others: float

    @property
    def ratio(self) -> float:
        """Its time as a multiple of the others'."""
        return (self.rank.step_seconds or 0.0) / self.others

    @property
    def sentence(self) -> str:
        """What it means for the run: every step waits for the slowest."""
        return (
            f"rank {self.rank.rank} on {self.rank.host} needs {self.ratio:.1f} x the time of the others, "
            f"and each step waits for it"
        )


def straggler(ranks: Sequence[Rank]) -> Straggler | None:
    """The one that holds the others back; None where all are about as fast, or not all are known."""
    known = [(rank.step_seconds, rank) for rank in ranks if rank.step_seconds is not None]
    if len(known) < max(2, len(ranks)):
        return None
    slowest_seconds, slowest = max(known, key=lambda pair: pair[0])
    others = median(seconds for seconds, rank in known if rank is not slowest)
    return Straggler(rank=slowest, others=others) if slowest_seconds > SLOW * others > 0 else None
