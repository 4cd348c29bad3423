"""`andrea-engine bench`: measure the engine against its peers on this machine."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import andrea_engine
from andrea_engine.latch import SignalLatch
from andrea_engine.run.errors import ConfigError

HELP = "measure speed and cost against peers on this machine; prints JSON (from a checkout of the source)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help="these suites: engine_step, engine_checkpoint, ...; engine for all of the engine's",
    )
    parser.add_argument("--quick", action="store_true", help="tiny shapes, one round: shows that it works, no figures")
    parser.add_argument("--memory", action="store_true", help="also the peak memory of 120m; needs 5 GB")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: bench-results/bench.json")


def run(options: argparse.Namespace, latch: SignalLatch) -> int:
    checkout = Path(andrea_engine.__file__).resolve().parent.parent
    if not (checkout / "benchmarks" / "runner.py").is_file():
        raise ConfigError(
            "bench needs the benchmarks folder, which is not installed with the package; "
            "run it from a checkout of the source: make bench"
        )
    if str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))
    return int(importlib.import_module("benchmarks.runner").run(options))
