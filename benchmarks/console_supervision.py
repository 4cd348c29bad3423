"""What an open console takes from a real engine's steps a second.

The steps of a shared machine scatter by a fifth and drift by a tenth within a minute: two windows, one with a console
and one without, tell a difference of one per cent only after hours. So the comparison is made within one session:
steps during which the console was at work (it has just written to its terminal) against the steps around them, during
which it slept. The plain comparison of windows stands beside it, with its scatter, as a check.
"""

from __future__ import annotations

import bisect
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from andrea_engine.run.config import create_run
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.heartbeat import read_heartbeat
from andrea_engine.run.launch import spawn_engine
from andrea_engine.run.loss_entry import current_branch
from andrea_engine.run.loss_reader import LossReader
from andrea_tui.feed.pace import ATTENDED_SECONDS, LONGEST_BUSY
from benchmarks.report import Scale
from benchmarks.terminal import Terminal

PATIENCE = 120.0  # seconds for the engine to begin
BEFORE, AFTER = 0.3, 0.1  # seconds around a piece of output during which the console looks, draws and writes
AROUND = 2.0  # seconds on both sides whose steps tell how long a step takes just then
_STEPS_ONLY: dict[str, object] = {
    "checkpoint": {"every": 1_000_000},
    "sample": {"every": 1_000_000},
    "schedule": {"steps": 1_000_000},
}
_QUICK: dict[str, object] = {
    "model": {"d_model": 32, "layers": 1, "heads": 2, "context": 32},
    "tokenizer": {"segments": 40},
    "schedule": {"batch": 2, "steps": 1_000_000},
    "device": {"threads": 1},
}


@dataclass(frozen=True, slots=True)
class Timed:
    """A step: its end and its duration, in seconds."""

    end: float
    seconds: float

    @property
    def begin(self) -> float:
        return self.end - self.seconds


def supervision(scale: Scale, details: dict[str, object]) -> float:
    """Steps a second with a console that nobody touches, as a share of those without.

    The engine's own stopwatch counts, and it makes nothing but steps: samples and saves would fall among them.
    """
    seconds, settle, alone = (2.0, 0.5, 0.5) if scale.quick else (180.0, ATTENDED_SECONDS + LONGEST_BUSY, 45.0)
    directory = _run(scale)
    engine = spawn_engine(directory)
    try:
        _wait_for_steps(directory, engine)
        before = _watch(directory, engine, alone)
        with Terminal([sys.executable, "-m", "andrea_tui", directory.path]) as terminal:
            time.sleep(settle)
            used, began = terminal.cpu(), time.monotonic()
            attached = _watch(directory, engine, seconds)
            core_share = (terminal.cpu() - used) / (time.monotonic() - began)
        after = _watch(directory, engine, alone)
    finally:
        engine.terminate()
        engine.wait()
    if engine.returncode:
        raise RunError(f"the engine ended with exit code {engine.returncode}; see {directory.log}")
    took = _durations(directory)
    steps = timed(took, attached)
    written = [terminal.spawned_at + piece.at for piece in terminal.pieces]
    frames = frames_of([at for at in written if steps[0].end < at < steps[-1].end])
    lost = lost_share(steps, frames)
    windows = [statistics.fmean(step.seconds for step in timed(took, window)) for window in (before, attached, after)]
    details["supervision"] = {
        "frames": len(frames),
        "steps": len(steps),
        "core_share": round(core_share, 4),
        "ms_lost_per_frame": round(1000 * lost * sum(step.seconds for step in steps) / max(1, len(frames)), 1),
        "windows_ratio": round((windows[0] + windows[2]) / 2 / windows[1], 4),
        "windows_step_seconds": [round(window, 4) for window in windows],
    }
    return 1 - lost


def frames_of(written: Sequence[float]) -> list[tuple[float, float]]:
    """Stretches during which the console was at work, from the moments at which it wrote; in order, none overlap."""
    frames: list[tuple[float, float]] = []
    for at in written:
        if frames and at - BEFORE <= frames[-1][1]:
            frames[-1] = (frames[-1][0], at + AFTER)
        else:
            frames.append((at - BEFORE, at + AFTER))
    return frames


def lost_share(steps: Sequence[Timed], frames: Sequence[tuple[float, float]]) -> float:
    """How much of the time of `steps` was lost to `frames`: what a step takes longer while a frame is made than the
    mean of the steps around it, those of other frames left out. Both in order of time."""
    ends = [step.end for step in steps]
    hit: dict[int, int] = {}  # index of a step: that of its frame
    for number, (begin, end) in enumerate(frames):
        for index in range(bisect.bisect_right(ends, begin), len(steps)):
            if steps[index].begin >= end:
                break
            hit.setdefault(index, number)
    lost = 0.0
    for number, touched in itertools.groupby(hit, key=hit.__getitem__):
        begin, end = frames[number]
        near = range(bisect.bisect_left(ends, begin - AROUND), bisect.bisect_right(ends, end + AROUND))
        usual = [steps[index].seconds for index in near if index not in hit]
        if usual:
            mean = statistics.fmean(usual)
            lost += sum(steps[index].seconds - mean for index in touched)
    return lost / sum(step.seconds for step in steps)


def timed(took: dict[int, float], anchors: Sequence[tuple[int, float]]) -> list[Timed]:
    """The steps between the first anchor and the last, placed in time: an anchor is a step and the moment of its end.

    Between two anchors the durations are laid end to end, and what is left over is spread evenly.
    """
    steps: list[Timed] = []
    for (first, begin), (last, end) in itertools.pairwise(anchors):
        numbers = range(first + 1, last + 1)
        rest = (end - begin - sum(took[number] for number in numbers)) / max(1, len(numbers))
        at = begin
        for number in numbers:
            at += took[number] + rest
            steps.append(Timed(at, took[number]))
    return steps


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
    while _newest(directory) is None:
        if engine.poll() is not None or time.monotonic() > deadline:
            raise RunError("the engine that was to be watched makes no steps")
        time.sleep(0.05)


def _newest(directory: RunDirectory) -> tuple[int, float] | None:
    """The newest step that the engine has told of, and when it ended."""
    beat = read_heartbeat(directory.heartbeat)
    return (beat.step, beat.step_time) if beat is not None and beat.step > 3 and beat.step_time else None


def _watch(directory: RunDirectory, engine: subprocess.Popen[bytes], seconds: float) -> list[tuple[int, float]]:
    """Anchors for `timed`, of so many seconds and until there are two."""
    anchors: list[tuple[int, float]] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or len(anchors) < 2:
        if engine.poll() is not None or time.monotonic() > deadline + PATIENCE:
            raise RunError("the engine that was to be watched makes no more steps")
        newest = _newest(directory)
        if newest is not None and (not anchors or newest[0] > anchors[-1][0]):
            anchors.append(newest)
        time.sleep(1.0)
    return anchors


def _durations(directory: RunDirectory) -> dict[int, float]:
    entries = current_branch([*LossReader(directory.loss).read_all(), *LossReader(directory.journal).read_all()])
    return {entry.step: entry.seconds or 0.0 for entry in entries}
