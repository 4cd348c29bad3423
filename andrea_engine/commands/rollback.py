"""`andrea-engine rollback`: continue from an older checkpoint."""

from __future__ import annotations

import argparse

from andrea_engine.latch import SignalLatch
from andrea_engine.run.errors import ExitCode
from andrea_engine.run.plain import size

HELP = "go back to an older checkpoint; what came after it is archived, and the loss record keeps it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from andrea_engine.cli import run_directory

    parser.add_argument("run", type=run_directory, metavar="RUN")
    parser.add_argument("--to", type=int, required=True, metavar="STEP", help="checkpoint to continue from")


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    from andrea_engine.run.branching import rollback

    done = rollback(options.run, options.to)
    print(f"{options.run.path} stands at step {done.step:,} again; it had reached step {done.from_step:,}")
    if done.moved:
        print(f"{len(done.moved)} newer checkpoint(s), {size(done.bytes)}, moved to archive/{done.archive.name}")
    print(f"continue with: andrea-tui {options.run.path} --start")
    return ExitCode.OK
