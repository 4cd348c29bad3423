"""What the gate says besides the plain halt: alarms that stay, a halt by the window, facts, and restarts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from andrea_engine.coherence.gate import GateConfig
from andrea_engine.coherence.metrics import score
from andrea_engine.run.config import GateTable
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import pinned_steps, read_events
from andrea_engine.run.samples import read_samples
from andrea_engine.run.summary import summarise
from andrea_engine.run.summary_text import render
from andrea_engine.train.audit import gate_config
from tests.support import records
from tests.support.gates import COLLAPSED, FULL_MARKS, NO_MARKS, give_scores
from tests.support.inprocess import andrea_engine
from tests.support.tiny import configure, make_run

WATCHED = {**COLLAPSED, "gate": {"halt": False, "threshold": 100.0}}
WINDOW = {
    **COLLAPSED,
    "gate": {"halt": True, "halt_on_window": True, "threshold": 100.0, "consecutive": 50, "window": 4},
}


def train(directory: RunDirectory, steps: int, *options: str, code: int = 0) -> str:
    result = andrea_engine("train", directory.path, "--steps", steps, *options)
    assert result.code == code, result.out + result.err
    return result.out


def test_run_toml_and_the_gate_agree_on_every_default() -> None:
    assert gate_config(GateTable()) == GateConfig()
    assert gate_config(GateTable(halt_on_window=True), no_halt=True) == GateConfig(halt=False, halt_on_window=True)


@pytest.mark.parametrize(("tables", "options"), [(COLLAPSED, ["--no-halt"]), (WATCHED, [])])
def test_where_nothing_may_halt_the_alarm_stays(
    tmp_path: Path, tables: dict[str, dict[str, object]], options: list[str]
) -> None:
    directory = make_run(tmp_path / "run", tables)
    train(directory, 10, *options)
    give_scores(directory, {10: FULL_MARKS})
    train(directory, 90, *options)
    assert records.events(directory, "halt") == []
    assert [e.step for e in records.events(directory, "gate", alarm="collapse")] == [60]
    alarms = {e.step: e.facts["alarms"] for e in records.events(directory, "sample")}
    assert alarms == {step: ["collapse"] if step >= 60 else [] for step in range(10, 100, 10)}
    assert pinned_steps(read_events(directory.events)) == {10}, "the checkpoint to come back to"
    summary = summarise(directory)
    assert (summary.gate_low_in_row, summary.window_low, summary.window_filled) == (8, 8, 9)
    assert (summary.last_good_step, summary.first_bad_step, summary.alarms) == (10, 20, ["collapse"])
    assert "alarm       collapse: 8 of the last 9 samples low, last good sample step 10" in render(summary)


def test_without_the_option_the_streak_stops_the_next_start(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", COLLAPSED)
    train(directory, 60, "--no-halt")
    refused = train(directory, 90, code=6)
    assert "halted this run at step 60 (6 samples in a row below 100); go on only with --override-halt" in refused
    train(directory, 70, "--no-halt")
    assert records.sample_steps(directory)[-1] == 70


def test_the_window_halts_where_asked_and_a_restart_is_refused(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", WINDOW)
    output = train(directory, 200, code=6)
    assert "halted by the coherence gate at step 40: 4 of the last 4 samples are below 100" in output
    (halt,) = records.events(directory, "halt")
    totals = [e.number("total") for e in records.events(directory, "sample")]
    assert halt.facts["samples"] == [
        {"step": step, "total": total} for step, total in zip((10, 20, 30, 40), totals, strict=True)
    ]
    assert "(4 of the last 4 samples are below 100); go on only with" in train(directory, 200, code=6)
    assert records.steps(directory)[-1] == 40, "not one step was trained"
    train(directory, 70, "--override-halt")
    train(directory, 200, code=6)
    assert records.steps(directory)[-1] == 80, "the override counts four new samples"


def test_the_halt_tells_what_was_lost(tmp_path: Path) -> None:
    """A hundred joules a step up to step 40; then the meter says no more."""
    directory = make_run(tmp_path / "run", COLLAPSED)
    train(directory, 40)
    give_scores(directory, {10: FULL_MARKS})
    entries = json.loads(directory.loss.read_text())
    lines = [json.dumps({**entry, "energy_j": 100.0 * entry["step"]}) for entry in entries]
    directory.loss.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    train(directory, 200, code=6)
    (halt,) = records.events(directory, "halt")
    samples = halt.facts["samples"]
    assert isinstance(samples, list)
    assert [sample["step"] for sample in samples] == [20, 30, 40, 50, 60]
    assert {sample["total"] < 100 for sample in samples} == {True}
    assert (halt.step, halt.integer("last_good_step"), halt.integer("first_bad_step")) == (60, 10, 20)
    assert (halt.integer("pinned"), halt.integer("steps_since_good")) == (10, 50)
    assert halt.number("energy_wh_since_good") == round((4000 - 1000) / 3600, 3)


def test_unknown_facts_of_a_halt_are_null(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", COLLAPSED)
    train(directory, 200, code=6)
    (halt,) = records.events(directory, "halt")
    assert halt.facts["steps_since_good"] is halt.facts["energy_wh_since_good"] is None
    assert halt.integer("first_bad_step") == 10


def test_a_falling_score_under_a_falling_loss_is_an_alarm_once(tmp_path: Path) -> None:
    tables = {"gate": {"halt": True, "threshold": 0.0, "divergence_samples": 2}}
    directory = make_run(tmp_path / "run", tables)
    train(directory, 30)
    give_scores(directory, {10: FULL_MARKS, 20: FULL_MARKS, 30: NO_MARKS})
    train(directory, 40)
    (alarm,) = records.events(directory, "gate", alarm="divergence")
    assert alarm.step == 40
    assert "though the loss EMA fell from" in alarm.text("text")
    assert summarise(directory).alarms == ["divergence"]
    emas = {entry.step: entry.ema for entry in records.entries(directory)}
    assert {s.step: s.ema for s in read_samples(directory.samples)} == {step: emas[step] for step in (10, 20, 30, 40)}
    give_scores(directory, {40: NO_MARKS})
    for steps in (43, 45):
        train(directory, steps)
    assert len(records.events(directory, "gate", alarm="divergence")) == 1, "a restart does not repeat it"
    give_scores(directory, dict.fromkeys((10, 20), FULL_MARKS) | dict.fromkeys((30, 40), NO_MARKS))
    train(directory, 60)
    (over,) = records.events(directory, "gate", alarm="recovered", of="divergence")
    assert over.step in {50, 60}, "behind the drop the score rises again"
    assert summarise(directory).alarms == []


def test_an_alarm_that_a_kill_cut_off_is_told_by_the_next_start(tmp_path: Path) -> None:
    """The sample is stored, its events are not written yet: what lies between the two is one kill."""
    directory = make_run(tmp_path / "run", WATCHED)
    train(directory, 50)
    lines = directory.events.read_text().splitlines(keepends=True)
    (at,) = (n for n, line in enumerate(lines) if '"kind":"sample"' in line and '"step":50,' in line)
    directory.events.write_text("".join(lines[:at]))
    for _ in range(2):
        train(directory, 51)
        (alarm,) = records.events(directory, "gate", alarm="collapse")
        assert (alarm.step, alarm.session) == (50, 2)
        assert [e.step for e in records.events(directory, "sample")] == [10, 20, 30, 40, 50]


def test_a_rollback_behind_an_override_counts_the_samples_again(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", COLLAPSED)
    train(directory, 200, code=6)
    train(directory, 60, "--override-halt")
    assert summarise(directory).gate_low_in_row == 1
    assert andrea_engine("rollback", directory.path, "--to", 20).code == 0
    assert summarise(directory).gate_low_in_row == 2
    train(directory, 200, code=6)
    assert records.sample_steps(directory) == [10, 20, 30, 40, 50]


def test_prompts_take_turns_and_only_the_answer_is_scored(tmp_path: Path) -> None:
    prompts = ["", "region " * 60, "The bell"]
    tables = {"sample": {"prompts": prompts}}
    directory = make_run(tmp_path / "run", tables)
    train(directory, 35)
    train(directory, 60)
    samples = read_samples(directory.samples)
    assert [s.prompt for s in samples] == [prompts[step // 10 % 3] for step in (10, 20, 30, 40, 50, 60)]
    for sample in samples:
        assert sample.scores is not None
        assert sample.scores.total == score(sample.text).total
        assert "region region" not in sample.text
    long = samples[0]
    assert long.scores is not None
    assert score(long.prompt + long.text).total < long.scores.total / 2, "with its prompt it would be a loop"
    straight = make_run(tmp_path / "straight", tables)
    train(straight, 60)
    assert [(s.prompt, s.text) for s in read_samples(straight.samples)] == [(s.prompt, s.text) for s in samples]


def test_every_sample_of_a_run_is_stored_with_its_scores(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    train(directory, 40)
    configure(directory, {"sample": {"every": 5}})
    train(directory, 50)
    stored = records.strict_json(directory.samples)
    assert isinstance(stored, list)
    totals = {item["step"]: item["scores"]["total"] for item in stored}
    assert list(totals) == [10, 20, 30, 40, 45, 50]
    assert {e.step: e.number("total") for e in records.events(directory, "sample")} == totals
