"""Entry point of the engine. The signals are armed before anything heavy is imported."""

from __future__ import annotations

from andrea_engine.latch import LATCH

LATCH.arm()

import sys  # noqa: E402  (arming comes first: a signal during the imports must wait, not kill)


def main() -> int:
    """Run the command line; returns the exit code."""
    from andrea_engine.cli import run

    return run(sys.argv[1:], LATCH)


if __name__ == "__main__":
    sys.exit(main())
