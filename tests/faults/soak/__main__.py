"""`python -m tests.faults.soak`: run the loops, write the report. Exit code 1 when anything failed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from andrea_engine.run.io import atomic_write
from tests.faults.soak import shared
from tests.faults.soak.kinds import KINDS
from tests.faults.soak.runner import FORMAT, private_state, run


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="part of the full counts to run (1.0)")
    parser.add_argument("--only", nargs="+", choices=sorted(KINDS), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the first trial of each kind (0)")
    parser.add_argument("--trials", type=int, metavar="N", help="trials of each kind, instead of --scale")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (all cores)")
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="where to write the report, after each kind; what --only leaves out stays in it; without: printed",
    )
    options = parser.parse_args(arguments)
    kinds = [KINDS[name] for name in options.only or KINDS]
    workers = 1 if options.trials == 1 else max(1, options.workers)
    try:
        with private_state():
            report = run(
                kinds,
                scale=options.scale,
                seed=options.seed,
                trials=options.trials,
                workers=workers,
                earlier=_kinds_of(options.report) if options.only else None,
                tell=lambda report: _write(report, options.report),
            )
    finally:
        shared.close()
    if options.report is None:
        print(_text(report), end="")
    return 1 if report["failures"] else 0


def _kinds_of(path: Path | None) -> dict[str, dict[str, Any]]:
    """What an earlier report says of each kind; nothing without one of this format."""
    if path is None or not path.exists():
        return {}
    report = json.loads(path.read_text(encoding="utf-8"))
    return dict(report["kinds"]) if report["format"] == FORMAT else {}


def _write(report: dict[str, object], path: Path | None) -> None:
    if path is not None:
        atomic_write(path, _text(report).encode())


def _text(report: dict[str, object]) -> str:
    return json.dumps(report, indent=1) + "\n"


if __name__ == "__main__":
    sys.exit(main())
