"""Run directories in every situation, written by hand: no engine is needed to look at them."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import Heartbeat, LastSave, Telemetry, write_heartbeat
from andrea_engine.run.lock import EngineLock
from andrea_engine.run.process import boot_id, start_time
from andrea_tui.control import Owner
from tests.support.tiny import CHECKPOINT_BYTES, N_PARAMS, make_run

STEPS = 40
ENDED = ("stopped", "finished", "halted", "failed")


def beat(phase: str, *, pid: int | None = None, **fields: object) -> Heartbeat:
    pid = os.getpid() if pid is None else pid
    now = time.time()
    known: dict[str, object] = {
        "pid": pid,
        "process_start": start_time(pid),
        "boot_id": boot_id(),
        "host": socket.gethostname(),
        "session": 1,
        "phase": phase,
        "phase_since": now,
        "time": now,
        "step": STEPS,
        "target_step": 5000,
        "total_steps": 5000,
        "armed": True,
        "step_time": now,
        "step_seconds": 3.0,
        "tokens_per_second": 400.0,
        "eta_seconds": 3600.0,
        "last_save": LastSave(step=30, bytes=384_008, seconds=0.1, time=now, reason="cadence"),
        "telemetry": Telemetry(time=now, gpu_problem="no NVIDIA GPU", cpu_percent=50.0),
    }
    return Heartbeat(**(known | fields))  # type: ignore[arg-type]


def fill(directory: RunDirectory, text: str = "garden") -> None:
    """Forty steps, four samples, arms and events; every free text is `text`."""
    entries = [
        {"step": s, "loss": 6.0 - s / 20, "ema": 6.1 - s / 20, "source": text, "session": 1}
        for s in range(1, STEPS + 1)
    ]
    directory.loss.write_text("[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n")
    scores = {"bigram": 30.0, "trigram": 33.0, "english": 16.0, "character": 8.0, "total": 87.0}
    samples = [{"step": s, "text": f"{s} {text}", "scores": scores, "source": text} for s in (10, 20, 30, 40)]
    directory.samples.write_text(json.dumps(samples))
    arm = {"pulls": 20, "share": 0.5, "weight": 1.0, "floor": 0.1, "cap": None, "held_by": text, "in_focus": True}
    gone = {"available": False, "zombie": True, "reason": text, "stored_weight": 1.546}
    directory.state.write_text(json.dumps({"arms": {text: arm, "gone": gone}, "focus": {"arms": [text], "until": 47}}))
    with (directory.path / "step_000030.bin").open("wb") as file:
        file.write(struct.pack("<ii", 30, N_PARAMS))
        file.truncate(CHECKPOINT_BYTES)
    events = [{"time": 1.0 + i, "kind": kind, "session": 1, **facts} for i, (kind, facts) in enumerate(_events(text))]
    directory.events.write_text("".join(json.dumps(event) + "\n" for event in events))


def _events(text: str) -> list[tuple[str, dict[str, object]]]:
    return [
        ("start", {"pid": 77}),
        ("resumed", {"step": 0}),
        ("notice", {"text": text}),
        ("sample", {"step": 30, "total": 87.0, "consecutive_low": 0}),
        ("save_writing", {"step": 30}),
        ("save_durable", {"step": 30, "bytes": 384_008, "seconds": 0.1, "reason": "cadence", "pinned": False}),
        (text, {"text": text}),
        ("sample", {"step": 40, "total": 87.0, "consecutive_low": 0}),
    ]


SITUATIONS = (
    "empty",
    "training",
    "starting",
    "deaf",
    "stopping",
    "suspended by its words",
    "stopped",
    "finished",
    "halted",
    "failed",
    "crashed",
    "elsewhere",
    "recorded",
    "rubbish",
)
ALIVE = ("training", "starting", "deaf", "stopping", "suspended by its words")


@contextmanager
def situation(name: str, path: Path, text: str = "garden") -> Iterator[RunDirectory]:
    """A run directory that looks as named. Living ones have this very process as their engine."""
    if name == "recorded":
        path.mkdir()
        (path / "model.loss.json").write_text(json.dumps([[s, 9.0 - s / 100] for s in range(1, 100)]))
        (path / "model.samples.json").write_text(json.dumps([{"step": 50, "text": text}]))
        yield RunDirectory(path)
        return
    directory = make_run(path)
    if name == "rubbish":
        for file in (directory.loss, directory.samples, directory.state, directory.events, directory.heartbeat):
            file.write_bytes(b"\xff\x00[{[rubbish\n")
        directory.config.write_text("this is = not = toml")
    if name in ("empty", "rubbish"):
        yield directory
        return
    fill(directory, text)
    text = text.replace("\ud800", "")  # a heartbeat is UTF-8
    if name in ENDED:
        write_heartbeat(directory.heartbeat, beat(name, pid=_ended_pid(), note=f"{name}: {text}", exit_code=0))
        yield directory
    elif name == "crashed":
        write_heartbeat(directory.heartbeat, beat("training", pid=_ended_pid(), note=text))
        yield directory
    elif name == "elsewhere":
        write_heartbeat(directory.heartbeat, beat("training", host="another-host", note=text))
        yield directory
    else:
        phase = "training" if name in ("deaf", "suspended by its words") else name
        lock = EngineLock(directory)
        try:
            write_heartbeat(directory.heartbeat, beat(phase, armed=name != "deaf", note=text, problem=text))
            yield directory
        finally:
            lock.release()


def _ended_pid() -> int:
    return 2**22 - 3  # above what this kernel gives out in a test's time; start times are checked besides


@contextmanager
def another_console(directory: RunDirectory) -> Iterator[int]:
    """A living process that is in charge of the run."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        owner = Owner(process.pid, start_time(process.pid), boot_id())
        directory.console.write_bytes(msgspec.json.encode(owner))
        yield process.pid
    finally:
        process.communicate()


def picture(directory: RunDirectory) -> dict[str, bytes]:
    """Every file and its content, without the note of who is in charge."""
    files = sorted(path for path in directory.path.rglob("*") if path.is_file())
    return {str(path.relative_to(directory.path)): path.read_bytes() for path in files if path != directory.console}
