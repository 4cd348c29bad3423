"""The power fails: an ext4 file system in a file is shut down under the writer, without a flush, and mounted again.

What was acknowledged, collected outside of it, is there afterwards.
"""

from __future__ import annotations

import array
import fcntl
import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from andrea_engine.run.checkpoint import list_checkpoints
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.io import remove_stale_temporaries
from andrea_engine.run.loss_record import LossRecord
from tests.run.helpers import ROOT, steps, strict

STUB = ROOT / "tests/run/trainer_stub.py"
COUNT = 20_000
SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
NO_LOG_FLUSH = 2


class Disk:
    """An ext4 file system of 64 MB that can lose its power."""

    def __init__(self, place: Path) -> None:
        self.image = place / "disk.img"
        self.path = place / "disk"
        self.path.mkdir()
        with self.image.open("wb") as file:
            file.truncate(64 << 20)
        self._run("mkfs.ext4", "-q", "-F", str(self.image))
        self.mount()

    def mount(self) -> None:
        self._run("mount", "-o", "loop", str(self.image), str(self.path))

    def cut(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.path)], capture_output=True, check=False)

    def _run(self, *command: str) -> None:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            pytest.skip(f"{command[0]} is not possible here: {result.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    try:
        made = Disk(tmp_path)
    except FileNotFoundError as error:
        pytest.skip(f"there is no {error.filename} here")
    yield made
    made.unmount()


def train_until_the_cut(disk: Disk, run: Path, session: int, seconds: float) -> int:
    """Returns the last step that was acknowledged before the power failed."""
    child = subprocess.Popen([sys.executable, str(STUB), str(run), str(session)], stdout=subprocess.PIPE, cwd=ROOT)
    assert child.stdout is not None
    first = child.stdout.readline()
    time.sleep(seconds)  # a random moment is what is wanted, not a condition
    disk.cut()
    child.kill()
    heard = first + child.stdout.read()
    child.stdout.close()
    child.wait()
    return int(heard[: heard.rindex(b"\n")].split()[-1])


def cuts(disk: Disk, trials: int) -> None:
    choice = random.Random(11)
    run = RunDirectory(disk.path / "run")
    run.path.mkdir()
    prefix = b"["
    for session in range(1, trials + 1):
        acknowledged = train_until_the_cut(disk, run.path, session, choice.uniform(0.0, 0.15))
        disk.unmount()
        disk.mount()
        remove_stale_temporaries(run.path, lambda pid: False)
        files = list_checkpoints(run.path, COUNT)
        assert all(file.valid for file in files)
        newest = files[0].step
        assert newest >= acknowledged, "what was called saved survives"
        body = array.array("f", [newest]).tobytes() * COUNT * 3
        assert files[0].path.read_bytes() == struct.pack("<ii", newest, COUNT) + body
        assert run.loss.read_bytes().startswith(prefix), "no earlier byte of the record changed"
        record = LossRecord(run)
        recovery = record.recover(newest)
        record.close()
        assert steps(recovery.entries) == list(range(1, newest + 1))
        text = run.loss.read_bytes()
        strict(text)
        prefix = text[: -len(b"\n]\n")]


def test_two_power_cuts(disk: Disk) -> None:
    cuts(disk, 2)


@pytest.mark.soak
def test_a_hundred_power_cuts(disk: Disk) -> None:
    cuts(disk, 100)
