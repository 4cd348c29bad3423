"""How one of our processes starts another."""

from __future__ import annotations

import sys


def module_command(module: str, *arguments: object) -> list[str]:
    """`python -m module`, but never a file of the working directory (-P): that may be a run that came from elsewhere,
    and nothing in a run is ever executed."""
    return [sys.executable, "-P", "-m", module, *map(str, arguments)]
