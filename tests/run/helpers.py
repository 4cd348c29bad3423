"""Small files of a run, built from `struct` and `json` and not with the code under test."""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import AnyStr, NoReturn

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import Heartbeat
from andrea_engine.run.loss_entry import LossEntry, make_entry
from andrea_engine.run.process import boot_id, start_time

FAKE_ENGINE = Path(__file__).with_name("fake_engine.py")
ROOT = Path(__file__).resolve().parents[2]


def _refuse(word: str) -> NoReturn:
    raise AssertionError(f"{word} is not JSON")


def strict(data: bytes) -> object:
    """Parse JSON as the standard has it: no NaN, no Infinity, UTF-8."""
    return json.loads(data.decode("utf-8"), parse_constant=_refuse)


def entry(step: int, *, session: int = 1, loss: float | None = None, source: str = "chat") -> LossEntry:
    """An entry of a healthy run; its loss tells the step."""
    return make_entry(
        step=step,
        loss=9.0 - step / 1000 if loss is None else loss,
        ema=8.5,
        source=source,
        lr=3e-4,
        grad_norm=1.25,
        seconds=0.25,
        power_w=None,
        energy_j=None,
        policy=0,
        session=session,
    )


def steps(entries: Iterable[LossEntry]) -> list[int]:
    return [e.step for e in entries]


def array_text(entries: Iterable[LossEntry]) -> bytes:
    """`.loss.json` as it is described: an array, one entry a line."""
    lines = ",\n".join(e.to_line().decode() for e in entries)
    return f"[\n{lines}\n]\n".encode() if lines else b"[\n]\n"


def checkpoint_bytes_of(step: int, count: int = 5, *, order: str = "<", seed: float = 0.5) -> bytes:
    """The five regions, packed with `struct`."""
    values = [seed + i / 8 for i in range(3 * count)]
    return struct.pack(f"{order}ii{3 * count}f", step, count, *values)


def put_checkpoint(directory: Path, step: int, count: int = 5, *, seed: float = 0.5) -> Path:
    path = directory / f"step_{step:06d}.bin"
    path.write_bytes(checkpoint_bytes_of(step, count, seed=seed))
    return path


def regions(count: int = 5, seed: float = 0.5) -> list[bytes]:
    """Weights, m and v with the values of `checkpoint_bytes_of`."""
    values = [seed + i / 8 for i in range(3 * count)]
    return [array.array("f", values[k * count : (k + 1) * count]).tobytes() for k in range(3)]


def leftovers(directory: Path) -> list[str]:
    """Temporary files that were left behind."""
    return sorted(name for name in os.listdir(directory) if name.endswith(".tmp"))


def beat(pid: int | None = None, **fields: object) -> Heartbeat:
    """A heartbeat of a live process (this one by default) on this machine."""
    pid = os.getpid() if pid is None else pid
    values: dict[str, object] = {
        "pid": pid,
        "process_start": start_time(pid),
        "boot_id": boot_id(),
        "host": socket.gethostname(),
        "session": 1,
        "phase": "training",
        "phase_since": 1000.0,
        "time": 1000.0,
        "step": 7,
    }
    return Heartbeat(**(values | fields))  # type: ignore[arg-type]


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    """Wait for another process; fails with `what` when it never happens."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.005)


@contextmanager
def fake_engine(directory: RunDirectory, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """The stand-in engine, after it reported; killed at the end."""
    directory.heartbeat.unlink(missing_ok=True)
    with killed(subprocess.Popen([sys.executable, str(FAKE_ENGINE), str(directory.path), *words], cwd=ROOT)) as process:
        wait_for(lambda: directory.heartbeat.exists() or process.poll() is not None, "the heartbeat of the stand-in")
        assert process.poll() is None
        yield process


@contextmanager
def killed(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """The process, and its end when the test ends, however that is."""
    with process:
        try:
            yield process
        finally:
            process.kill()
