"""The device and the threads of an engine. Recorded with every start, because they change the bits."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from andrea_engine.run.config import DeviceTable
from andrea_engine.run.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything outside the run that may change the bits of a resumed run."""

    device: str
    device_name: str
    threads: int
    torch: str
    python: str
    machine: str
    world_size: int = 1

    def facts(self) -> dict[str, object]:
        return asdict(self)

    def differences(self, earlier: dict[str, object]) -> list[str]:
        """What differs from the facts of an earlier start, as `threads 2 -> 4`."""
        return [
            f"{name} {earlier[name]} -> {value}"
            for name, value in self.facts().items()
            if name in earlier and earlier[name] != value
        ]


def available_threads() -> int:
    """CPUs that this process may use: its affinity, cut down by a container's quota."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cpus = min(cpus, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return max(1, cpus)


def choose_environment(table: DeviceTable) -> Environment:
    """Resolve `auto`, set the threads, and describe the result. Raises ConfigError for a device that is not there."""
    name = table.name
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError("device.name asks for CUDA, but PyTorch finds no CUDA device; use auto or cpu")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device.name is {name}, but there are only {torch.cuda.device_count()} CUDA devices")
    threads = table.threads or available_threads()
    torch.set_num_threads(threads)
    is_cuda = device.type == "cuda"
    return Environment(
        device=str(device),
        device_name=torch.cuda.get_device_name(device) if is_cuda else _cpu_name(),
        threads=threads,
        torch=str(torch.__version__),
        python=platform.python_version(),
        machine=platform.machine(),
    )


def counted_gpus(environment: Environment) -> frozenset[str] | None:
    """NVML UUIDs of the devices whose energy belongs to the run; None counts all (UUID unknown to PyTorch)."""
    if not environment.device.startswith("cuda"):
        return frozenset()
    uuid = getattr(torch.cuda.get_device_properties(environment.device), "uuid", None)
    return None if uuid is None else frozenset({f"GPU-{uuid}"})


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "CPU"
