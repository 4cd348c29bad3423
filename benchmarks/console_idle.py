"""What an open console costs: processor seconds of its process tree, and bytes to its terminal.

    python -m benchmarks.console_idle RUN [--seconds 20] [--size 120x40] [--settle 5]
    python -m benchmarks.console_idle --live 10 [--steps 200000]

The real console runs in a pty; nothing but the terminal's output is read. Without an engine the aim is no byte and at
most 0.5 % of a core. `--live` makes a run with a past of so many steps, and goes on with so many a second as an engine
does; the aim at ten is at most 5 % of a core and 20 kB in 20 s.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import math
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from andrea_engine.run.config import create_run
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import Gpu, Heartbeat, Telemetry, write_heartbeat
from andrea_engine.run.io import append_line
from andrea_engine.run.lock import EngineLock
from andrea_engine.run.loss_entry import make_entry
from andrea_engine.run.process import boot_id, start_time

PATIENCE = 10.0  # for the console to end after it was told to


@dataclass(frozen=True, slots=True)
class ConsoleCost:
    """Of `seconds` of wall time: CPU seconds (user and system, with children) and bytes written to the terminal."""

    seconds: float
    cpu_seconds: float
    tty_bytes: int

    @property
    def core_share(self) -> float:
        return self.cpu_seconds / self.seconds

    def __str__(self) -> str:
        return (
            f"{self.seconds:.1f} s: {self.cpu_seconds:.3f} CPU s ({self.core_share:.2%} of a core), "
            f"{self.tty_bytes:,} bytes to the terminal"
        )


def console_cost(
    run: Path, seconds: float = 20.0, size: tuple[int, int] = (120, 40), settle: float = 5.0
) -> ConsoleCost:
    """Open the console on `run` as a person does, let it settle, then measure for `seconds`.

    Raises RuntimeError when the console ends by itself.
    """
    columns, rows = size
    master, slave = os.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "XDG_STATE_HOME": home}
        console = subprocess.Popen(
            [sys.executable, "-m", "andrea_tui", str(run)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
        )
        try:
            _read(master, settle)
            tree = psutil.Process(console.pid)
            before, started = _cpu(tree), time.monotonic()
            written = _read(master, seconds)
            elapsed = time.monotonic() - started
            if console.poll() is not None:
                raise RuntimeError(f"the console ended with exit code {console.returncode}")
            return ConsoleCost(elapsed, _cpu(tree) - before, written)
        finally:
            console.send_signal(signal.SIGTERM)
            _read(master, 0.5)
            with contextlib.suppress(subprocess.TimeoutExpired):
                console.wait(PATIENCE)
            console.kill()
            console.wait()
            os.close(master)
            os.close(slave)


class LiveRun:
    """A run whose engine is this very process: it holds the lock, beats once a second and appends `rate` steps a
    second to the journal, after a record of `past` steps."""

    def __init__(self, path: Path, rate: float, past: int) -> None:
        self.directory = RunDirectory(path)
        self._rate, self._step = rate, past
        create_run(self.directory, "demo", {"schedule": {"steps": 10 * past}}, None)
        with self.directory.loss.open("wb") as record:
            record.write(b"[\n" + b",\n".join(self._entry(step) for step in range(1, past + 1)) + b"\n]\n")
        self._lock = EngineLock(self.directory)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._train, daemon=True)

    def __enter__(self) -> Path:
        self._thread.start()
        return self.directory.path

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._lock.release()

    def _train(self) -> None:
        started, beat_due, done = time.monotonic(), 0.0, 0
        while not self._stop.is_set():
            now = time.monotonic() - started
            if now >= beat_due:
                beat_due += 1.0
                self._beat()
            if now >= done / self._rate:
                done += 1
                self._step += 1
                append_line(self.directory.journal, self._entry(self._step))
            self._stop.wait(max(0.0, min(beat_due, done / self._rate) - (time.monotonic() - started)))

    def _entry(self, step: int) -> bytes:
        """A loss that falls, with noise that is the same on every machine."""
        trend = 9.0 * step**-0.1
        noise = (step * 2654435761 % 1000) / 1000 - 0.5
        entry = make_entry(
            step=step,
            loss=trend + noise,
            ema=trend,
            source=f"source-{step % 4}",
            lr=3e-4,
            grad_norm=0.8,
            seconds=1 / self._rate,
            power_w=130.0,
            energy_j=130.0 * step / self._rate,
        )
        return entry.to_line()

    def _beat(self) -> None:
        now = time.time()
        watts = 130.0 + 20 * math.sin(now / 7)
        gpu = Gpu(
            uuid="GPU-0",
            name="GPU",
            index=0,
            time=now,
            used=True,
            power_w=round(watts, 1),
            limit_w=450.0,
            utilisation=97.0,
            temperature_c=round(55 + watts / 20),
            memory_used=1_400_000_000,
            memory_total=24_000_000_000,
            sm_mhz=2520.0,
            throttle=[],
        )
        beat = Heartbeat(
            pid=os.getpid(),
            process_start=start_time(os.getpid()),
            boot_id=boot_id(),
            host=socket.gethostname(),
            session=1,
            phase="training",
            phase_since=now,
            time=now,
            step=self._step,
            total_steps=1_000_000,
            target_step=1_000_000,
            armed=True,
            step_time=now,
            step_seconds=1 / self._rate,
            tokens_per_second=1000.0 * self._rate + 10 * math.sin(now),
            eta_seconds=86_400.0,
            telemetry=Telemetry(time=now, gpus=[gpu], cpu_percent=50.0),
        )
        write_heartbeat(self.directory.heartbeat, beat)


def _read(descriptor: int, seconds: float) -> int:
    """Take what comes for so long; how many bytes it was."""
    total, end = 0, time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([descriptor], [], [], left)[0]:
            total += len(os.read(descriptor, 65536))
    return total


def _cpu(process: psutil.Process) -> float:
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description="Cost of an open console.")
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--live", type=float, help="steps a second of a run that is made for this")
    parser.add_argument("--steps", type=int, default=200_000, help="its past")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--settle", type=float, default=5.0)
    parser.add_argument("--size", default="120x40", help="columns x rows")
    options = parser.parse_args()
    columns, rows = map(int, options.size.split("x"))
    if options.run is not None:
        print(console_cost(options.run, options.seconds, (columns, rows), options.settle))
    if options.live:
        with tempfile.TemporaryDirectory() as folder, LiveRun(Path(folder) / "run", options.live, options.steps) as run:
            print(console_cost(run, options.seconds, (columns, rows), options.settle))
    return 0


if __name__ == "__main__":
    sys.exit(main())
