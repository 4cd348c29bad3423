"""Telemetry of the engine's machine: a thread that owns the NVML helper process and reads the host."""

from __future__ import annotations

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

DEADLINE_SECONDS = 5.0
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
        self._backoff = 1.0
        self._next_start = 0.0
        self._heard = 0.0
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
            self._stop.wait(1.0)

    def _poll_helper(self) -> None:
        now = time.monotonic()
        if self._helper is None:
            if self._report.final or now < self._next_start:
                return
            self._start_helper(now)
        for line in self._lines():
            self._heard = now
            self._backoff = 1.0
            self._accept(line, now)
        if self._report.problem and not self._report.final:
            self._heard = max(self._heard, now - DEADLINE_SECONDS)  # it said that it will ask again in a minute
        ended = self._helper is not None and self._helper.poll() is not None
        silent = now - self._heard > DEADLINE_SECONDS
        if ended or silent:
            if not self._report.final:
                self._report = _Report(problem="GPU telemetry helper " + ("ended" if ended else "does not answer"))
                self.energy.add(now, None)
            self._end_helper()
            self._next_start = now + self._backoff
            self._backoff = min(self._backoff * 2, LONGEST_BACKOFF)

    def _start_helper(self, now: float) -> None:
        command = [sys.executable, "-m", "andrea_engine.telemetry.helper"]
        try:
            self._helper = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError:
            self._report = _Report(problem="GPU telemetry helper cannot be started")
            return
        self._buffer = b""
        self._heard = now

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
        counted = [g for g in self._report.gpus if self.counted_uuids is None or g.uuid in self.counted_uuids]
        powers = [g.power_w for g in counted]
        if counted:
            known = [p for p in powers if p is not None]
            self.energy.add(now, sum(known) if len(known) == len(powers) else None)

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
        self._helper.wait()
        if self._helper.stdout is not None:
            self._helper.stdout.close()
        self._helper = None
