"""Power and energy of all machines that train a run together: this one's, and what the others have sent."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from andrea_engine.run.energy_facts import EnergyQuality
from andrea_engine.run.heartbeat import Telemetry
from andrea_engine.telemetry.monitor import Monitor


class NodeReading(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine tells of itself. `power_w` and `joules` (since it joined) of what the run uses there."""

    host: str
    telemetry: Telemetry
    power_w: float | None = None
    joules: float | None = None
    complete: bool = True
    estimated: bool = False

    @classmethod
    def of(cls, host: str, monitor: Monitor) -> NodeReading:
        energy = monitor.energy
        return cls(
            host=host,
            telemetry=monitor.telemetry,
            power_w=monitor.power_w,
            joules=energy.joules,
            complete=energy.complete,
            estimated=energy.estimated,
        )


class Nodes:
    """Sums over all machines of a run. `others`: the newest readings of those that are not this one."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self.others: Sequence[NodeReading] = ()

    @property
    def joules(self) -> float | None:
        """Energy of the run; None where no machine knows its own."""
        sums = [self._monitor.energy.joules, *(one.joules for one in self.others)]
        known = [joules for joules in sums if joules is not None]
        return sum(known) if known else None

    @property
    def power_w(self) -> float | None:
        """Power of the run now; None where a machine does not know its own."""
        powers = [self._monitor.power_w, *(one.power_w for one in self.others)]
        known = [power for power in powers if power is not None]
        return sum(known) if len(known) == len(powers) else None

    @property
    def quality(self) -> EnergyQuality:
        """A sum is complete only where every machine's is."""
        energy = self._monitor.energy
        complete = energy.complete and all(one.complete and one.joules is not None for one in self.others)
        return EnergyQuality(complete, energy.estimated or any(one.estimated for one in self.others))

    @property
    def telemetry(self) -> Telemetry:
        """That of this machine, with the GPUs of the others; of CPU packages the sum where the run trains on them."""
        own = self._monitor.telemetry
        if not self.others:
            return own
        away = [msgspec.structs.replace(gpu, host=one.host) for one in self.others for gpu in one.telemetry.gpus]
        watts = self.power_w if own.counts_cpu else own.cpu_power_w
        return msgspec.structs.replace(own, gpus=[*own.gpus, *away], cpu_power_w=watts)
