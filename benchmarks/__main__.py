"""`python -m benchmarks`: the same as `andrea-engine bench`."""

from __future__ import annotations

import argparse
import sys

from andrea_engine.commands.bench import add_arguments
from andrea_engine.run.errors import RunError
from benchmarks.runner import run


def main() -> int:
    """Run the chosen suites; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add_arguments(parser)
    try:
        return run(parser.parse_args())
    except RunError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return int(error.exit_code)


if __name__ == "__main__":
    sys.exit(main())
