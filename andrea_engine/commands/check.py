"""`andrea-engine check`: validate everything in a run directory and explain what is wrong.

Exit code 0: no problem (notes and warnings are none); 2: run.toml cannot be used; 5: there is history and no valid
checkpoint; 1: any other problem. `--json` prints one object: `format` 1, `run`, `deep`, `ok`, `exit_code`, and
`findings`, each an object of four texts: `severity` (ok, note, warning, problem), `path`, `text`, `advice`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from andrea_engine.latch import SignalLatch
from andrea_engine.run.errors import ConfigError, ExitCode
from andrea_engine.run.plain import clean

HELP = "validate a run directory: checkpoints, digests, loss record, sidecars, permissions, leftovers"
JSON_FORMAT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from andrea_engine.cli import run_directory

    parser.add_argument("run", type=run_directory, metavar="RUN")
    parser.add_argument(
        "--deep", action="store_true", help="also read every byte of every checkpoint: digests and numbers"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    from andrea_engine.run.check import check

    if not options.run.path.is_dir():
        raise ConfigError(f"{options.run.path} does not exist")
    report = check(options.run, content_check() if options.deep else None)
    if options.json:
        document = {
            "format": JSON_FORMAT,
            "run": clean(str(options.run.path)),
            "deep": options.deep,
            "ok": report.ok,
            "exit_code": int(report.exit_code),
            "findings": [finding.as_dict() for finding in report.findings],
        }
        print(json.dumps(document, indent=1))
        return report.exit_code
    for finding in report.findings:
        print(f"{finding.severity:<8} {finding.path}: {finding.text}")
        if finding.advice and finding.severity in {"warning", "problem"}:
            print(f"{'':8} -> {finding.advice}")
    print("all is well" if report.ok else "there are problems: see the lines marked 'problem'")
    return report.exit_code


def content_check() -> Callable[[Path], str | None]:
    """What finds a problem in the numbers of a checkpoint; loads NumPy and PyTorch."""
    from andrea_engine.train.checkpointing import content_problem

    return content_problem
