"""`engine.json`: a round trip, and None for everything that is not a heartbeat."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from andrea_engine.run.heartbeat import (
    ENDED_PHASES,
    RUNNING_PHASES,
    Gpu,
    LastSave,
    Saving,
    Telemetry,
    read_heartbeat,
    write_heartbeat,
)

from .helpers import beat, leftovers, strict


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "engine.json"
    full = beat(
        step_seconds=0.25,
        saving=Saving(step=100, done=8, total=68),
        last_save=LastSave(step=90, bytes=68, seconds=0.5, time=1.0, reason="operator"),
        telemetry=Telemetry(gpus=[Gpu(uuid="GPU-1", name="H", power_w=None, utilisation=0.0)], gpu_problem="x"),
        curriculum={"arms": {"chat": {"pulls": 1}}},
    )
    write_heartbeat(path, full)
    assert read_heartbeat(path) == full
    assert leftovers(tmp_path) == []


def test_unknown_readings_are_null_and_not_zero(tmp_path: Path) -> None:
    path = tmp_path / "engine.json"
    write_heartbeat(path, beat(telemetry=Telemetry(gpus=[Gpu(uuid="GPU-1", name="H", power_w=float("nan"))])))
    item = strict(path.read_bytes())
    assert isinstance(item, dict)
    gpu = item["telemetry"]["gpus"][0]
    assert gpu["power_w"] is None
    assert gpu["temperature_c"] is None


def test_a_file_name_that_is_not_utf8_can_be_reported(tmp_path: Path) -> None:
    path = tmp_path / "engine.json"
    write_heartbeat(path, beat(note="reading " + os.fsdecode(b"caf\xe9.txt")))
    assert read_heartbeat(path) == beat(note="reading caf?.txt")


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"garbage", b"\xff\xfe", b"\x00" * 10, b'{"x":' * 100_000, b"[" * 100_000, b"9" * 5000],
)
def test_what_is_no_heartbeat_is_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "engine.json").write_bytes(data)
    assert read_heartbeat(tmp_path / "engine.json") is None


@pytest.mark.parametrize("name", ["pid", "session", "step", "total_steps", "n_params", "threads", "exit_code"])
def test_a_number_that_is_no_count_makes_none(tmp_path: Path, name: str) -> None:
    """Longer integers cannot even be shown: they do not become a float."""
    path = tmp_path / "engine.json"
    for value, known in ((2**63 - 1, True), (2**63, False), (-(2**63) - 1, False), (10**400, False)):
        path.write_bytes(json.dumps(msgspec.to_builtins(beat()) | {name: value}).encode())
        assert (read_heartbeat(path) is not None) is known


def test_a_heartbeat_cut_anywhere_is_none(tmp_path: Path) -> None:
    path = tmp_path / "engine.json"
    write_heartbeat(path, beat())
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        assert read_heartbeat(path) is None


def test_what_is_no_file_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name in ("missing", "fifo", "folder"):
        assert read_heartbeat(tmp_path / name) is None


def test_phases_are_running_or_ended() -> None:
    assert not set(RUNNING_PHASES) & set(ENDED_PHASES)
