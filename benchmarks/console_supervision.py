"""Steps a second of a real engine with a console attached, against the same engine without."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from andrea_engine.run.config import create_run
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.loss_entry import LossEntry, current_branch
from andrea_engine.run.loss_reader import LossReader
from benchmarks.report import Scale
from benchmarks.terminal import Terminal

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 120.0  # seconds for the engine to begin
STARTED = 3.0  # seconds after its spawn, a console has read everything and is at rest
_STEPS_ONLY: dict[str, object] = {"checkpoint": {"every": 1_000_000}, "sample": {"every": 1_000_000}}
_QUICK: dict[str, object] = {
    "model": {"d_model": 32, "layers": 1, "heads": 2, "context": 32},
    "tokenizer": {"segments": 40},
    "schedule": {"batch": 2, "steps": 1_000_000},
    "device": {"threads": 1},
}


def supervision(scale: Scale, details: dict[str, object]) -> float:
    """The ratio of mean steps a second: the median over pairs of windows, one with and one without a console.

    The engine's own stopwatch counts, and it makes nothing but steps: samples and saves would fall into some windows
    and not into others.
    """
    pairs, seconds, settle = (1, 0.5, 0.5) if scale.quick else (8, 12.0, STARTED)
    directory = _run(scale)
    command = [sys.executable, "-m", "andrea_engine", "train", str(directory.path)]
    engine = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    windows: list[tuple[tuple[int, int], tuple[int, int]]] = []
    try:
        _wait_for_steps(directory, engine)
        for number in range(pairs):
            # In alternating order, so that a machine that slows down slows both.
            if number % 2 == 0:
                alone = _window(directory, seconds)
            with Terminal([sys.executable, "-m", "andrea_tui", directory.path]):
                time.sleep(settle)
                attached = _window(directory, seconds)
            if number % 2:
                alone = _window(directory, seconds)
            windows.append((attached, alone))
    finally:
        engine.terminate()
        output = engine.communicate()[0]
    if engine.returncode:
        raise RunError(f"the engine ended with exit code {engine.returncode}: {output[-500:].decode(errors='replace')}")
    took = {entry.step: entry.seconds for entry in _entries(directory)}
    ratios = [_mean(took, alone) / _mean(took, attached) for attached, alone in windows]
    details["supervision"] = {
        "ratios": [round(ratio, 4) for ratio in ratios],
        "steps_per_window": statistics.median(last - first for pair in windows for first, last in pair),
        "seconds": seconds,
    }
    return statistics.median(ratios)


def _run(scale: Scale) -> RunDirectory:
    directory = RunDirectory(scale.scratch / "supervised")
    if not scale.quick:
        create_run(directory, "demo", _STEPS_ONLY, None)
        return directory
    text = scale.scratch / "text.txt"
    text.write_text("".join(f"the boat {n} left the harbour at dawn\n" for n in range(400)), encoding="utf-8")
    create_run(directory, "demo", _QUICK, [{"name": "harbour", "kind": "text", "path": str(text)}])
    return directory


def _wait_for_steps(directory: RunDirectory, engine: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while _newest(directory) < 3:
        if engine.poll() is not None or time.monotonic() > deadline:
            raise RunError("the engine that was to be watched makes no steps")
        time.sleep(0.05)


def _window(directory: RunDirectory, seconds: float) -> tuple[int, int]:
    """The newest step at the beginning and at the end of a window."""
    first = _newest(directory)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or _newest(directory) == first:
        time.sleep(0.25)
    return first, _newest(directory)


def _newest(directory: RunDirectory) -> int:
    entries = LossReader(directory.journal).read_all() or LossReader(directory.loss).read_all()
    return entries[-1].step if entries else 0


def _entries(directory: RunDirectory) -> list[LossEntry]:
    return current_branch([*LossReader(directory.loss).read_all(), *LossReader(directory.journal).read_all()])


def _mean(took: dict[int, float | None], window: tuple[int, int]) -> float:
    return statistics.fmean(took[step] or 0.0 for step in range(window[0] + 1, window[1] + 1))
