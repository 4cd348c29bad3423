"""Energy of the CPU packages from the kernel's power capping interface (RAPL), where it may be read."""

from __future__ import annotations

import re
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
_PACKAGE = re.compile(r"intel-rapl:\d+")  # AMD's too; sub-zones have one more number, -mmio is the same package again
_LARGEST = 1 << 20  # characters of a file that are read


class PackageEnergy:
    """Counters of all packages since the first look. Most systems let only root read them: then there are none."""

    def __init__(self, root: Path = POWERCAP) -> None:
        self._zones = _packages(root)
        self._last: dict[Path, int] = {}
        self._joules: dict[str, float] = {}

    def read(self) -> dict[str, float]:
        """Joules by package, {} when one of them cannot be read. A counter that ran over is carried on."""
        readings = {zone: _number(zone / "energy_uj") for zone in self._zones}
        for zone, now in readings.items():
            used = None if now is None else now - self._last.get(zone, now)
            if used is not None and used < 0:
                span = _number(zone / "max_energy_range_uj")
                used = None if span is None else max(0, used + span)
            if now is None or used is None:
                self._last.clear()
                self._joules.clear()
                return {}
            self._joules[zone.name] = self._joules.get(zone.name, 0.0) + used / 1e6
            self._last[zone] = now
        return dict(self._joules)


def _packages(root: Path) -> list[Path]:
    try:
        zones = sorted(path for path in root.iterdir() if _PACKAGE.fullmatch(path.name))
    except OSError:
        return []
    return [zone for zone in zones if _word(zone / "name").startswith("package")]


def _number(path: Path) -> int | None:
    word = _word(path)
    return int(word) if word.isascii() and word.isdigit() else None


def _word(path: Path) -> str:
    try:
        with path.open() as file:
            return file.read(_LARGEST).strip()
    except (OSError, UnicodeDecodeError):
        return ""
