"""`andrea-engine repair`: says what it would do, does it with --yes, and leaves with what `check` finds afterwards."""

from __future__ import annotations

import json
import os

import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.lock import EngineLock
from tests.support import records
from tests.support.inprocess import andrea_engine

DEAD = 999_999_999


def content(run: RunDirectory) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in run.path.rglob("*") if path.is_file()}


def spoil(run: RunDirectory) -> None:
    os.truncate(records.checkpoint(run, 40), 100)
    (run.path / f".step_000050.bin.{DEAD}.1.tmp").write_bytes(b"half")
    run.state.write_text("no state")


def test_without_yes_it_only_says_so(run_copy: RunDirectory) -> None:
    spoil(run_copy)
    before = content(run_copy)
    result = andrea_engine("repair", run_copy.path)
    assert result.code == 1, "as `check` now"
    lines = [line for line in result.out.splitlines() if line.startswith("would repair  ")]
    assert [line.split()[2] for line in lines] == [
        f".step_000050.bin.{DEAD}.1.tmp:",
        "step_000040.bin:",
        ".state.json:",
    ]
    assert "left" not in result.out
    assert result.out.endswith(f"nothing was changed; to do it: andrea-engine repair {run_copy.path} --yes\n")
    assert content(run_copy) == before


def test_with_yes_all_is_well_and_training_goes_on(run_copy: RunDirectory) -> None:
    spoil(run_copy)
    result = andrea_engine("repair", run_copy.path, "--yes")
    assert result.code == 0, result.out
    assert "3 repair(s) done" in result.out
    assert andrea_engine("check", run_copy.path, "--deep").code == 0
    assert andrea_engine("repair", run_copy.path, "--yes").out == "nothing to repair\n"
    assert andrea_engine("train", run_copy.path, "--steps", 40).code == 0
    assert records.steps(run_copy)[-10:] == list(range(31, 41)), "trained again, under the same numbers"


def test_the_state_is_rebuilt_to_what_it_was(run_copy: RunDirectory) -> None:
    before = json.loads(run_copy.state.read_bytes())
    run_copy.state.write_text("garbage")
    assert andrea_engine("repair", run_copy.path, "--yes").code == 0
    assert json.loads(run_copy.state.read_bytes()) == before


def test_deep(run_copy: RunDirectory) -> None:
    path = records.checkpoint(run_copy, 40)
    data = bytearray(path.read_bytes())
    data[5000] ^= 4
    path.write_bytes(data)
    assert andrea_engine("repair", run_copy.path).out == "nothing to repair\n"
    result = andrea_engine("repair", run_copy.path, "--deep", "--yes")
    assert result.code == 0
    assert "its bytes differ from the digest" in result.out
    assert records.checkpoints(run_copy) == [10, 20, 30]


def test_what_is_left_is_said_with_what_to_do(run_copy: RunDirectory) -> None:
    lines = run_copy.loss.read_bytes().splitlines(keepends=True)
    del lines[20]
    run_copy.loss.write_bytes(b"".join(lines))
    result = andrea_engine("repair", run_copy.path, "--yes")
    assert result.code == 1
    assert "left    .loss.json: 1 gap(s) between step 1 and 40" in result.out
    assert "-> restore the file from a copy of the run" in result.out
    assert result.out.endswith("nothing to repair\n")


def test_without_any_valid_checkpoint_it_is_exit_code_5_and_nothing_moves(run_copy: RunDirectory) -> None:
    for step in (10, 20, 30, 40):
        os.truncate(records.checkpoint(run_copy, step), 99)
    result = andrea_engine("repair", run_copy.path, "--yes")
    assert result.code == 5
    assert "moves it aside" not in result.out, "which is not what was done"
    assert records.checkpoints(run_copy) == [10, 20, 30, 40]


@pytest.mark.parametrize("yes", [[], ["--yes"]])
def test_a_living_engine_is_exit_code_4(run_copy: RunDirectory, yes: list[str]) -> None:
    spoil(run_copy)
    lock = EngineLock(run_copy)
    result = andrea_engine("repair", run_copy.path, *yes)
    lock.release()
    assert result.code == 4
    assert "in use" in result.err
    assert not run_copy.archive.exists()


def test_what_is_no_run_is_exit_code_2(run_copy: RunDirectory) -> None:
    assert andrea_engine("repair", run_copy.path / "nowhere").code == 2
    assert andrea_engine("repair", run_copy.tokens).code == 2
