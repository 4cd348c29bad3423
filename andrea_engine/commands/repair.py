"""`andrea-engine repair`: repair what can be repaired safely; originals are moved aside and never deleted.

Without `--yes` it only says what it would do. The exit code is that of `andrea-engine check` afterwards (0 without a
problem, 1, 2 or 5 with one that is left), 4 while an engine runs.
"""

from __future__ import annotations

import argparse

from andrea_engine.latch import SignalLatch
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, ExitCode
from andrea_engine.run.plain import clean

HELP = "repair a stopped run where that is safe: torn ends, leftovers, invalid checkpoints, half-done pivots"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from andrea_engine.cli import run_directory

    parser.add_argument("run", type=run_directory, metavar="RUN")
    parser.add_argument("--yes", action="store_true", help="do it; without this it is only said what would be done")
    parser.add_argument(
        "--deep", action="store_true", help="also read every byte of every checkpoint: digests and numbers"
    )


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    from andrea_engine.commands.check import content_check
    from andrea_engine.run.check import check
    from andrea_engine.run.repair import repair
    from andrea_engine.run.workshop import Repair

    directory: RunDirectory = options.run
    if not directory.path.is_dir():
        raise ConfigError(f"{directory.path} does not exist")
    solved: set[str] = set()

    def announce(found: Repair) -> None:
        if found.solves:
            solved.add(found.path)
        print(
            f"{'repair' if options.yes else 'would repair'}  {clean(found.path)}: {clean(found.sentence)}", flush=True
        )

    deep = content_check() if options.deep else None
    count = repair(directory, apply=options.yes, announce=announce, deep=deep, rebuild=_snapshot)
    report = check(directory, deep)
    for finding in report.problems():
        if options.yes or finding.path not in solved:
            print(f"left    {finding.path}: {finding.text}")
            if finding.advice:
                print(f"{'':8}-> {finding.advice}")
    if not count:
        print("nothing to repair")
    elif options.yes:
        print(f"{count:,} repair(s) done; `andrea-engine check {clean(str(directory.path))}` looks at everything again")
    else:
        print(f"nothing was changed; to do it: andrea-engine repair {clean(str(directory.path))} --yes")
    return report.exit_code


def _snapshot(directory: RunDirectory, step: int) -> dict[str, object]:
    from andrea_engine.curriculum.preview import rebuild

    return rebuild(directory, step).snapshot()
