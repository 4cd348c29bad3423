"""`andrea-engine status`: the facts of a run, as text or JSON."""

from __future__ import annotations

import argparse

from andrea_engine.latch import SignalLatch
from andrea_engine.run.errors import ConfigError, ExitCode

HELP = "print the facts of a run: state, loss, sample scores, arms, checkpoints"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from andrea_engine.cli import run_directory

    parser.add_argument("run", type=run_directory, metavar="RUN")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    from andrea_engine.run.summary import summarise
    from andrea_engine.run.summary_text import as_json, render

    if not options.run.path.is_dir():
        raise ConfigError(
            f"{options.run.path} does not exist; create a run with: andrea-engine init {options.run.path}"
        )
    print((as_json if options.json else render)(summarise(options.run)))
    return ExitCode.OK
