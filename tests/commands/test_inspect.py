"""`andrea-engine inspect`: header, digest and statistics of checkpoints."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from andrea_engine.run.directory import RunDirectory
from tests.conftest import TrainedRun
from tests.support import records
from tests.support.inprocess import andrea_engine
from tests.support.tiny import CHECKPOINT_BYTES, N_PARAMS


def test_all_of_a_run_newest_first(trained: TrainedRun) -> None:
    result = andrea_engine("inspect", trained.directory.path, "--json")
    assert result.code == 0
    reports = json.loads(result.out)
    assert [report["step"] for report in reports] == [40, 30, 20, 10]
    for report in reports:
        data = (trained.directory.path / report["file"]).read_bytes()
        assert report["sha256"] == hashlib.sha256(data).hexdigest()
        assert (report["digest"], report["problem"]) == ("matches", None)
        assert (report["n_params"], report["bytes"]) == (N_PARAMS, CHECKPOINT_BYTES)


def test_the_statistics_are_those_of_the_numbers(trained: TrainedRun) -> None:
    path = records.checkpoint(trained.directory, 40)
    (report,) = json.loads(andrea_engine("inspect", path, "--json").out)
    numbers = np.fromfile(path, "<f4", offset=8).astype(np.float64).reshape(3, N_PARAMS)
    for name, values in zip(("weights", "m", "v"), numbers, strict=True):
        found = report["regions"][name]
        assert found["nonfinite"] == 0
        assert np.isclose(found["mean"], values.sum() / N_PARAMS)
        assert np.isclose(found["rms"], np.sqrt((values**2).sum() / N_PARAMS))
        assert (found["min"], found["max"]) == (values.min(), values.max())
    assert report["regions"]["v"]["min"] >= 0


def test_text(trained: TrainedRun) -> None:
    out = andrea_engine("inspect", records.checkpoint(trained.directory, 40)).out
    assert f"step_000040.bin  step 40  {N_PARAMS:,} parameters  {CHECKPOINT_BYTES:,} bytes" in out
    assert "(matches)" in out
    assert "  weights  rms " in out


def test_what_is_not_finite_is_counted_and_left_out(run_copy: RunDirectory) -> None:
    path = records.checkpoint(run_copy, 40)
    numbers = np.fromfile(path, "<f4", offset=8)
    numbers[:3] = [np.nan, np.inf, -np.inf]
    numbers[N_PARAMS : 2 * N_PARAMS] = np.nan
    path.write_bytes(path.read_bytes()[:8] + numbers.tobytes())
    result = andrea_engine("inspect", path, "--json")
    assert result.code == 0, "the header is valid, and the rest is shown"
    (report,) = json.loads(result.out, parse_constant=records.refuse)
    assert report["digest"] == "differs"
    assert report["regions"]["weights"]["nonfinite"] == 3
    assert report["regions"]["m"] == {"nonfinite": N_PARAMS, "mean": None, "rms": None, "min": None, "max": None}
    assert "m        nothing finite" in andrea_engine("inspect", path).out


def test_a_file_that_is_not_valid_is_exit_code_5(run_copy: RunDirectory) -> None:
    records.checkpoint(run_copy, 40).write_bytes(b"12345678")
    result = andrea_engine("inspect", run_copy.path)
    assert result.code == 5
    assert "step_000040.bin  INVALID: " in result.out
    assert "step_000030.bin  step 30" in result.out, "the others are shown all the same"
    assert andrea_engine("inspect", run_copy.path, "--json").code == 5


def test_an_unrecorded_file_is_unverified(run_copy: RunDirectory) -> None:
    run_copy.events.unlink()
    assert "(unverified)" in andrea_engine("inspect", run_copy.path).out


def test_nothing_to_inspect(tmp_path: Path) -> None:
    assert andrea_engine("inspect", tmp_path).out == f"no checkpoints in {tmp_path}\n"
    result = andrea_engine("inspect", tmp_path / "none")
    assert result.code == 2
    assert "does not exist; name a run directory or a checkpoint file" in result.err
