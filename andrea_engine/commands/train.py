"""`andrea-engine train`: train, or resume, a run."""

from __future__ import annotations

import argparse

from andrea_engine.latch import SignalLatch
from andrea_engine.run.errors import ConfigError, ExitCode

SWITCHES = ("override_halt", "no_halt", "accept_damaged_record", "deterministic")
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
        "--nproc", type=int, metavar="N", help="so many processes of this machine share each batch (device.nproc)"
    )
    parser.add_argument(
        "--deterministic", action="store_true", help="the same bits on every run, also on CUDA; somewhat slower"
    )


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    from andrea_engine.run.config import load_config
    from andrea_engine.train.engine import TrainOptions, train
    from andrea_engine.train.place import under_torchrun

    if options.steps is not None and options.steps < 1:
        raise ConfigError(f"--steps must be 1 or more, got {options.steps}")
    config = load_config(options.run)
    if not under_torchrun():
        processes = config.device.nproc if options.nproc is None else options.nproc
        if processes != 1:
            return _launch(options, processes, config.schedule.batch, latch)
    elif options.nproc is not None:
        raise ConfigError("--nproc starts torchrun itself; leave it out where torchrun starts this command")
    try:
        return train(
            options.run,
            config,
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


def _launch(options: argparse.Namespace, processes: int, batch: int, latch: SignalLatch) -> ExitCode:
    from andrea_engine.run.lock import require_free
    from andrea_engine.train.launcher import launch

    if processes < 2 or batch % processes:
        raise ConfigError(f"--nproc must divide the batch of {batch} sequences, got {processes}")
    require_free(options.run)  # before anything is started
    switches = [f"--{name.replace('_', '-')}" for name in SWITCHES if getattr(options, name)]
    steps = [] if options.steps is None else ["--steps", str(options.steps)]
    return launch(options.run, processes, [*switches, *steps], latch)
