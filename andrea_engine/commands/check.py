"""`andrea-engine check`: validate everything in a run directory and explain what is wrong."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from andrea_engine.latch import SignalLatch
from andrea_engine.run.errors import ConfigError, ExitCode

HELP = "validate a run directory: checkpoints, digests, loss record, sidecars, leftovers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from andrea_engine.cli import run_directory

    parser.add_argument("run", type=run_directory, metavar="RUN")
    parser.add_argument("--deep", action="store_true", help="also read every number of every checkpoint")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    from andrea_engine.run.check import check

    if not options.run.path.is_dir():
        raise ConfigError(f"{options.run.path} does not exist")
    report = check(options.run, _content_check() if options.deep else None)
    if options.json:
        print(json.dumps({"ok": report.ok, "findings": [f.as_dict() for f in report.findings]}, indent=1))
    else:
        for finding in report.findings:
            print(f"{finding.level:<8} {finding.what}: {finding.text}")
        print("all is well" if report.ok else "there are problems: see the lines marked 'problem'")
    return ExitCode.OK if report.ok else ExitCode.FAILED


def _content_check() -> Callable[[Path], str | None]:
    from andrea_engine.train.checkpointing import content_problem

    return content_problem
