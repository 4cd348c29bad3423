"""Runs to look at: long loss records in the engine's own format, and an engine that only writes.

    python -m benchmarks.console_record RUN FIRST_STEP POINTS_PER_SECOND

takes the lock of RUN, reports once a second and appends to its journal until standard input ends; it prints the step
of each entry and the time (`time.monotonic`) after which it was in the file.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import tomli_w

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog
from andrea_engine.run.heartbeat import Heartbeat, Telemetry, write_heartbeat
from andrea_engine.run.io import append_line
from andrea_engine.run.lock import EngineLock
from andrea_engine.run.loss_entry import LossEntry
from andrea_engine.run.process import boot_id, start_time

SPIKE = 50.0
ARMS = ("chat", "dictionary", "gutenberg", "hermes3-general", "irc", "oasst", "repo-docs", "smoltalk")
STEP_SECONDS = 9.8
CHUNK = 20_000


def spike_step(steps: int) -> int:
    """Where the one value of `SPIKE` is."""
    return 123_456 if steps >= 200_000 else steps * 3 // 5


def nonfinite_steps(steps: int) -> range:
    """Eleven steps without a finite loss."""
    first = 150_000 if steps >= 200_000 else steps * 3 // 4
    return range(first, first + 11)


def losses(steps: int) -> Iterator[float | None]:
    """A power law and noise; see `spike_step` and `nonfinite_steps` for what else there is."""
    random = Random(7)
    noise = [random.gauss(0.0, 0.12) for _ in range(9973)]
    spike, lost = spike_step(steps), nonfinite_steps(steps)
    for step in range(1, steps + 1):
        if step == spike:
            yield SPIKE
        elif step in lost:
            yield None
        else:
            yield 1.7 + 7.3 * step**-0.12 + noise[step % 9973]


def make_run(path: Path, steps: int, *, planned: int | None = None) -> RunDirectory:
    """A run that has finished `steps` steps (of `planned`), with everything that the engine records of each."""
    path.mkdir(parents=True)
    directory = RunDirectory(path)
    sources = [{"name": name, "kind": "text", "path": f"{name}.txt"} for name in ARMS]
    tables = {"preset": "120m", "schedule": {"steps": planned or steps}, "sources": sources}
    directory.config.write_text(tomli_w.dumps(tables), encoding="utf-8")
    with directory.loss.open("wb") as file:
        file.write(b"[\n")
        lines: list[str] = []
        for step, line in enumerate(_lines(steps), 1):
            lines.append(line)
            if len(lines) == CHUNK or step == steps:
                file.write((",\n".join(lines) + (",\n" if step < steps else "\n")).encode())
                lines.clear()
        file.write(b"]\n")
    now = time.time()
    log = EventLog(directory.events, 1)
    log.append("start", at=now - steps * STEP_SECONDS, pid=1)
    log.append("resumed", at=now - steps * STEP_SECONDS, step=0)
    log.append("stop", at=now, step=steps, phase="finished")
    beat = _beat(directory, "finished", steps, pid=2**22 - 3)
    write_heartbeat(directory.heartbeat, beat)
    return directory


def _lines(steps: int) -> Iterator[str]:
    """JSON as `LossEntry.to_line` writes it; spelt out, because millions are written."""
    ema, weight = 0.0, 0.0
    for step, loss in enumerate(losses(steps), 1):
        if loss is not None:
            ema, weight = 0.99 * ema + 0.01 * loss, 0.99 * weight + 0.01
        value, tail = ("null", ',"nonfinite":["loss"]') if loss is None else (f"{loss:.15f}", "")
        yield (
            f'{{"step":{step},"loss":{value},"ema":{ema / weight if weight else 9.0:.15f},"source":"{ARMS[step % 8]}",'
            f'"lr":0.00029{step % 1000:03d},"grad_norm":0.8{step % 977:03d},"seconds":{STEP_SECONDS}{step % 10},'
            f'"power_w":131.{step % 10},"energy_j":{step * 1283.7:.1f},"policy":0,"session":1{tail}}}'
        )


def _beat(directory: RunDirectory, phase: str, step: int, pid: int) -> Heartbeat:
    now = time.time()
    telemetry = Telemetry(time=now, gpu_problem="no NVIDIA GPU", cpu_percent=50.0, load_1m=1.0)
    return Heartbeat(
        pid=pid,
        process_start=start_time(pid),
        boot_id=boot_id(),
        host=socket.gethostname(),
        session=1,
        phase=phase,
        phase_since=now,
        time=now,
        step=step,
        step_time=now,
        step_seconds=0.1,
        tokens_per_second=81_920.0,
        armed=True,
        telemetry=telemetry,
    )


def write(directory: RunDirectory, first: int, rate: float) -> None:
    """Be an engine that makes `rate` steps a second, until standard input ends."""
    lock = EngineLock(directory)
    began, beat_at, step = time.monotonic(), 0.0, first
    try:
        while True:
            now = time.monotonic()
            if now - beat_at >= 1.0:
                beat_at = now
                write_heartbeat(directory.heartbeat, _beat(directory, "training", step - 1, os.getpid()))
            fields = {"ema": 3.2, "source": ARMS[step % 8], "lr": 3e-4, "grad_norm": 0.84, "policy": 0, "session": 1}
            entry = LossEntry(step=step, loss=3.1 + step % 10 / 50, seconds=1 / rate, **fields)  # type: ignore[arg-type]
            append_line(directory.journal, entry.to_line())
            print(step, time.monotonic(), flush=True)
            step += 1
            wait = began + (step - first) / rate - time.monotonic()
            if select.select([sys.stdin], [], [], max(0.0, wait))[0] and not sys.stdin.buffer.read1(1):
                return
    finally:
        lock.release()


if __name__ == "__main__":
    write(RunDirectory(Path(sys.argv[1])), int(sys.argv[2]), float(sys.argv[3]))
