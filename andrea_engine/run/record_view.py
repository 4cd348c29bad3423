"""The loss record by policy: what each policy generation trained, and on what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from andrea_engine.run.loss_entry import LossEntry


class PolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of one policy generation. Losses are nats, `pulls` counts steps by source, None where unknown."""

    policy: int
    first_step: int
    last_step: int
    entries: int
    nonfinite: int
    mean_loss: float | None
    first_ema: float | None
    last_ema: float | None
    energy_j: float | None
    pulls: dict[str, int]


def by_policy(branch: Iterable[LossEntry]) -> list[PolicyView]:
    """One view for each policy generation in a branch of the record, in the order of their steps."""
    groups: dict[int, list[LossEntry]] = {}
    for entry in branch:
        groups.setdefault(entry.policy or 0, []).append(entry)
    views = [_view(policy, entries) for policy, entries in groups.items()]
    return sorted(views, key=lambda view: view.first_step)


def _view(policy: int, entries: list[LossEntry]) -> PolicyView:
    losses = [e.loss for e in entries if e.loss is not None]
    emas = [e.ema for e in entries if e.ema is not None]
    joules = [e.energy_j for e in entries if e.energy_j is not None]
    return PolicyView(
        policy=policy,
        first_step=entries[0].step,
        last_step=entries[-1].step,
        entries=len(entries),
        nonfinite=sum(1 for e in entries if e.nonfinite),
        mean_loss=sum(losses) / len(losses) if losses else None,
        first_ema=emas[0] if emas else None,
        last_ema=emas[-1] if emas else None,
        energy_j=joules[-1] - joules[0] if joules else None,
        pulls=dict(Counter(e.source for e in entries if e.source is not None).most_common()),
    )
