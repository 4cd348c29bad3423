"""Command line of the engine. Parsing, `--help` and the torch-free commands answer without importing torch."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from andrea_engine import __version__
from andrea_engine.latch import SignalLatch
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ExitCode, RunError
from andrea_engine.run.plain import clean

COMMANDS = (
    "init",
    "train",
    "status",
    "check",
    "repair",
    "inspect",
    "score",
    "sample",
    "chat",
    "backtest",
    "rollback",
    "fork",
    "pivot",
    "bench",
)


def build_parser(only: str = "") -> argparse.ArgumentParser:
    """The whole command line; each command module adds its own arguments. `only` leaves the other commands out."""
    parser = argparse.ArgumentParser(
        prog="andrea-engine", description="Train small GPT models; the console is andrea-tui."
    )
    parser.add_argument("--version", action="version", version=f"andrea-engine {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in [only] if only in COMMANDS else COMMANDS:
        module = importlib.import_module(f"andrea_engine.commands.{name}")
        command = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(command)
        command.set_defaults(module=module)
    return parser


def run(arguments: Sequence[str], latch: SignalLatch) -> int:
    """Run one command; returns its exit code. A foreseeable error is one sentence on standard error."""
    if "train" not in arguments[:1]:
        latch.disarm()
    try:
        # The other commands' modules take a tenth of a second to import.
        options = build_parser(next(iter(arguments), "")).parse_args(arguments)
    except SystemExit as leaving:
        return int(leaving.code or 0)
    try:
        return int(options.module.run(options, latch))
    except RunError as error:
        print(f"andrea-engine: {clean(str(error))}", file=sys.stderr)
        return int(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output left: nothing more to say, and nobody to say it to
        return int(ExitCode.OK)
    except KeyboardInterrupt:
        return 128 + int(signal.SIGINT)


def run_directory(text: str) -> RunDirectory:
    """Argument type of RUN."""
    return RunDirectory(Path(text))
