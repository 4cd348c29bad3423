"""`andrea-engine score`: the four coherence scores of a text."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from andrea_engine.latch import SignalLatch
from andrea_engine.run.errors import ConfigError, ExitCode

HELP = "score a text file, or standard input (-), on the four axes of the coherence gate"
LIMIT = 16 * 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="text file, or - for standard input")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    from andrea_engine.coherence.metrics import AXES, score

    scores = score(_read(options.file))
    values = {axis.name: getattr(scores, axis.name) for axis in AXES}
    if options.json:
        print(json.dumps({**values, "total": scores.total}))
        return ExitCode.OK
    for axis in AXES:
        print(f"{axis.name:<10} {values[axis.name]:6.2f} of {axis.maximum}")
    print(f"{'total':<10} {scores.total:6.2f} of 100")
    return ExitCode.OK


def _read(name: str) -> str:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(LIMIT)
        else:
            with Path(name).open("rb") as file:
                data = file.read(LIMIT)
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}") from error
    return data.decode("utf-8", "replace")
