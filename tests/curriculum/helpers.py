"""A small run to drive a curriculum with: arms, entries and a loss that depends on step and source alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from andrea_engine.curriculum.curriculum import Curriculum
from andrea_engine.curriculum.draws import uniform
from andrea_engine.run.policy import Policy

ARMS = {"chat": 10**9, "dictionary": 10**9, "gutenberg": 10**9, "irc": 10**9, "repo-docs": 10**9}

Loss = Callable[[int, str], float | None]


class Entry(NamedTuple):
    step: int
    source: str | None
    loss: float | None
    policy: int | None = 0


def make(
    policy: Policy | None = None,
    arms: Mapping[str, int] = ARMS,
    unavailable: Mapping[str, str] | None = None,
    *,
    seed: int = 1,
    generation: int = 0,
    start_step: int = 0,
) -> Curriculum:
    return Curriculum(
        policy or Policy(),
        arms,
        unavailable or {},
        seed=seed,
        tokens_per_step=8192,
        generation=generation,
        start_step=start_step,
    )


def falling(step: int, source: str) -> float:
    """A loss that falls, at a pace and with a noise that differ between sources."""
    return 4.0 + 5.0 / (1.0 + step / (50 * len(source))) + 0.3 * uniform(99, step, source)


def train(curriculum: Curriculum, steps: Iterable[int], loss: Loss = falling) -> list[Entry]:
    """Choose and observe each step; the entries are what the loss record would hold."""
    entries = []
    for step in steps:
        source = curriculum.choose(step).source
        entry = Entry(step, source, loss(step, source), curriculum.generation)
        curriculum.observe(entry.step, source, entry.loss)
        entries.append(entry)
    return entries
