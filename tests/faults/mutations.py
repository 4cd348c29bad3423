"""Take each safeguard out, one at a time, and see that a test fails: `python -m tests.faults.mutations [--only WORD]`.

Works on a copy in a temporary folder; the checkout is only read. The tests have to pass on the copy as it is, or their
failing would mean nothing. `make soak` runs all of them, `make test` checks the table and runs one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.faults.collected import ROOT
from tests.faults.mutation import Mutation
from tests.faults.mutations_files import FILES
from tests.faults.mutations_processes import PROCESSES
from tests.faults.mutations_saves import SAVES
from tests.faults.mutations_terminal import TERMINAL

MUTATIONS = (*FILES, *SAVES, *PROCESSES, *TERMINAL)
COPIED = ("andrea_engine", "andrea_tui", "tests", "pyproject.toml")
PACKAGES = ("andrea_engine", "andrea_tui", "tests.faults.mutation")
PATIENCE = 900.0  # seconds for one call of pytest; each test has its own limit
PASSED, FAILED = 0, 1  # pytest's exit codes; any other means that the tests were not run


@contextmanager
def workbench() -> Iterator[Path]:
    """A copy of what is tested and of the tests. Raises RuntimeError where another copy would be imported."""
    with tempfile.TemporaryDirectory(prefix="mutations-") as name:
        copy = Path(name).resolve()
        for part in COPIED:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(ROOT / part, copy / part)
        code = f"import importlib; [print(importlib.import_module(name).__file__) for name in {PACKAGES}]"
        found = subprocess.run(
            [sys.executable, "-c", code], cwd="/", env=_environment(copy), capture_output=True, text=True, check=True
        )
        if not all(Path(file).is_relative_to(copy) for file in found.stdout.split()):
            raise RuntimeError(f"the tests would not import the copy in {copy}: {found.stdout}")
        yield copy


def _environment(copy: Path) -> dict[str, str]:
    """Of a pytest that knows nothing of the one it may have been started by."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, "PYTHONPATH": str(copy)}


def run_tests(copy: Path, tests: Sequence[str], *options: str) -> tuple[int, str]:
    """Exit code of pytest, and what it said."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n0", "--timeout", "60", "--tb=line"]
    done = subprocess.run(
        [*command, *options, *tests],
        cwd=copy,
        env=_environment(copy),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
        start_new_session=True,  # a mutant may signal its whole group
    )
    return done.returncode, done.stdout


def check_unmutated(copy: Path, mutations: Sequence[Mutation]) -> None:
    """Raises RuntimeError, with what failed, unless all their tests pass as things are."""
    tests = sorted({test for mutation in mutations for test in mutation.tests})
    code, said = run_tests(copy, tests)
    if code != PASSED:
        raise RuntimeError(f"the tests do not pass without a mutation (exit code {code}):\n{said}")


def is_killed(copy: Path, mutation: Mutation) -> bool:
    """Whether a test fails without this safeguard. Raises RuntimeError when the tests could not be run at all."""
    path = copy / mutation.path
    text, times = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(mutation.applied(text), encoding="utf-8")
    # Byte code is known by the time of its source: that of the mutant must not pass for that of the original.
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 10**10))
    try:
        code, said = run_tests(copy, mutation.tests, "-x")
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    if code not in {PASSED, FAILED}:
        raise RuntimeError(f"{mutation.title}: pytest ended with {code}:\n{said}")
    return code == FAILED


def survivors(mutations: Sequence[Mutation]) -> list[str]:
    """Titles of the mutations that no test noticed; each verdict is printed as it falls."""
    with workbench() as copy:
        check_unmutated(copy, mutations)
        alive = []
        for mutation in mutations:
            started = time.monotonic()
            killed = is_killed(copy, mutation)
            verdict = "killed  " if killed else "SURVIVED"
            print(f"{verdict} {time.monotonic() - started:5.1f} s  {mutation.title}", flush=True)
            if not killed:
                alive.append(mutation.title)
        return alive


def main() -> int:
    """0 when every mutation was noticed, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutations", description=__doc__)
    parser.add_argument("--only", metavar="WORD", default="", help="only those whose title contains WORD")
    parser.add_argument("--list", action="store_true", help="only list them")
    options = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if options.only in mutation.title]
    if options.list or not chosen:
        print("\n".join(mutation.title for mutation in chosen) or f"no mutation is called {options.only}")
        return 0 if chosen else 2
    alive = survivors(chosen)
    print(f"{len(chosen) - len(alive)} of {len(chosen)} killed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
