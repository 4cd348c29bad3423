"""What the machine did in the last minutes: power of each GPU, or of the CPU packages, or the CPU's load."""

from __future__ import annotations

from collections import deque

from andrea_engine.run.heartbeat import Gpu, Telemetry
from andrea_tui.feed.pyramid import Series

POWER_SECONDS = 600.0
MOST_READINGS = 2 * int(POWER_SECONDS)  # of a device: one a second is what an engine writes
MOST_DEVICES = 16  # that are followed; a heartbeat may claim any number
CPU = "CPU"


def device_key(gpu: Gpu) -> str:
    """Devices are the same by UUID, whatever their number is now."""
    return gpu.uuid or f"#{gpu.index}"


def run_gpus(telemetry: Telemetry) -> list[Gpu]:
    """The devices that the run uses; where that is not known, all boards."""
    gpus = telemetry.gpus[:MOST_DEVICES]
    return [gpu for gpu in gpus if gpu.used] or [gpu for gpu in gpus if not gpu.board]


def total_power(telemetry: Telemetry) -> float | None:
    """Watts of what the run uses: its GPUs, or the CPU packages for a run that trains there. None when there is none,
    or one of them does not tell."""
    if telemetry.counts_cpu or not telemetry.gpus:
        return telemetry.cpu_power_w
    gpus = run_gpus(telemetry)
    known = [gpu.power_w for gpu in gpus if gpu.power_w is not None and not gpu.problem]
    return sum(known) if known and len(known) == len(gpus) else None


class LoadHistory:
    """Readings of the last `POWER_SECONDS`, by device; `version` grows with each. `is_power`: watts, else percent."""

    def __init__(self) -> None:
        self.version = 0
        self.time: float | None = None
        self.is_power = False
        self._lines: dict[str, deque[tuple[float, float]]] = {}

    def take(self, telemetry: Telemetry) -> None:
        """A reading; one of the same time is the same again, and one from before means that the clock was set."""
        if telemetry.time == self.time:
            return
        if self.time is not None and telemetry.time < self.time:
            self._lines.clear()
        values = _readings(telemetry)
        if values:  # an engine that has just started tells nothing yet
            is_power = CPU not in values or telemetry.cpu_power_w is not None
            if is_power != self.is_power:
                self._lines.clear()  # watts and percent do not share an axis
            self.is_power = is_power
        self.time = telemetry.time
        self.version += 1
        for name, value in values.items():
            if name in self._lines or len(self._lines) < MOST_DEVICES:
                self._lines.setdefault(name, deque(maxlen=MOST_READINGS)).append((telemetry.time, value))
        for name, line in list(self._lines.items()):
            while line and telemetry.time - line[0][0] > POWER_SECONDS:
                line.popleft()
            if not line:
                del self._lines[name]

    def begin_with(self, watts: list[tuple[float, float]]) -> None:
        """(time, watts) of the whole run from before the first reading. They belong to its one device; of several
        devices nobody knows which of them took how much."""
        if not self.is_power or len(self._lines) != 1:
            return
        (line,) = self._lines.values()
        first = line[0][0]
        line.extendleft(reversed([(time, value) for time, value in watts if first - POWER_SECONDS < time < first]))
        self.version += 1

    def series(self) -> dict[str, Series]:
        """The readings of each device over seconds since the epoch."""
        return {name: Series([t for t, _ in line], [v for _, v in line]) for name, line in self._lines.items()}


def _readings(telemetry: Telemetry) -> dict[str, float]:
    """Watts of the devices that tell; where none does, of the CPU packages, else percent of the CPU."""
    if not telemetry.counts_cpu:
        gpus = [gpu for gpu in telemetry.gpus[:MOST_DEVICES] if not gpu.problem]
        powers = {device_key(gpu): gpu.power_w for gpu in gpus if gpu.power_w is not None}
        if powers or telemetry.gpus:
            return powers
    value = telemetry.cpu_percent if telemetry.cpu_power_w is None else telemetry.cpu_power_w
    return {} if value is None else {CPU: value}
