"""A stopwatch for shared machines: it also notes how much CPU others used, so that disturbed samples can be dropped.

Cases that are compared are interleaved, round after round in alternating order, so that a machine that slows down
slows all of them. Compare medians over quiet samples; the absolute times are those of the moment.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psutil

QUIET = 0.12  # CPUs that others may use during a sample that counts
NEEDED = 3  # quiet samples that make a median; with fewer, the quietest ones stand in and `disturbed` says so


@dataclass(frozen=True, slots=True)
class Sample:
    """`seconds` of one repeat; `foreign`: CPUs that other processes and the hypervisor used meanwhile."""

    seconds: float
    foreign: float


@dataclass(frozen=True, slots=True)
class Case:
    """Something to time, `repeats` times a sample.

    `run` returns None to have its call timed, or the seconds that count instead. `prepare` goes before each repeat
    and is not timed.
    """

    run: Callable[[], float | None]
    prepare: Callable[[], object] | None = None
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class Summary:
    """Median seconds over the samples that count, and what there was to choose from."""

    median: float
    least: float
    most: float
    samples: int
    quiet: int
    foreign: float
    disturbed: bool

    def facts(self) -> dict[str, object]:
        """For the report: times in milliseconds, `foreign_cpus` the median over all samples."""
        return {
            "median_ms": round(self.median * 1e3, 4),
            "least_ms": round(self.least * 1e3, 4),
            "most_ms": round(self.most * 1e3, 4),
            "samples": self.samples,
            "quiet": self.quiet,
            "foreign_cpus": round(self.foreign, 3),
            "disturbed": self.disturbed,
        }


def take(case: Case) -> Sample:
    """One sample of a case."""
    busy, own, began, timed = _busy_cpu(), _own_cpu(), time.perf_counter(), 0.0
    for _ in range(case.repeats):
        if case.prepare is not None:
            case.prepare()
        started = time.perf_counter()
        reported = case.run()
        timed += time.perf_counter() - started if reported is None else reported
    wall = time.perf_counter() - began
    foreign = (_busy_cpu() - busy - (_own_cpu() - own)) / wall
    return Sample(timed / case.repeats, max(0.0, foreign))


def interleave(cases: Mapping[str, Case], least: int, most: int, limit: float = QUIET) -> dict[str, list[Sample]]:
    """`least` rounds over all cases, then more, up to `most`, until each has enough quiet samples."""
    forward = list(cases)
    taken: dict[str, list[Sample]] = {name: [] for name in forward}
    for number in range(max(1, most)):
        if number >= least and all(_quiet_count(samples, limit) >= NEEDED for samples in taken.values()):
            break
        for name in forward if number % 2 == 0 else reversed(forward):
            taken[name].append(take(cases[name]))
    return taken


def summarise(samples: list[Sample], limit: float = QUIET) -> Summary:
    """Median over the quiet samples, or over the `NEEDED` quietest when fewer are quiet. Needs one sample or more."""
    if not samples:
        raise ValueError("a median needs at least one sample")
    quiet = _quiet_count(samples, limit)
    counted = sorted(samples, key=lambda sample: sample.foreign)[: max(quiet, NEEDED)]
    seconds = [sample.seconds for sample in counted]
    return Summary(
        median=statistics.median(seconds),
        least=min(seconds),
        most=max(seconds),
        samples=len(samples),
        quiet=quiet,
        foreign=statistics.median(sample.foreign for sample in samples),
        disturbed=quiet < NEEDED,
    )


def differences(samples: list[Sample], base: list[Sample]) -> list[Sample]:
    """What each sample took longer than the base sample of its round; as disturbed as the worse of the two."""
    return [
        Sample(one.seconds - other.seconds, max(one.foreign, other.foreign))
        for one, other in zip(samples, base, strict=True)
    ]


def ratios(samples: list[Sample], base: list[Sample]) -> list[Sample]:
    """Each sample over the base sample of its round, in `seconds`; as disturbed as the worse of the two.

    The median of these scatters by half as much as the ratio of two medians does, where a machine is slow for minutes.
    """
    return [
        Sample(one.seconds / other.seconds, max(one.foreign, other.foreign))
        for one, other in zip(samples, base, strict=True)
    ]


def repeats_for(run: Callable[[], float | None], seconds: float) -> int:
    """How often to repeat `run` in a sample of about `seconds`. Calls it three times, the first two to warm up."""
    run()
    run()
    return max(1, round(seconds / take(Case(run)).seconds))


def _quiet_count(samples: list[Sample], limit: float) -> int:
    return sum(sample.foreign <= limit for sample in samples)


def _busy_cpu() -> float:
    """CPU seconds that the whole machine has worked, stolen time included."""
    times = psutil.cpu_times()
    return sum(getattr(times, kind, 0.0) for kind in ("user", "nice", "system", "irq", "softirq", "steal"))


def _own_cpu() -> float:
    """CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
