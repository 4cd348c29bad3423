"""Which of the processes of a run this one is, as torchrun tells. No torch at import time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from andrea_engine.run.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Place:
    """Number `rank` of `size` processes; on this machine, number `node`, it is `local_rank` of `local_size`."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    node: int = 0

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Place:
        """Raises ConfigError for what torchrun cannot have set."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
        try:
            rank, size, local_rank, local_size, node = (
                None if name not in environment else int(environment[name]) for name in names
            )
        except ValueError as error:
            raise ConfigError(f"{', '.join(names)} must be numbers: {error}") from None
        rank, size = rank or 0, 1 if size is None else size
        place = cls(
            rank,
            size,
            rank if local_rank is None else local_rank,
            size if local_size is None else local_size,
            node or 0,
        )
        if not (0 <= place.rank < place.size and 0 <= place.local_rank < place.local_size <= place.size):
            raise ConfigError(f"rank {place.rank} of {place.size} is none; unset RANK and WORLD_SIZE, or use torchrun")
        return place

    @property
    def leads(self) -> bool:
        """The leader is the engine of the run; the others compute for it."""
        return self.rank == 0


def under_torchrun(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether torchrun, or who sets the same variables, has started this process: be it as the only one."""
    return "RANK" in environment
