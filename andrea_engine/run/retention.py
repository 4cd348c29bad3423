"""The keep rule: which checkpoints stay."""

from __future__ import annotations

from collections.abc import Collection, Iterable

MINIMUM_VALID = 2


def steps_to_remove(
    valid_steps: Iterable[int], pinned: Collection[int], keep_last: int, keep_every: int | None
) -> list[int]:
    """Steps of valid checkpoints that the rule gives up: not among the newest, not a multiple, not pinned.

    `keep_last` newest always stay (never fewer than two); `keep_every` keeps each multiple of it for good, None
    keeps no multiples.
    """
    ordered = sorted(set(valid_steps), reverse=True)
    recent = set(ordered[: max(keep_last, MINIMUM_VALID)])
    return [
        step
        for step in ordered
        if step not in recent and step not in pinned and not (keep_every and step % keep_every == 0)
    ]
