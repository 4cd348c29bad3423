"""How long the disk will last under the keep rule."""

from __future__ import annotations

import msgspec

from andrea_engine.run.checkpoint import checkpoint_bytes
from andrea_engine.run.config import CheckpointTable


class DiskForecast(msgspec.Struct, frozen=True):
    """`enough`: the rest of the run fits. Else `full_at` is the step at which the disk will be full."""

    bytes_to_come: int
    enough: bool
    full_at: int | None


def forecast_disk(
    table: CheckpointTable, n_params: int, step: int, total_steps: int, kept: int, free: int
) -> DiskForecast:
    """What checkpoints will still take, from `step` to `total_steps`, with `kept` of them on disk and `free` bytes.

    Pins are not foreseen. While a checkpoint is written the one it will displace is still there, so one more is
    needed than the rule keeps.
    """
    size = checkpoint_bytes(n_params)
    left = max(0, total_steps - step)
    if table.keep == "all":
        room = free // size
        full_at = step + int(room + 1) * table.every
        return DiskForecast(
            left // table.every * size, full_at > total_steps, None if full_at > total_steps else full_at
        )
    rolling = max(0, min(table.keep_last, left // table.every) - min(kept, table.keep_last)) + 1
    multiples = (total_steps // table.keep_every - step // table.keep_every) if table.keep_every else 0
    to_come = (rolling + multiples) * size
    if to_come <= free:
        return DiskForecast(to_come, enough=True, full_at=None)
    spare = free // size - rolling
    if spare < 0 or not table.keep_every:
        return DiskForecast(to_come, enough=False, full_at=step + max(1, int(free // size)) * table.every)
    return DiskForecast(to_come, enough=False, full_at=(step // table.keep_every + int(spare) + 1) * table.keep_every)
