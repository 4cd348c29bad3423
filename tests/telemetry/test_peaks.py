"""Device names as drivers give them, and the share of a peak."""

from __future__ import annotations

from pathlib import Path

import pytest

from andrea_engine.latch import SignalLatch
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog
from andrea_engine.run.heartbeat import read_heartbeat
from andrea_engine.telemetry.peaks import device_peak, mfu, peak_tflops
from andrea_engine.train.reporter import Reporter


@pytest.mark.parametrize(
    ("name", "bf16", "fp32"),
    [
        ("NVIDIA GeForce RTX 3090", 71.0, 35.6),
        ("NVIDIA GeForce RTX 3090 Ti", 80.0, 40.0),
        ("NVIDIA GeForce RTX 4090", 165.2, 82.6),
        ("NVIDIA GeForce RTX 4090 D", 147.0, 73.5),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", 88.2, 44.1),
        ("NVIDIA GeForce RTX 5090", 209.5, 104.8),
        ("NVIDIA A100-SXM4-80GB", 312.0, 19.5),
        ("NVIDIA A100 80GB PCIe", 312.0, 19.5),
        ("A100-SXM4-40GB", 312.0, 19.5),
        ("NVIDIA A10", 125.0, 31.2),
        ("NVIDIA A10G", 70.0, 35.0),
        ("NVIDIA H100 80GB HBM3", 989.4, 66.9),
        ("NVIDIA H100 PCIe", 756.0, 51.2),
        ("NVIDIA H100 NVL", 835.5, 60.0),
        ("NVIDIA H200", 989.4, 66.9),
        ("NVIDIA GH200 480GB", 989.4, 66.9),
        ("NVIDIA L4", 121.0, 30.3),
        ("NVIDIA L40", 181.1, 90.5),
        ("NVIDIA L40S", 362.1, 91.6),
        ("NVIDIA RTX A6000", 154.8, 38.7),
        ("NVIDIA RTX 6000 Ada Generation", 364.2, 91.1),
        ("Tesla T4", None, 8.1),
        ("Tesla V100-SXM2-16GB", None, 15.7),
        ("Tesla V100-PCIE-32GB", None, 14.0),
    ],
)
def test_known_devices(name: str, bf16: float | None, fp32: float) -> None:
    assert (peak_tflops(name, "bf16"), peak_tflops(name, "fp32")) == (bf16, fp32)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Intel(R) Xeon(R) Processor",
        "AMD Ryzen 9 5090 8-Core",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 2080 Super with Max-Q Design",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        "NVIDIA GeForce RTX 3060 Ti",
        "NVIDIA GeForce RTX 5090 D",
        "NVIDIA A1000",
        "NVIDIA T400 4GB",
        "NVIDIA L400",
    ],
)
def test_others_are_unknown_rather_than_guessed(name: str) -> None:
    assert device_peak(name) is None
    assert mfu(1e5, 6e8, name, "bf16") is None


def test_mfu_is_the_share_of_the_peak() -> None:
    # 120,000 tokens/s of 605 MFLOP each are 72.6 TFLOP/s; a 4090 has 165.2 in bf16 and 82.6 in TF32.
    assert mfu(120_000, 605e6, "NVIDIA GeForce RTX 4090", "bf16") == pytest.approx(72.6 / 165.2)
    assert mfu(120_000, 605e6, "NVIDIA GeForce RTX 4090", "tf32") == pytest.approx(72.6 / 82.6)


def test_a_unit_that_is_not_there_has_no_mfu() -> None:
    assert mfu(1e4, 6e8, "Tesla T4", "bf16") is None
    assert mfu(1e4, 6e8, "Tesla T4", "tf32") is None
    assert mfu(1e4, 6e8, "Tesla T4", "fp32") == pytest.approx(6.0 / 8.1)


@pytest.mark.parametrize(("peak", "expected"), [(4000.0, 0.25), (None, None)])
def test_the_heartbeat_carries_it_and_leaves_compiling_out(
    tmp_path: Path, peak: float | None, expected: float | None
) -> None:
    """128 tokens in the usual 0.128 s are 1000 a second. The step that compiled, of 60 s, counts for nothing."""
    directory = RunDirectory(tmp_path)
    reporter = Reporter(directory, EventLog(directory.events, 1), SignalLatch())
    reporter.tokens_per_step = 128
    reporter.mfu_of = lambda rate: None if peak is None else rate / peak
    reporter.step_done(1, None)
    reporter.enter("training")
    beat = read_heartbeat(directory.heartbeat)
    assert beat is not None
    assert (beat.step, beat.tokens_per_second, beat.mfu) == (1, None, None)
    for step in (2, 3, 4):
        reporter.step_done(step, 0.128)
    reporter.enter("saving")
    beat = read_heartbeat(directory.heartbeat)
    assert beat is not None
    assert beat.tokens_per_second == pytest.approx(1000)
    assert beat.mfu == (None if expected is None else pytest.approx(expected))
