"""Which devices' energy belongs to a run."""

from __future__ import annotations

import torch

from andrea_engine.telemetry.energy import EnergyMeter
from andrea_engine.telemetry.monitor import Monitor
from andrea_engine.train.environment import Environment
from andrea_engine.train.place import Place


def make_monitor(energy: EnergyMeter, environment: Environment) -> Monitor:
    """A monitor of this machine that adds what the run uses here to `energy`."""
    monitor = Monitor(energy)
    monitor.counted_uuids = counted_gpus(environment, Place.of())
    monitor.counts_cpu = not environment.is_cuda
    return monitor


def counted_gpus(environment: Environment, place: Place) -> frozenset[str] | None:
    """NVML UUIDs of the devices of this machine that the run uses; None counts all (UUID unknown to PyTorch)."""
    if not environment.is_cuda:
        return frozenset()
    several = place.local_size > 1
    devices = [f"cuda:{number}" for number in range(place.local_size)] if several else [environment.device]
    uuids = [getattr(torch.cuda.get_device_properties(device), "uuid", None) for device in devices]
    return None if None in uuids else frozenset(f"GPU-{uuid}" for uuid in uuids)
