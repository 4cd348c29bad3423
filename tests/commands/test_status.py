"""`andrea-engine status`: the truth about a run that is empty, running, stopped or killed, as text and as JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.conftest import TrainedRun
from tests.support import records
from tests.support.engines import Engines
from tests.support.inprocess import andrea_engine
from tests.support.tiny import CHECKPOINT_BYTES, N_PARAMS, RARELY, make_run


def _facts(path: Path) -> dict[str, object]:
    result = andrea_engine("status", path, "--json")
    assert result.code == 0, result.err
    facts = json.loads(result.out, parse_constant=records.refuse)
    assert isinstance(facts, dict)
    return facts


def test_a_trained_run(trained: TrainedRun) -> None:
    facts = _facts(trained.directory.path)
    entries = records.entries(trained.directory)
    expected = {
        "state": "stopped",
        "alive": False,
        "pid": None,
        "step": trained.steps,
        "entries": trained.steps,
        "n_params": N_PARAMS,
        "checkpoint_bytes": CHECKPOINT_BYTES,
        "first_loss": entries[0].loss,
        "loss": entries[-1].loss,
        "ema": entries[-1].ema,
        "lr": entries[-1].lr,
        "grad_norm": entries[-1].grad_norm,
        "samples": 4,
        "nonfinite_steps": 0,
        "session": 1,
        "problems": [],
    }
    assert {key: facts[key] for key in expected} == expected
    checkpoints = facts["checkpoints"]
    assert isinstance(checkpoints, list)
    assert [c["step"] for c in checkpoints] == [40, 30, 20, 10]
    assert all(c["problem"] is None and c["bytes"] == CHECKPOINT_BYTES for c in checkpoints)
    arms = facts["arms"]
    assert isinstance(arms, list)
    assert sum(arm["pulls"] for arm in arms) == trained.steps

    text = andrea_engine("status", trained.directory.path).out
    assert "state       stopped: stopped at step 40, saved" in text
    assert f"loss        {entries[-1].loss:.4f}  EMA {entries[-1].ema:.4f}" in text
    assert "checkpoints 4 valid" in text
    assert "harbour" in text


def test_an_empty_run(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    facts = _facts(directory.path)
    assert (facts["state"], facts["alive"], facts["step"], facts["loss"]) == ("empty", False, 0, None)
    assert facts["checkpoints"] == []
    assert "this run has not been started yet" in andrea_engine("status", directory.path).out


def test_a_running_and_then_a_killed_engine(engines: Engines, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", RARELY)
    engine = engines.start(directory)
    engine.wait_step(3)
    engine.wait_for(lambda: (beat := engine.heartbeat()) is not None and beat.step > 0, "a heartbeat with a step")
    facts = _facts(directory.path)
    assert (facts["state"], facts["alive"], facts["pid"]) == ("training", True, engine.pid)
    assert isinstance(facts["step"], int)
    assert facts["step"] >= 3
    assert facts["steps_per_minute"] is not None
    assert andrea_engine("check", directory.path).code == 0, "checking a live run disturbs nothing and finds nothing"

    engine.kill()
    facts = _facts(directory.path)
    assert (facts["state"], facts["alive"], facts["pid"]) == ("crashed", False, None)
    assert facts["eta_seconds"] is None
    assert "the engine ended without a word in phase training" in str(facts["sentence"])


def test_damage_is_told_and_not_fatal(trained: TrainedRun, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(trained.directory.path, path)
    (path / "run.toml").write_text("][")
    (path / ".samples.json").write_text("{")
    (path / "step_000040.bin").write_bytes(b"short")
    (path / "engine.json").write_bytes(b"\xff")
    facts = _facts(path)
    assert len(facts["problems"]) == 2  # type: ignore[arg-type]
    assert facts["entries"] == 40
    text = andrea_engine("status", path).out
    assert "step_000040.bin is not valid: only 5 bytes long, shorter than the header" in text
    assert "is not valid TOML" in text


def test_control_characters_of_a_sample_are_shown_and_not_obeyed(trained: TrainedRun, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(trained.directory.path, path)
    (path / ".samples.json").write_text(json.dumps([{"step": 40, "text": "\x1b]0;title\x07 \x1b[6n \x9b6n"}]))
    out = andrea_engine("status", path).out
    assert "]0;title" in out
    assert not any(character in out for character in "\x1b\x07\x9b")


def test_a_missing_directory_is_a_sentence(tmp_path: Path) -> None:
    result = andrea_engine("status", tmp_path / "none")
    assert result.code == 2
    assert "does not exist; create a run with: andrea-engine init" in result.err
