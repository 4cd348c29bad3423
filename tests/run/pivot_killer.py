"""Kill the process that carries out a pivot before each of its operations, one child process for each.

    python pivot_killer.py TEMPLATE PLACE [pairs]

Leaves PLACE/K for each operation K, and with `pairs` PLACE/K-K2, where the recovery was killed at its operation K2.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.pivot_sequence import finish
from tests.run.faults import EVERY, VISIBLE, Faults, kill


def killed(directory: RunDirectory, at: int, names: tuple[str, ...]) -> bool:
    """Carry out the pivot in a child that is killed before operation `at`; False when it has fewer."""
    child = os.fork()
    if child == 0:
        try:
            with Faults(at, kill, names):
                finish(directory, by="a victim")
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, "the victim failed by itself"
    return False


def main() -> None:
    template, place, pairs = Path(sys.argv[1]), Path(sys.argv[2]), "pairs" in sys.argv[3:]
    for first in itertools.count(1):
        once = place / f"{first}"
        shutil.copytree(template, once)
        if not killed(RunDirectory(once), first, VISIBLE if pairs else EVERY):
            return
        for second in itertools.count(1) if pairs else ():
            twice = place / f"{first}-{second}"
            shutil.copytree(once, twice)
            if not killed(RunDirectory(twice), second, VISIBLE):
                break


if __name__ == "__main__":
    main()
