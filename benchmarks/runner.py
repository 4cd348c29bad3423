"""Runs the suites, prints the JSON document and stores it."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import cast

import msgspec

from andrea_engine.run.errors import ConfigError, ExitCode
from andrea_engine.run.io import atomic_write
from benchmarks.report import Outcome, Scale, Suite, document, machine_facts, verdicts

SUITES = ("engine_step", "engine_checkpoint", "engine_start", "engine_record", "console")
MEMORY = "engine_memory"  # needs 5 GB of memory, so it is asked for
DEFAULT_OUT = Path("bench-results") / "bench.json"


def run(options: argparse.Namespace) -> ExitCode:
    """Measure what `options` (see `andrea_engine.commands.bench`) choose.

    The document goes to standard output and to `options.out`, progress and verdicts to standard error. A missed
    target is a finding and no error; FAILED means that something could not be measured. Raises ConfigError for an
    unknown suite or a place that cannot be written.
    """
    names = chosen(options.only or [], memory=options.memory)
    # As the engine does: idle OpenMP threads that spin would fight the neighbours. Read when torch is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    out = options.out or DEFAULT_OUT
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".scratch-", dir=out.parent) as scratch:
            report = _measure(names, Path(scratch), quick=options.quick)
        text = msgspec.json.format(msgspec.json.encode(report), indent=1)
        atomic_write(out, text + b"\n")
    except OSError as error:
        raise ConfigError(f"{out} cannot be written: {error}; choose another place with --out") from error
    print(text.decode())
    for line in verdicts(report):
        print(line, file=sys.stderr)
    for problem in cast(list[str], report["problems"]):
        print(f"not measured: {problem}", file=sys.stderr)
    return ExitCode.FAILED if report["problems"] else ExitCode.OK


def chosen(only: list[str], *, memory: bool) -> list[str]:
    """Names of the suites to run. `engine` stands for all of `SUITES` that begin with `engine_`; `memory` adds one.

    Raises ConfigError for a name that stands for nothing.
    """
    wanted = [MEMORY] if memory else []
    for name in only:
        meant = [suite for suite in SUITES if suite.startswith(f"{name}_")]
        if name in {*SUITES, MEMORY}:
            meant = [name]
        if not meant:
            raise ConfigError(f"there is no suite '{name}'; choose among {', '.join((*SUITES, MEMORY))}")
        wanted += meant
    if not only:
        wanted += SUITES
    return [suite for suite in (*SUITES, MEMORY) if suite in wanted]


def _measure(names: list[str], scratch: Path, *, quick: bool) -> dict[str, object]:
    from andrea_engine.train.environment import available_threads

    threads = available_threads()
    machine = machine_facts(threads)
    suites, outcomes = {}, {}
    for name in names:
        suite = cast(Suite, importlib.import_module(f"benchmarks.{name}"))
        place = scratch / name
        place.mkdir()
        print(f"{name} ...", file=sys.stderr, flush=True)
        started = time.monotonic()
        suites[name], outcomes[name] = suite, _outcome(name, suite, Scale(quick, place, threads))
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        gc.collect()  # the next suite shall not pay for the buffers of this one
    return document(suites, outcomes, machine, quick=quick)


def _outcome(name: str, suite: Suite, scale: Scale) -> Outcome:
    """A suite that breaks must not take the figures of the others with it."""
    try:
        return suite.measure(scale)
    except Exception as error:
        return Outcome(problems=[f"{name}: {type(error).__name__}: {error}"])
