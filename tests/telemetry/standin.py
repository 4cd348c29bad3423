"""The control of the stand-in library, and what its two devices report."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from andrea_engine.run.heartbeat import Gpu

FIRST = Gpu(
    uuid="GPU-00000000",
    name="Stand-in 0",
    power_w=130.25,
    limit_w=450.0,
    utilisation=97.0,
    memory_used=5 << 30,
    memory_total=24 << 30,
    temperature_c=61.0,
)
SECOND = Gpu(
    uuid="GPU-00000001",
    name="Stand-in 1",
    power_w=95.5,
    limit_w=450.0,
    utilisation=0.0,
    memory_used=6 << 30,
    memory_total=24 << 30,
    temperature_c=62.0,
)


@dataclass(frozen=True, slots=True)
class StandIn:
    path: Path

    def say(self, scenario: str) -> None:
        """Replaced in one move: a call never finds half a word."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(scenario)
        os.replace(fresh, self.path)

    def initialisations(self) -> list[int]:
        """Process numbers, one for each time the library was initialised."""
        path = Path(f"{self.path}.inits")
        return [int(line) for line in path.read_text().split()] if path.exists() else []
