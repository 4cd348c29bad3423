"""Peak memory of 120m, the largest model for a CPU: one process starts, steps and saves, the next one resumes."""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from andrea_engine.run.errors import RunError
from benchmarks.report import Outcome, Scale, Target

if TYPE_CHECKING:
    from andrea_engine.model.flat import FlatParameters

TARGETS = {"peak_120m_gb": Target("<=", 4.5, "GB")}
ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 600.0
BATCH = 1


def measure(scale: Scale) -> Outcome:
    """Peak resident memory in units of 10^9 bytes, up to the end of each phase of each process.

    The engine loads a checkpoint at its start and at no other time, so loading has a process of its own.
    Raises RunError when the second process does not hold what the first one saved.
    """
    saved, loaded = spawn("start", scale), spawn("resume", scale)
    if saved.pop("sha256") != loaded.pop("sha256"):
        raise RunError("the 120m state that was loaded is not the one that was saved")
    peaks = {"start": saved, "resume": loaded}
    worst = max(float(str(peak)) for phases in peaks.values() for peak in phases.values())
    return Outcome({"peak_120m_gb": worst}, {"peak_gb_after": peaks, "batch": BATCH})


def peak_bytes() -> int:
    """Peak resident memory of this process.

    From /proc, because `ru_maxrss` of a child begins at the peak of the parent that spawned it.
    """
    try:
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def live(kind: str, scale: Scale) -> dict[str, object]:
    """`start` or `resume`: the peaks of this process, and the digest of the state between the two lives."""
    import torch

    from andrea_engine.model.flat import FlatParameters
    from andrea_engine.run.checkpoint import checkpoint_name
    from andrea_engine.train.checkpointing import content_problem, load_checkpoint
    from benchmarks.engine_checkpoint import Saves
    from benchmarks.models import EngineStep, preset_shape

    torch.set_num_threads(scale.threads)
    told: dict[str, object] = {}

    def note(phase: str) -> None:
        told[phase] = round(peak_bytes() / 1e9, 3)

    flat = FlatParameters(preset_shape("120m", quick=scale.quick))
    if kind == "start":
        flat.init_weights(seed=0)
        note("init")
    else:
        path = scale.scratch / checkpoint_name(1)
        problem = content_problem(path)
        if problem is not None:
            raise RunError(f"the saved checkpoint {problem}")
        load_checkpoint(path, flat)
        note("load")
        told["sha256"] = _digest(flat)
    EngineStep(flat, BATCH)()
    note("step")
    if kind == "start":
        told["sha256"] = _digest(flat)
    saves = Saves(scale.scratch if kind == "start" else scale.scratch / "again", flat)
    saves.submit()
    saves.wait()
    note("save")
    return told


def spawn(kind: str, scale: Scale) -> dict[str, object]:
    """`live` in a process of its own. Raises RunError with the end of its output when it fails."""
    command = [sys.executable, "-m", "benchmarks.engine_memory", kind, str(scale.scratch), str(scale.threads)]
    command.append("quick" if scale.quick else "full")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode:
        raise RunError(f"the process with the 120m model failed: {done.stderr[-500:]}")
    told: dict[str, object] = json.loads(done.stdout)
    return told


def _digest(flat: FlatParameters) -> str:
    digest = hashlib.sha256()
    for buffer in (flat.w, flat.m, flat.v):
        digest.update(buffer.numpy().data)
    return digest.hexdigest()


if __name__ == "__main__":
    life, place, threads, size = sys.argv[1:]
    print(json.dumps(live(life, Scale(size == "quick", Path(place), int(threads)))))
