"""Telemetry of the engine's machine: a thread that owns the NVML helper process and reads the host."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time

import msgspec
import psutil

from andrea_engine.run.heartbeat import Gpu, Telemetry
from andrea_engine.telemetry.energy import EnergyMeter

POLL_SECONDS = 1.0
INTERVAL_SECONDS = 1.0  # between two lines of the helper
RETRY_SECONDS = 60.0  # until the helper asks again after the driver went away
START_SECONDS = 20.0  # for its first line: an idle driver may take its time
DEADLINE_SECONDS = 5.0  # for each later line, beyond the pause before it
FIRST_BACKOFF = 1.0
LONGEST_BACKOFF = 60.0


class _Report(msgspec.Struct):
    gpus: list[Gpu] = []
    problem: str = ""
    final: bool = False


class Monitor:
    """Reads once a second. `telemetry` is the newest reading; `energy` integrates the devices in `counted`.

    `counted(gpu)` tells which devices the run uses; the power of the others is shown and not counted.
    """

    def __init__(self, energy: EnergyMeter) -> None:
        self.telemetry = Telemetry()
        self.energy = energy
        self.counted_uuids: frozenset[str] | None = frozenset()
        self._stop = threading.Event()
        self._report = _Report(problem="reading GPU telemetry")
        self._helper: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._backoff = FIRST_BACKOFF
        self._started = self._next_start = self._due = 0.0
        self._process = psutil.Process()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=3.0)
        self._end_helper()

    def _run(self) -> None:
        psutil.cpu_percent()
        while not self._stop.is_set():
            self._poll_helper()
            self.telemetry = self._read_host()
            self._stop.wait(POLL_SECONDS)

    def _poll_helper(self) -> None:
        now = time.monotonic()
        if self._helper is None:
            if self._report.final or now < self._next_start:
                return
            self._start_helper(now)
        ended = self._helper is None or self._helper.poll() is not None  # asked first: its last words come after
        for line in self._lines():
            self._accept(line, now)
        if not ended and now <= self._due:
            return
        if not self._report.final:
            what = "cannot be started" if self._helper is None else "ended" if ended else "does not answer"
            self._report = _Report(problem=f"GPU telemetry helper {what}")
            self.energy.add(now, None)
        self._end_helper()
        if now - self._started > LONGEST_BACKOFF:
            self._backoff = FIRST_BACKOFF  # it had worked for a while
        self._next_start = now + self._backoff
        self._backoff = min(self._backoff * 2, LONGEST_BACKOFF)

    def _start_helper(self, now: float) -> None:
        command = [sys.executable, "-m", "andrea_engine.telemetry.helper", str(INTERVAL_SECONDS), str(RETRY_SECONDS)]
        self._buffer = b""
        self._started = now
        self._due = now + START_SECONDS
        try:
            self._helper = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError:
            self._helper = None

    def _lines(self) -> list[bytes]:
        """Complete lines that wait in the pipe; never blocks."""
        if self._helper is None or self._helper.stdout is None:
            return []
        descriptor = self._helper.stdout.fileno()
        while select.select([descriptor], [], [], 0)[0]:
            chunk = os.read(descriptor, 65536)
            if not chunk:
                break
            self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        return lines

    def _accept(self, line: bytes, now: float) -> None:
        try:
            self._report = msgspec.json.decode(line, type=_Report)
        except msgspec.DecodeError:
            return
        pause = RETRY_SECONDS + START_SECONDS if self._report.problem else INTERVAL_SECONDS
        self._due = now + pause + DEADLINE_SECONDS
        counted = [g for g in self._report.gpus if self.counted_uuids is None or g.uuid in self.counted_uuids]
        known = [g.power_w for g in counted if g.power_w is not None]
        self.energy.add(now, sum(known) if counted and len(known) == len(counted) else None)

    def _read_host(self) -> Telemetry:
        memory = psutil.virtual_memory()
        return Telemetry(
            time=time.time(),
            gpus=self._report.gpus,
            gpu_problem=self._report.problem,
            cpu_percent=psutil.cpu_percent(),
            memory_used=memory.total - memory.available,
            memory_total=memory.total,
            load_1m=os.getloadavg()[0],
            process_rss=self._process.memory_info().rss,
        )

    def _end_helper(self) -> None:
        if self._helper is None:
            return
        self._helper.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # inside a driver call even a kill may have to wait
            self._helper.wait(timeout=1.0)
        if self._helper.stdout is not None:
            self._helper.stdout.close()
        self._helper = None
