"""`andrea-engine fork`: a second run from a checkpoint of the first."""

from __future__ import annotations

import argparse

from andrea_engine.latch import SignalLatch
from andrea_engine.run.errors import ExitCode
from andrea_engine.run.plain import clean

PROGRAM = "andrea-engine fork"
HELP = "make a new run that starts from a checkpoint of this one, with the record up to it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from andrea_engine.cli import run_directory

    parser.add_argument("run", type=run_directory, metavar="RUN")
    parser.add_argument("new", type=run_directory, metavar="NEW", help="directory to create")
    parser.add_argument("--at", type=int, required=True, metavar="STEP", help="checkpoint to start from")
    parser.add_argument(
        "--policy", metavar="FILE", help="start the new run under another policy: a file, or the name of an example"
    )


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    from andrea_engine.run.branching import fork
    from andrea_engine.run.pivot import ask, policy_text, propose
    from andrea_engine.run.pivot_sequence import finish

    proposal = None
    if options.policy is not None:
        proposal = propose(options.run, policy_text(options.policy), options.policy)
    done = fork(options.run, options.new, options.at)
    print(
        f"created {options.new.path} from step {done.step:,} of {options.run.path}, {done.entries:,} entries of record"
    )
    if proposal is not None:
        ask(options.new, proposal.policy, "now", by=PROGRAM, restart=False)
        finished = finish(options.new, by=PROGRAM)
        for notice in proposal.notices:
            print(f"note: {clean(notice)}")
        if finished is not None:
            print(f"policy {finished.receipt.generation} from step {finished.receipt.first_step:,} on")
    print(f"continue with: andrea-tui {options.new.path} --start")
    return ExitCode.OK
