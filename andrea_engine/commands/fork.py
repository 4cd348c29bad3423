"""`andrea-engine fork`: a second run from a checkpoint of the first."""

from __future__ import annotations

import argparse

from andrea_engine.latch import SignalLatch
from andrea_engine.run.errors import ExitCode

HELP = "make a new run that starts from a checkpoint of this one, with the record up to it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from andrea_engine.cli import run_directory

    parser.add_argument("run", type=run_directory, metavar="RUN")
    parser.add_argument("new", type=run_directory, metavar="NEW", help="directory to create")
    parser.add_argument("--at", type=int, required=True, metavar="STEP", help="checkpoint to start from")


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    from andrea_engine.run.branching import fork

    done = fork(options.run, options.new, options.at)
    print(
        f"created {options.new.path} from step {done.step:,} of {options.run.path}, {done.entries:,} entries of record"
    )
    print(f"continue with: andrea-tui {options.new.path} --start")
    return ExitCode.OK
