"""Throughput of a run on two processes against one with all threads: `python benchmarks/scaling.py`.

Both train the prepared demo for the same steps, in turns. What counts is the engine's own time of each step, after the
first ones; the ratio is the median over the rounds. It prints JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # as `gpu_check.py`, it may be run by its path

from andrea_engine.run.config import create_run
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.train.environment import available_threads
from andrea_engine.train.preparation import prepare

WARM_UP = 10  # steps that are not counted
QUIET_TABLES: dict[str, object] = {
    "checkpoint": {"every": 1_000_000},
    "sample": {"every": 1_000_000},
    "validation": {"every": 0},
}


def tokens_per_second(prepared: RunDirectory, scratch: Path, processes: int, steps: int) -> float:
    """Of one run from its beginning. Raises RuntimeError with the output of one that failed."""
    directory = RunDirectory(scratch / f"on {processes}")
    shutil.rmtree(directory.path, ignore_errors=True)
    shutil.copytree(prepared.path, directory.path)
    command = [sys.executable, "-m", "andrea_engine", "train", str(directory.path)]
    command += ["--steps", str(steps), "--nproc", str(processes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent)
    if done.returncode:
        raise RuntimeError(f"the run on {processes} process(es) failed: {done.stderr[-1000:]}")
    seconds = [entry.seconds or 0.0 for entry in LossReader(directory.loss).read_all()[WARM_UP:]]
    lock = json.loads(directory.resolved.read_text(encoding="utf-8"))
    return float(lock["tokens_per_step"] / statistics.median(seconds))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        prepared = RunDirectory(scratch / "prepared")
        config = create_run(prepared, "demo", QUIET_TABLES, None)
        prepare(prepared, config, report=lambda note: None, should_stop=lambda: False)
        taken: dict[int, list[float]] = {1: [], 2: []}
        for number in range(options.rounds):
            for processes in (1, 2) if number % 2 == 0 else (2, 1):
                taken[processes].append(tokens_per_second(prepared, scratch, processes, options.steps))
    ratios = [two / one for one, two in zip(taken[1], taken[2], strict=True)]
    report = {
        "threads": available_threads(),
        "ratios": {"two_process_vs_one": round(statistics.median(ratios), 4)},
        "rounds": [round(ratio, 4) for ratio in ratios],
        "tokens_per_second": {str(processes): [round(rate) for rate in rates] for processes, rates in taken.items()},
    }
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
