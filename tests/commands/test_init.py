"""`andrea-engine init`: a run directory with nothing but a valid run.toml, or a sentence and nothing at all."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from andrea_engine.run.config import load_config
from andrea_engine.run.directory import RunDirectory
from tests.support.inprocess import andrea_engine
from tests.support.tiny import TEXTS

SIZES = {"12m": (12_780_288, 153_363_464), "120m": (98_698_752, 1_184_385_032), "480m": (480_513_024, 5_766_156_296)}


@pytest.mark.parametrize("preset", SIZES)
def test_the_published_sizes(tmp_path: Path, preset: str) -> None:
    result = andrea_engine("init", tmp_path / "run", "--preset", preset)
    assert result.code == 0, result.err
    n_params, size = SIZES[preset]
    assert f"preset {preset}, {n_params:,} parameters, {size / 1e6:,.1f} MB a checkpoint" in result.out
    assert load_config(RunDirectory(tmp_path / "run")).n_params == n_params
    assert size == 8 + 12 * n_params
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.toml"]


def test_the_name_suggests_the_preset_and_the_demo_is_the_default(tmp_path: Path) -> None:
    assert "preset 120m" in andrea_engine("init", tmp_path / "my-120m-run").out
    assert "preset demo" in andrea_engine("init", tmp_path / "novel").out


def test_options_are_written_down(tmp_path: Path) -> None:
    path = tmp_path / "run"
    options = ["--steps", "300", "--seed", "5", "--batch", "2", "--device", "cpu", "--nproc", "2", "--threads", "1"]
    assert andrea_engine("init", path, *options).code == 0
    config = load_config(RunDirectory(path))
    assert (config.schedule.steps, config.seed, config.schedule.batch) == (300, 5, 2)
    assert (config.device.name, config.device.nproc, config.device.threads) == ("cpu", 2, 1)
    assert tomllib.loads((path / "run.toml").read_text())["preset"] == "demo"


def test_own_text_replaces_the_sources_and_the_policy_that_names_them(tmp_path: Path) -> None:
    path = tmp_path / "run"
    records = tmp_path / "talk.jsonl"
    records.write_text('{"text": "hello"}\n')
    texts = [TEXTS, TEXTS / "garden.txt", f"{TEXTS}/*.txt"]
    arguments = [word for text in texts for word in ("--text", str(text))]
    assert andrea_engine("init", path, *arguments, "--jsonl", records).code == 0
    config = load_config(RunDirectory(path))
    assert [source["name"] for source in config.sources] == ["texts", "garden", "text", "talk"]
    assert [source["kind"] for source in config.sources] == ["text", "text", "text", "jsonl"]
    assert config.sources[0]["path"] == str(TEXTS)
    assert config.sources[2]["glob"] == f"{TEXTS}/*.txt"
    assert config.policy == {}


def test_own_text_can_be_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "run"
    assert andrea_engine("init", path, "--text", TEXTS, "--batch", "1", "--threads", "1").code == 0
    config = (path / "run.toml").read_text()
    (path / "run.toml").write_text(config.replace("segments = 512", "segments = 40"))
    assert andrea_engine("train", path, "--steps", "2").code == 0
    assert (path / "step_000002.bin").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--steps", "0"], "schedule.steps: expected"),
        (["--device", "gpu"], "device.name: expected"),
        (["--text", "/nowhere/at/all"], "/nowhere/at/all does not exist"),
        (["--jsonl", "/nowhere/at/all"], "/nowhere/at/all does not exist"),
        (["--seed", "-1"], "seed: expected"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_left(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    result = andrea_engine("init", tmp_path / "run", *arguments)
    assert result.code == 2
    assert sentence in result.err
    assert result.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_existing_run_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "run"
    assert andrea_engine("init", path, "--seed", "5").code == 0
    before = (path / "run.toml").read_bytes()
    result = andrea_engine("init", path, "--seed", "6")
    assert result.code == 2
    assert "holds a run already" in result.err
    assert (path / "run.toml").read_bytes() == before


def test_files_of_another_run_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "v1.loss.json").write_text("[[1, 9.0]]")
    result = andrea_engine("init", tmp_path)
    assert result.code == 2
    assert "holds files of another run" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["v1.loss.json"]


def test_a_file_in_the_way_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    result = andrea_engine("init", tmp_path / "run")
    assert result.code == 2
    assert "cannot be created" in result.err
