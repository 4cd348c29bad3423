"""Telemetry of the engine's machine: a thread that owns the NVML helper process and reads the host."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import time

import msgspec
import psutil

from andrea_engine.run.heartbeat import Gpu, Telemetry
from andrea_engine.run.module_command import module_command
from andrea_engine.telemetry.energy import EnergyMeter
from andrea_engine.telemetry.rapl import PackageEnergy

POLL_SECONDS = 1.0
INTERVAL_SECONDS = 1.0  # between two lines of the helper
RETRY_SECONDS = 60.0  # until the helper asks again after the driver went away
START_SECONDS = 20.0  # for its first line: an idle driver may take its time
DEADLINE_SECONDS = 2.0  # for each later line, beyond the pause before it
FIRST_BACKOFF = 1.0
LONGEST_BACKOFF = 60.0


class _Report(msgspec.Struct):
    gpus: list[Gpu] = []
    problem: str = ""
    final: bool = False


class Monitor:
    """Reads once a second. `telemetry` is the newest reading; `energy` sums that of the devices the run uses.

    `counted_uuids` names those devices (None: all of them), `counts_cpu` adds up the CPU packages instead, for a run
    that trains there; the power of others is shown and not counted. `power_w` is that of the counted ones now.
    """

    def __init__(self, energy: EnergyMeter, packages: PackageEnergy | None = None) -> None:
        self.telemetry = Telemetry()
        self.energy = energy
        self.counted_uuids: frozenset[str] | None = frozenset()
        self.counts_cpu = False
        self.power_w: float | None = None
        self._packages = PackageEnergy() if packages is None else packages
        self._package_reading: tuple[float, float] | None = None  # (monotonic seconds, joules)
        self._last: dict[str, Gpu] = {}  # the last good readings of each device
        self._stop = threading.Event()
        self._report = _Report(problem="reading GPU telemetry")
        self._helper: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._backoff = FIRST_BACKOFF
        self._started = self._next_start = self._due = 0.0
        self._process = psutil.Process()
        self._after = 0.0
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def start(self, *, after: float = 0.0) -> None:
        """Begin to read in `after` seconds."""
        self._after = after
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=3.0)
        self._end_helper()

    def _run(self) -> None:
        self._stop.wait(self._after)
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
            self._count(now)
        self._end_helper()
        if now - self._started > LONGEST_BACKOFF:
            self._backoff = FIRST_BACKOFF  # it had worked for a while
        self._next_start = now + self._backoff
        self._backoff = min(self._backoff * 2, LONGEST_BACKOFF)

    def _start_helper(self, now: float) -> None:
        command = module_command("andrea_engine.telemetry.helper", INTERVAL_SECONDS, RETRY_SECONDS)
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
        stamp = time.time()
        self._report.gpus = [
            msgspec.structs.replace(gpu, used=self._is_counted(gpu), time=0.0 if gpu.problem else stamp)
            for gpu in self._report.gpus
        ]
        self._last |= {_key(gpu): gpu for gpu in self._report.gpus if not gpu.problem}
        self._count(now)

    def _is_counted(self, gpu: Gpu) -> bool:
        return self.counted_uuids is None or gpu.uuid in self.counted_uuids

    def _count(self, now: float) -> None:
        """Power and energy of the devices the run uses. That of a divided board belongs to all who share it, so it is
        nobody's in particular."""
        if self.counts_cpu:
            return
        gpus = self._report.gpus
        divided = {gpu.board for gpu in gpus if gpu.board}
        counted = [gpu for gpu in gpus if gpu.used and not (self.counted_uuids is None and gpu.board)]
        unknown = not counted or any(gpu.problem or gpu.uuid in divided for gpu in counted)
        powers = [] if unknown else [gpu.power_w for gpu in counted if gpu.power_w is not None]
        self.power_w = sum(powers) if powers and len(powers) == len(counted) else None
        counters = {} if unknown else {gpu.uuid: gpu.energy_j for gpu in counted if gpu.energy_j is not None}
        self.energy.add(now, self.power_w, counters if len(counters) == len(counted) else None)

    def _read_packages(self) -> float | None:
        """Watts of the CPU packages since the last look; None where they may not be read."""
        now, joules = time.monotonic(), self._packages.read()
        before, total = self._package_reading, sum(joules.values())
        self._package_reading = (now, total) if joules else None
        watts = None
        if joules and before is not None and now > before[0] and total >= before[1]:
            watts = (total - before[1]) / (now - before[0])
        if self.counts_cpu:
            self.power_w = watts
            self.energy.add(now, None, joules or None)
        return watts

    def _read_host(self) -> Telemetry:
        memory = psutil.virtual_memory()
        return Telemetry(
            time=time.time(),
            gpus=self._gpus(),
            gpu_problem=self._report.problem,
            cpu_percent=psutil.cpu_percent(),
            cpu_power_w=self._read_packages(),
            counts_cpu=self.counts_cpu,
            memory_used=memory.total - memory.available,
            memory_total=memory.total,
            load_1m=os.getloadavg()[0],
            process_rss=self._process.memory_info().rss,
        )

    def _gpus(self) -> list[Gpu]:
        """Fresh readings; of a device without them the last ones, with their time and the reason."""
        report = self._report
        if report.problem:
            return [msgspec.structs.replace(gpu, problem=report.problem) for gpu in self._last.values()]
        return [
            msgspec.structs.replace(self._last.get(_key(gpu), gpu), problem=gpu.problem) if gpu.problem else gpu
            for gpu in report.gpus
        ]

    def _end_helper(self) -> None:
        if self._helper is None:
            return
        self._helper.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # inside a driver call even a kill may have to wait
            self._helper.wait(timeout=1.0)
        if self._helper.stdout is not None:
            self._helper.stdout.close()
        self._helper = None


def _key(gpu: Gpu) -> str:
    """Devices are told apart by UUID: their numbers may change, and differ from CUDA's."""
    return gpu.uuid or f"#{gpu.index}"
