"""Every single fault of a save, an append and a pivot, one after the other: the enumerations of the test-suite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.run.helpers import ROOT

_SAVE = "tests/faults/test_every_call.py::test_at_every_operation_of_a_save"
_PIVOT = "tests/run/test_pivot_crash.py"
ENUMERATIONS = (
    *(f"{_SAVE}[{how}]" for how in ("killed", "ENOSPC", "EIO", "EROFS", "EDQUOT")),
    "tests/run/test_loss_record.py::test_a_commit_that_was_cut_at_any_byte_is_finished",
    "tests/run/test_loss_record.py::test_a_journal_torn_at_any_byte",
    f"{_PIVOT}::test_stopped_once_anywhere",
    f"{_PIVOT}::test_stopped_anywhere_between_asking_and_the_end",
    f"{_PIVOT}::test_stopped_anywhere_and_again_anywhere_in_the_recovery",
    f"{_PIVOT}::test_killed_once_anywhere",
    f"{_PIVOT}::test_killed_anywhere_and_again_anywhere_in_the_recovery",
)


def trial(seed: int, scratch: Path) -> None:
    """Enumeration number `seed`; each must be there and pass."""
    node = ENUMERATIONS[seed % len(ENUMERATIONS)]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", node, "-m", "soak or not soak", "-p", "no:cacheprovider", "--timeout", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    assert result.returncode == 0, f"{node} failed\n{result.stdout[-3000:]}{result.stderr[-1000:]}"
