"""`benchmarks/gpu_check.py` where there is no GPU: its code runs on the CPU, and without --smoke it says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu_check

SCRIPT = Path(gpu_check.__file__)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--smoke"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_check_that_a_cpu_can_make_holds(report: dict[str, Any]) -> None:
    assert set(report["checks"]) == {
        "bf16_equals_fp32",
        "device_equals_cpu",
        "micro_batches_equal_whole",
        "optimizer_without_branches",
        "resume_within_tolerance",
        "deterministic_engine_resumes_bit_for_bit",
    }
    assert all(check["ok"] for check in report["checks"].values())
    assert report["ok"]
    assert report["left_out"] == []


def test_timings_follow_from_one_another(report: dict[str, Any]) -> None:
    assert [timing["precision"] for timing in report["timings"]] == ["fp32", "bf16"]
    for timing in report["timings"]:
        assert timing["tokens_per_step"] == 4 * 32
        seconds = timing["step_ms"] / 1e3
        assert timing["tokens_per_second"] == pytest.approx(128 / seconds, rel=0.01)
        assert timing["steps_per_minute"] == pytest.approx(60 / seconds, rel=0.01)
        assert timing["mfu"] is None, "the peak of a CPU is not in the table"


def test_the_checkpoint_is_the_whole_file(report: dict[str, Any]) -> None:
    n_params = 2 * 101 * 32 + 32 * 32 + 2 * 12 * 32**2
    assert report["checkpoint"]["bytes"] == 8 + 12 * n_params
    assert report["checkpoint"]["durable_seconds"] * 1e3 >= report["checkpoint"]["pause_ms"]


def test_a_spent_budget_is_said() -> None:
    threads = torch.get_num_threads()
    try:
        report = gpu_check.measure(gpu_check.Bench(smoke=True, budget=0))
    finally:
        torch.set_num_threads(threads)
    assert report["checks"] == {}
    assert report["timings"] == []
    assert report["checkpoint"] is None
    assert {"bf16_equals_fp32", "checkpoint"} <= set(report["left_out"])
    assert not report["ok"], "nothing was checked"


def test_without_a_gpu_it_says_so_and_leaves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu_check.py"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_check.main() == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("there is no CUDA device here")
