"""CPU packages: only the packages themselves, counters that run over, and what may not be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from andrea_engine.telemetry.rapl import PackageEnergy

from .standin import make_package


def count(zone: Path, microjoules: int) -> None:
    (zone / "energy_uj").write_text(f"{microjoules}\n")


def test_two_packages(tmp_path: Path) -> None:
    first, second = make_package(tmp_path, 0, 5_000_000), make_package(tmp_path, 1, 90_000_000)
    energy = PackageEnergy(tmp_path)
    assert energy.read() == {"intel-rapl:0": 0.0, "intel-rapl:1": 0.0}
    count(first, 6_500_000)
    count(second, 90_250_000)
    assert energy.read() == {"intel-rapl:0": 1.5, "intel-rapl:1": 0.25}


def test_a_counter_that_runs_over(tmp_path: Path) -> None:
    zone = make_package(tmp_path, 0, 9_000_000, span=10_000_000)
    energy = PackageEnergy(tmp_path)
    energy.read()
    count(zone, 500_000)
    assert energy.read() == {"intel-rapl:0": 1.5}
    count(zone, 700_000)
    assert energy.read() == {"intel-rapl:0": pytest.approx(1.7)}


def test_a_counter_that_fell_without_a_known_span_begins_anew(tmp_path: Path) -> None:
    zone = make_package(tmp_path, 0, 9_000_000)
    (zone / "max_energy_range_uj").unlink()
    energy = PackageEnergy(tmp_path)
    energy.read()
    count(zone, 10)
    assert energy.read() == {}
    assert energy.read() == {"intel-rapl:0": 0.0}


def test_parts_and_copies_of_a_package_do_not_count_twice(tmp_path: Path) -> None:
    make_package(tmp_path, 0, 1)
    for name, label in (("intel-rapl:0:0", "core"), ("intel-rapl-mmio:0", "package-0"), ("intel-rapl:1", "psys")):
        other = tmp_path / name
        other.mkdir()
        (other / "name").write_text(label)
        (other / "energy_uj").write_text("1")
    assert set(PackageEnergy(tmp_path).read()) == {"intel-rapl:0"}


@pytest.mark.parametrize("content", [None, "", "many", "-5", "\xff", "²"])
def test_what_cannot_be_read_is_unknown(tmp_path: Path, content: str | None) -> None:
    make_package(tmp_path, 0, 7)
    zone = make_package(tmp_path, 1, 7)
    if content is None:
        (zone / "energy_uj").unlink()
    else:
        (zone / "energy_uj").write_text(content, encoding="latin-1" if content == "\xff" else "utf-8")
    assert PackageEnergy(tmp_path).read() == {}
    assert PackageEnergy(tmp_path / "nowhere").read() == {}
