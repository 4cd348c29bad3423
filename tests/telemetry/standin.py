"""The control of the stand-in library, and what its two devices report."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

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
    index=0,
    sm_mhz=2520.0,
    memory_mhz=10501.0,
    throttle=[],
    missing={"energy": "not supported"},
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
    index=1,
    sm_mhz=2520.0,
    memory_mhz=10501.0,
    throttle=[],
    missing={"energy": "not supported"},
)
_OF_BOARD = ("utilisation", "throttle", "power", "limit", "energy", "temperature", "clock", "memory clock")
INSTANCES = [
    Gpu(
        uuid=f"MIG-0000000{number}",
        name=f"Stand-in MIG 1g.{5 * (number + 1)}gb",
        index=0,
        board="GPU-00000000",
        memory_used=1 << 30,
        memory_total=5 << 30,
        missing=dict.fromkeys(_OF_BOARD, "not supported"),
    )
    for number in (0, 1)
]


def plain(gpus: list[Gpu]) -> list[Gpu]:
    """Without what the monitor adds: when it was read, and whether the run uses it."""
    return [msgspec.structs.replace(gpu, time=0.0, used=None) for gpu in gpus]


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


def make_package(root: Path, number: int, microjoules: int, span: int = 262_143_328_850) -> Path:
    """A CPU package as the kernel's power capping interface shows it."""
    zone = root / f"intel-rapl:{number}"
    zone.mkdir(parents=True)
    for name, value in {"name": f"package-{number}", "energy_uj": microjoules, "max_energy_range_uj": span}.items():
        (zone / name).write_text(f"{value}\n")
    return zone
