"""What a suite hands back, and the one JSON document made of it."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, Protocol

import psutil

from benchmarks.measure import Sample, Summary, ratios, summarise

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Target:
    """A bound that a value has to keep. A value with a unit is no ratio and stands under `figures`."""

    relation: Literal[">=", "<="]
    bound: float
    unit: str = ""

    def holds(self, value: float | None) -> bool:
        """False for a value that could not be measured."""
        if value is None or not math.isfinite(value):
            return False
        return value >= self.bound if self.relation == ">=" else value <= self.bound


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to measure. `quick` takes tiny shapes and few rounds: it proves that the suites run, nothing else.

    `scratch` is an empty directory, on the disk where runs would be; `threads` is what PyTorch may use.
    """

    quick: bool
    scratch: Path
    threads: int

    def rounds(self, least: int, most: int) -> tuple[int, int]:
        """Bounds for `interleave`."""
        return (1, 1) if self.quick else (least, most)


@dataclass(slots=True)
class Outcome:
    """Values by name, None where one could not be measured, and then `problems` says why.

    `disturbed` names the values that rest on too few quiet samples: they say more about the neighbours.
    """

    values: dict[str, float | None] = field(default_factory=dict)
    details: dict[str, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    disturbed: set[str] = field(default_factory=set)

    def compare(self, name: str, upper: Summary, lower: Summary, factor: float = 1.0) -> None:
        """Set `name` to the ratio of two medians, times `factor`."""
        self.values[name] = factor * upper.median / lower.median
        if upper.disturbed or lower.disturbed:
            self.disturbed.add(name)

    def compare_rounds(self, name: str, upper: list[Sample], lower: list[Sample]) -> None:
        """Set `name` to the median of the ratios of each round."""
        paired = summarise(ratios(upper, lower))
        self.values[name] = paired.median
        if paired.disturbed:
            self.disturbed.add(name)


class Suite(Protocol):
    """The shape of a suite module."""

    TARGETS: Mapping[str, Target]

    def measure(self, scale: Scale) -> Outcome:
        """Measure every name in `TARGETS`."""


def document(
    suites: Mapping[str, Suite], outcomes: Mapping[str, Outcome], machine: Mapping[str, object], *, quick: bool
) -> dict[str, object]:
    """The JSON document. Every target of every suite has its key, null when there is no value."""
    ratios: dict[str, float | None] = {}
    figures: dict[str, float | None] = {}
    targets: dict[str, object] = {}
    for name, suite in suites.items():
        for key, target in suite.TARGETS.items():
            value = outcomes[name].values.get(key)
            rounded = None if value is None or not math.isfinite(value) else float(f"{value:.4g}")
            (figures if target.unit else ratios)[key] = rounded
            targets[key] = {
                "relation": target.relation,
                "bound": target.bound,
                "unit": target.unit,
                "holds": target.holds(value),
                "disturbed": key in outcomes[name].disturbed,
            }
    return {
        "format": FORMAT,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "quick": quick,
        "machine": dict(machine),
        "ratios": ratios,
        "figures": figures,
        "targets": targets,
        "details": {name: outcome.details for name, outcome in outcomes.items()},
        "problems": [problem for outcome in outcomes.values() for problem in outcome.problems],
    }


def machine_facts(threads: int) -> dict[str, object]:
    """What the figures depend on, read before the first suite starts."""
    cpu = _cpu_info()
    flags = set(cpu.get("flags", "").split())
    return {
        "cpu": cpu.get("model name") or platform.processor() or platform.machine(),
        "cores": psutil.cpu_count(logical=False),
        "cpus": os.cpu_count(),
        "amx_bf16": "amx_bf16" in flags,
        "avx512": sorted(flag for flag in flags if flag.startswith("avx512")),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in ("torch", "transformers", "numpy", "andrea")},
        "threads": threads,
        "gomp_spincount": os.environ.get("GOMP_SPINCOUNT"),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def verdicts(report: Mapping[str, object]) -> Iterable[str]:
    """One line for people per value: name, value, bound, and whether it holds."""
    values = {**_mapping(report["ratios"]), **_mapping(report["figures"])}
    for key, target in _mapping(report["targets"]).items():
        facts = _mapping(target)
        value = "not measured" if values[key] is None else f"{values[key]:.4g} {facts['unit']}".rstrip()
        mark = "holds" if facts["holds"] else "MISSED"
        doubt = " (disturbed: too few quiet samples)" if facts["disturbed"] else ""
        yield f"{key:30} {value:>14}   {facts['relation']} {facts['bound']:<6} {mark}{doubt}"


def _mapping(value: object) -> Mapping[str, object]:
    assert isinstance(value, Mapping)
    return value


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_info() -> dict[str, str]:
    """The first processor of /proc/cpuinfo; empty where there is no such file."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
