"""Entry point of the console."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line, guarded where there is a terminal; returns the exit code."""
    from andrea_tui.parent import guarded

    return guarded(_run)


def _run() -> int:
    from andrea_tui.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
