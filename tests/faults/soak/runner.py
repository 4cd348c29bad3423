"""Run trials of several kinds on all cores, and report what failed by kind and seed."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from andrea_tui.parent import _end_with
from tests.faults.soak.kinds import KINDS, Kind
from tests.faults.soak.shared import memory

FORMAT = 1
MOST_SEEDS = 100  # failed seeds that are kept of a kind


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass(slots=True)
class Outcome:
    """Of one kind. `failed` maps seeds to sentences; `skipped` is the reason why nothing was tried."""

    trials: int = 0
    seconds: float = 0.0
    failed: dict[int, str] = field(default_factory=dict)
    skipped: str | None = None
    date: str = field(default_factory=_now)

    def as_dict(self) -> dict[str, Any]:
        return {
            "trials": self.trials,
            "failures": len(self.failed),
            "seconds": round(self.seconds, 1),
            "date": self.date,
            "failed_seeds": sorted(self.failed)[:MOST_SEEDS],
            "skipped": self.skipped,
        }


def run(
    kinds: Sequence[Kind],
    *,
    scale: float = 1.0,
    seed: int = 0,
    trials: int | None = None,
    workers: int = 1,
    earlier: Mapping[str, dict[str, Any]] | None = None,
    tell: Callable[[dict[str, object]], None] = lambda report: None,
) -> dict[str, object]:
    """Run the kinds one after the other; returns the report. `trials` overrides the counts that `scale` makes.

    `earlier` are kinds of another report, which stay in this one unless they run again. `tell` gets the report after
    each kind: hours of trials are not lost with the last of them. With one worker the trials run in this process.
    """
    found: dict[str, dict[str, Any]] = dict(earlier or {})
    report: dict[str, object] = {
        "format": FORMAT,
        "date": _now(),
        "machine": machine(),
        "scale": scale,
        "seed": seed,
        "kinds": {},
        "failures": 0,
    }
    for kind in kinds:
        seeds = _seeds(kind, scale, seed, trials)
        print(f"{kind.name}: {len(seeds):,} trials", file=sys.stderr, flush=True)
        outcome = _run_kind(kind, seeds, workers)
        ending = outcome.skipped or f"{len(outcome.failed)} failures in {outcome.seconds:.1f} s"
        print(f"{kind.name}: {ending}", file=sys.stderr, flush=True)
        found[kind.name] = outcome.as_dict()
        report["kinds"] = {name: found[name] for name in KINDS if name in found}
        report["failures"] = sum(facts["failures"] for facts in found.values())
        tell(report)
    return report


def machine() -> dict[str, object]:
    """What a figure depends on; nothing that tells whose machine it is."""
    return {
        "system": platform.system(),
        "kernel": platform.release().split("-")[0],
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python": platform.python_version(),
        "torch": version("torch"),
        "textual": version("textual"),
    }


def _seeds(kind: Kind, scale: float, seed: int, trials: int | None) -> range:
    count = max(1, math.ceil(kind.count * scale)) if trials is None else trials
    return range(seed, seed + (min(count, kind.count) if kind.listed else count))


def _run_kind(kind: Kind, seeds: range, workers: int) -> Outcome:
    reason = kind.reason()
    if reason is not None:
        return Outcome(skipped=reason)
    outcome = Outcome()
    started = time.monotonic()
    results = run_seeds(kind, seeds) if workers == 1 else _in_processes(kind, seeds, workers)
    for seed, sentence in results:
        outcome.trials += 1
        if sentence is not None:
            outcome.failed[seed] = sentence
            print(f"{kind.name} failed, replay with --only {kind.name} --seed {seed} --trials 1", file=sys.stderr)
            print(sentence, file=sys.stderr, flush=True)
    outcome.seconds = time.monotonic() - started
    return outcome


def run_seeds(kind: Kind, seeds: Iterable[int]) -> Iterator[tuple[int, str | None]]:
    """Run trials here. Yields each seed with what went wrong, or None."""
    for seed in seeds:
        where = None if kind.on_disk else memory()
        with tempfile.TemporaryDirectory(prefix="soak-", dir=where, ignore_cleanup_errors=True) as scratch:
            yield seed, _tried(kind, seed, Path(scratch))


def _tried(kind: Kind, seed: int, scratch: Path) -> str | None:
    try:
        kind.trial(seed, scratch)
    except AssertionError as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{error} ({Path(where.filename).name}:{where.lineno})"
    except Exception:
        return traceback.format_exc()
    return None


def _in_processes(kind: Kind, seeds: range, workers: int) -> Iterator[tuple[int, str | None]]:
    size = max(1, min(200, len(seeds) // (4 * workers)))
    chunks = [seeds[at : at + size] for at in range(0, len(seeds), size)]
    context = multiprocessing.get_context("spawn")
    # Trials of a loop that was killed would otherwise go on and keep the processors busy.
    with ProcessPoolExecutor(workers, context, initializer=_end_with, initargs=(os.getpid(),)) as pool:
        waiting = {pool.submit(_run_chunk, kind.name, chunk): chunk for chunk in chunks}
        for done in as_completed(waiting):
            try:
                yield from done.result()
            except BrokenProcessPool:
                yield from ((seed, "the process of the trials died in this chunk") for seed in waiting[done])


def _run_chunk(name: str, seeds: range) -> list[tuple[int, str | None]]:
    return list(run_seeds(KINDS[name], seeds))


@contextlib.contextmanager
def private_state() -> Iterator[None]:
    """Consoles of the trials remember nothing for the user who runs them."""
    before = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory(prefix="soak-state-", ignore_cleanup_errors=True) as home:
        os.environ["XDG_STATE_HOME"] = home
        try:
            yield
        finally:
            del os.environ["XDG_STATE_HOME"]
            if before is not None:
                os.environ["XDG_STATE_HOME"] = before
