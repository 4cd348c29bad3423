"""`andrea-engine sample`: scored texts from a checkpoint, reproducible, without touching the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from andrea_engine.coherence.metrics import score
from andrea_engine.run.directory import RunDirectory
from tests.conftest import TrainedRun
from tests.support import records
from tests.support.engines import Engines
from tests.support.inprocess import andrea_engine
from tests.support.tiny import RARELY, make_run


def _samples(run: RunDirectory, *arguments: object) -> list[dict[str, object]]:
    result = andrea_engine("sample", run.path, "--json", *arguments)
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def test_a_sample_is_scored_and_reproducible(trained: TrainedRun) -> None:
    (one,) = _samples(trained.directory, "--seed", 3)
    (again,) = _samples(trained.directory, "--seed", 3)
    (other,) = _samples(trained.directory, "--seed", 4)
    assert {k: v for k, v in one.items() if k != "time"} == {k: v for k, v in again.items() if k != "time"}
    assert one["text"] != other["text"]
    scores = one["scores"]
    assert isinstance(scores, dict)
    assert scores["total"] == score(str(one["text"])).total
    assert (one["step"], one["tokens"], one["temperature"], one["seed"]) == (40, 24, 1.0, 3)


def test_several_have_seeds_in_a_row(trained: TrainedRun) -> None:
    found = _samples(trained.directory, "--count", 3, "--seed", 8, "--tokens", 5)
    assert [sample["seed"] for sample in found] == [8, 9, 10]
    assert {sample["tokens"] for sample in found} == {5}


def test_a_prompt_and_an_earlier_checkpoint(trained: TrainedRun) -> None:
    (sample,) = _samples(trained.directory, "--prompt", "The bell", "--step", 20)
    assert (sample["step"], sample["prompt"]) == (20, "The bell")
    out = andrea_engine("sample", trained.directory.path, "--prompt", "The bell", "--step", 20).out
    assert out.startswith("--- step 20, seed 0: ")
    assert "\nThe bell" in out


def test_the_run_is_not_touched(run_copy: RunDirectory) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in run_copy.path.iterdir()}
    _samples(run_copy, "--count", 2)
    assert {path.name: path.stat().st_mtime_ns for path in run_copy.path.iterdir()} == before


def test_control_characters_are_not_obeyed(trained: TrainedRun) -> None:
    """A young model emits raw bytes; as text they are shown, in JSON they are escaped."""
    for seed in range(0, 40, 20):
        out = andrea_engine("sample", trained.directory.path, "--count", 20, "--seed", seed, "--step", 10).out
        assert not [character for character in out if ord(character) < 32 and character != "\n"]
        assert "\x7f" not in out


def test_a_damaged_checkpoint_is_passed_over(run_copy: RunDirectory) -> None:
    records.checkpoint(run_copy, 40).write_bytes(b"short")
    assert _samples(run_copy)[0]["step"] == 30


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--step", 77], 5, "no checkpoint to sample from"),
        (["--count", 0], 2, "--count and --tokens must be 1 or more"),
        (["--tokens", 0], 2, "--count and --tokens must be 1 or more"),
        (["--temperature", -1], 2, "sampling temperature must be 0 or more"),
        (["--top-p", 0], 2, "sampling top_p must be above 0"),
        (["--seed", -3], 2, "sampling seed must be between 0"),
    ],
)
def test_what_cannot_be_is_one_sentence(trained: TrainedRun, arguments: list[object], code: int, sentence: str) -> None:
    result = andrea_engine("sample", trained.directory.path, *arguments)
    assert result.code == code
    assert sentence in result.err
    assert result.err.count("\n") == 1


def test_a_run_without_checkpoints(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    result = andrea_engine("sample", directory.path)
    assert result.code == 5
    assert "no checkpoint to sample from" in result.err


def test_a_living_engine_is_sampled_without_a_lock(engines: Engines, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", {**RARELY, "checkpoint": {"every": 20, "keep": "rule", "keep_last": 2}})
    engine = engines.start(directory)
    engine.wait_event("save_durable")
    for _ in range(3):
        (sample,) = _samples(directory)
        assert int(str(sample["step"])) % 20 == 0
    before = engine.step
    engine.wait_step(before + 20)
    assert engine.events("error") == []
