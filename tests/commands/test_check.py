"""`andrea-engine check`: exit code 0 for a healthy run, 1 with the reason for anything that is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from andrea_engine.run.directory import RunDirectory
from tests.conftest import TrainedRun
from tests.support import records
from tests.support.inprocess import Result, andrea_engine


def _problems(result: Result) -> list[str]:
    return [line for line in result.out.splitlines() if line.startswith("problem")]


@pytest.mark.parametrize("deep", [[], ["--deep"]])
def test_a_healthy_run(trained: TrainedRun, deep: list[str]) -> None:
    result = andrea_engine("check", trained.directory.path, *deep)
    assert result.code == 0
    assert result.out.endswith("all is well\n")
    assert "40 entries, steps 1 to 40" in result.out
    assert _problems(result) == []


def test_json(trained: TrainedRun) -> None:
    report = json.loads(andrea_engine("check", trained.directory.path, "--json").out)
    assert report["ok"] is True
    assert (report["format"], report["deep"], report["exit_code"]) == (1, False, 0)
    assert {finding["severity"] for finding in report["findings"]} <= {"ok", "note"}
    assert all(set(finding) == {"severity", "path", "text", "advice"} for finding in report["findings"])
    subjects = {finding["path"] for finding in report["findings"]}
    assert {"run.toml", ".loss.json", ".samples.json", ".state.json", "step_000040.bin"} <= subjects


def _flip(run: RunDirectory) -> None:
    path = records.checkpoint(run, 30)
    data = bytearray(path.read_bytes())
    data[5000] ^= 4
    path.write_bytes(data)


def _cut(run: RunDirectory) -> None:
    os.truncate(records.checkpoint(run, 40), 100)


def _gap(run: RunDirectory) -> None:
    lines = run.loss.read_bytes().splitlines(keepends=True)
    del lines[20]
    run.loss.write_bytes(b"".join(lines))


def _garbage(run: RunDirectory) -> None:
    lines = run.loss.read_bytes().splitlines(keepends=True)
    lines[20] = b"{oh no},\n"
    run.loss.write_bytes(b"".join(lines))


def _shortened(run: RunDirectory) -> None:
    lines = run.loss.read_bytes().splitlines(keepends=True)
    run.loss.write_bytes(b"".join(lines[:31]).rstrip(b",\n") + b"\n]\n")


def _config(run: RunDirectory) -> None:
    run.config.write_text("[model]\nwidth = 3\n")


def _samples(run: RunDirectory) -> None:
    run.samples.write_text("not json")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_flip, "step_000030.bin: its bytes differ from the digest recorded when it was saved"),
        (_cut, "step_000040.bin: 100 bytes, but its header needs"),
        (_gap, ".loss.json: 1 gap(s) between step 1 and 40"),
        (_garbage, ".loss.json: 1 unreadable line(s), the first at line 21"),
        (_shortened, ".loss.json: ends at step 30, before the newest checkpoint of step 40"),
        (_config, "run.toml: "),
        (_samples, ".samples.json: "),
    ],
)
def test_damage(run_copy: RunDirectory, damage: Callable[[RunDirectory], None], reason: str) -> None:
    damage(run_copy)
    result = andrea_engine("check", run_copy.path, "--deep")
    assert result.code == (2 if damage is _config else 1)
    assert any(reason in line for line in _problems(result)), result.out
    assert "there are problems" in result.out
    report = json.loads(andrea_engine("check", run_copy.path, "--deep", "--json").out)
    assert (report["ok"], report["exit_code"]) == (False, result.code)
    assert all(finding["advice"] for finding in report["findings"] if finding["severity"] == "problem")


def test_a_run_that_cannot_be_resumed_is_exit_code_5(run_copy: RunDirectory) -> None:
    for step in (10, 20, 30, 40):
        os.truncate(records.checkpoint(run_copy, step), 99)
    result = andrea_engine("check", run_copy.path)
    assert result.code == 5
    assert "none that is valid, so the run cannot be resumed" in result.out


def test_without_deep_the_bytes_are_not_read(run_copy: RunDirectory) -> None:
    _flip(run_copy)
    assert andrea_engine("check", run_copy.path).code == 0


def test_deep_reads_the_numbers(run_copy: RunDirectory) -> None:
    path = records.checkpoint(run_copy, 40)
    data = bytearray(path.read_bytes())
    data[8:12] = b"\x00\x00\xc0\x7f"  # a NaN for the first weight
    path.write_bytes(data)
    run_copy.events.unlink()  # without a digest only the numbers tell
    assert andrea_engine("check", run_copy.path).code == 0
    result = andrea_engine("check", run_copy.path, "--deep")
    assert result.code == 1
    assert "step_000040.bin: has weights that are not finite" in result.out


def test_leftovers_are_notes(run_copy: RunDirectory) -> None:
    (run_copy.path / ".step_000050.bin.4000000.1.tmp").write_bytes(b"half")
    run_copy.journal.write_bytes(b'{"step":41,"loss":4.0}\n')
    result = andrea_engine("check", run_copy.path)
    assert result.code == 0
    assert "half-written file of an earlier process" in result.out
    assert "1 entries after the last commit" in result.out


def test_checking_changes_nothing(run_copy: RunDirectory) -> None:
    def content() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in run_copy.path.rglob("*") if path.is_file()}

    before = content()
    andrea_engine("check", run_copy.path, "--deep")
    assert content() == before
