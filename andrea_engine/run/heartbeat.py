"""`engine.json`: what the engine is doing right now, replaced once a second and at each change of phase."""

from __future__ import annotations

from pathlib import Path

import msgspec

from andrea_engine.run.io import atomic_write, read_optional
from andrea_engine.run.loss_entry import dumps_strict
from andrea_engine.run.rank_facts import Count, Rank

FILE_LIMIT = 1024 * 1024

RUNNING_PHASES = (
    "starting",
    "preparing",
    "loading",
    "compiling",
    "training",
    "sampling",
    "validating",
    "saving",
    "stopping",
)
SEE_LOG = "see engine.log"  # ends the note of an engine that failed for a reason that it has no sentence for
ENDED_PHASES = ("stopped", "finished", "halted", "pivot", "failed")


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One NVIDIA device, or a MIG instance of it; every reading is None where the driver does not tell.

    `missing`: why a reading is not there, by its name. `problem`: why there are no fresh readings; those that stand
    here are then the last ones, of `time` (seconds since the epoch). `board`: UUID of the board of a MIG instance.
    `host`: another machine than the engine's, '' for its own. `used`: the run trains on it. `throttle`: what holds the
    clocks back, [] nothing. `energy_j`: since the driver was loaded. Clocks are MHz.
    """

    uuid: str
    name: str
    host: str = ""
    index: Count | None = None
    board: str = ""
    used: bool | None = None
    time: float = 0.0
    problem: str = ""
    power_w: float | None = None
    limit_w: float | None = None
    energy_j: float | None = None
    utilisation: float | None = None
    memory_used: Count | None = None
    memory_total: Count | None = None
    temperature_c: float | None = None
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    throttle: list[str] | None = None
    missing: dict[str, str] = {}


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """Readings of the machine. `gpu_problem` says in words why there are no GPU readings.

    `cpu_power_w`: of all CPU packages, None where it may not be read. `counts_cpu`: the run's energy is that of the
    CPU packages, because it trains there.
    """

    time: float = 0.0
    gpus: list[Gpu] = []
    gpu_problem: str = ""
    cpu_percent: float | None = None
    cpu_power_w: float | None = None
    counts_cpu: bool = False
    memory_used: Count | None = None
    memory_total: Count | None = None
    load_1m: float | None = None
    process_rss: Count | None = None


class LastSave(msgspec.Struct, frozen=True, kw_only=True):
    step: Count
    bytes: Count
    seconds: float
    time: float
    reason: str


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint that is being written."""

    step: Count
    done: Count
    total: Count


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """State of the engine. `time` and `step_time` are seconds since the epoch, `step_seconds` a recent median.

    `mfu`: share of the devices' peak that training uses, None where the peak is not known. `ranks`: all processes of a
    run that has several, [] else; `agent`: pid of the torchrun that started this one.
    """

    pid: Count
    process_start: Count | None
    boot_id: str
    host: str
    session: Count
    phase: str
    phase_since: float
    time: float
    step: Count = 0
    target_step: Count = 0
    total_steps: Count = 0
    armed: bool = False
    step_time: float | None = None
    step_seconds: float | None = None
    tokens_per_second: float | None = None
    eta_seconds: float | None = None
    mfu: float | None = None
    device: str = ""
    threads: Count | None = None
    n_params: Count | None = None
    save_asked: bool = False
    stop_asked: bool = False
    saving: Saving | None = None
    last_save: LastSave | None = None
    telemetry: Telemetry | None = None
    ranks: list[Rank] = []
    agent: Count | None = None
    curriculum: dict[str, object] | None = None
    problem: str = ""
    note: str = ""
    exit_code: Count | None = None

    @property
    def engine(self) -> tuple[int, int | None, int]:
        """One life of an engine, to tell it from the next one."""
        return self.pid, self.process_start, self.session


def write_heartbeat(path: Path, heartbeat: Heartbeat) -> None:
    """Replace the file. Not fsynced: it is worth nothing after a power cut. Raises OSError."""
    atomic_write(path, dumps_strict(heartbeat), durable=False)


def read_heartbeat(path: Path) -> Heartbeat | None:
    """The last heartbeat, or None when there is none or it cannot be read."""
    try:
        data = read_optional(path, FILE_LIMIT)
        return msgspec.json.decode(data, type=Heartbeat) if data else None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
