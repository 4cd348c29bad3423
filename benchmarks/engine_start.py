"""From spawn to the end of the first step of a prepared demo run, against the same program with `torch.optim`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from andrea_engine.run.config import create_run
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.train.preparation import prepare
from benchmarks.measure import Case, interleave, summarise
from benchmarks.report import Outcome, Scale, Target

TARGETS = {"first_step_vs_torch_optim": Target("<=", 0.55)}
ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 120.0
_QUICK_TABLES: dict[str, object] = {
    "model": {"d_model": 32, "layers": 1, "heads": 2, "context": 32},
    "tokenizer": {"segments": 40},
    "schedule": {"batch": 2},
}


def measure(scale: Scale) -> Outcome:
    """Fresh interpreters, warm page cache, a fresh copy of the prepared run for each."""
    prepared = _prepared_run(scale)
    copy = scale.scratch / "copy"

    def renew() -> None:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(prepared.path, copy)

    kinds = ("ours", "torch-optim")
    cases = {kind: Case(lambda kind=kind: first_step(copy, kind), renew) for kind in kinds}  # type: ignore[misc]
    if not scale.quick:
        interleave(cases, 1, 1)  # reads the libraries into the page cache
    taken = interleave(cases, *scale.rounds(11, 15))
    ours, theirs = (summarise(taken[kind]) for kind in kinds)
    outcome = Outcome(details={"first_step": {"ours": ours.facts(), "torch_optim": theirs.facts()}})
    outcome.compare("first_step_vs_torch_optim", ours, theirs)
    return outcome


def first_step(run: Path, kind: str) -> float:
    """Seconds from the spawn of an engine on `run` to the end of its first step. Raises RunError with its output."""
    command = [sys.executable, "-m", "benchmarks.first_step", kind, str(run)]
    spawned = time.monotonic()
    # Modules are compiled once and kept, as on any machine where the engine has run before.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    words = done.stdout.split()
    if done.returncode or not words:
        raise RunError(f"the engine that was to make one step failed: {(done.stderr or done.stdout)[-500:]}")
    return float(words[-1]) - spawned


def _prepared_run(scale: Scale) -> RunDirectory:
    """A demo run whose tokenizer and encoded sources are made, and which has not trained."""
    directory = RunDirectory(scale.scratch / "prepared")
    if scale.quick:
        text = scale.scratch / "text.txt"
        text.write_text("".join(f"the boat {n} left the harbour at dawn\n" for n in range(400)), encoding="utf-8")
        source: dict[str, object] = {"name": "harbour", "kind": "text", "path": str(text)}
        config = create_run(directory, "demo", _QUICK_TABLES, [source])
    else:
        config = create_run(directory, "demo", {}, None)
    prepare(directory, config, report=lambda note: None, should_stop=lambda: False)
    return directory
