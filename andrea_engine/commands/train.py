"""`andrea-engine train`: train, or resume, a run."""

from __future__ import annotations

import argparse

from andrea_engine.latch import SignalLatch
from andrea_engine.run.errors import ConfigError, ExitCode

HELP = "train or resume a run; SIGUSR1 saves and goes on, SIGTERM saves and stops"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from andrea_engine.cli import run_directory

    parser.add_argument("run", type=run_directory, metavar="RUN")
    parser.add_argument("--steps", type=int, metavar="N", help="train until step N (default: the planned total)")
    parser.add_argument("--override-halt", action="store_true", help="go on although the gate halted this run")
    parser.add_argument("--no-halt", action="store_true", help="where the gate would halt, raise an alarm and go on")
    parser.add_argument(
        "--accept-damaged-record", action="store_true", help="go on although .loss.json has unreadable lines"
    )
    parser.add_argument(
        "--deterministic", action="store_true", help="the same bits on every run, also on CUDA; somewhat slower"
    )


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    from andrea_engine.train.engine import TrainOptions, train

    if options.steps is not None and options.steps < 1:
        raise ConfigError(f"--steps must be 1 or more, got {options.steps}")
    try:
        return train(
            options.run,
            TrainOptions(
                until_step=options.steps,
                override_halt=options.override_halt,
                accept_damage=options.accept_damaged_record,
                deterministic=options.deterministic,
                no_halt=options.no_halt,
            ),
            latch,
        )
    finally:
        latch.retire()
