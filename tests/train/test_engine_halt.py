"""The coherence gate halts a run, the halt outlives every restart, and only the operator ends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from andrea_engine.run.condition import condition
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import pinned_steps, read_events
from andrea_engine.run.samples import read_samples
from tests.support import records
from tests.support.engines import Engines
from tests.support.gates import COLLAPSED, FULL_MARKS, give_scores
from tests.support.inprocess import Bell, andrea_engine
from tests.support.tiny import EVERY, configure, make_run

FIFTH = 5 * EVERY


@pytest.fixture(scope="module")
def halted(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    directory = make_run(tmp_path_factory.mktemp("halted") / "run", COLLAPSED)
    result = andrea_engine("train", directory.path, "--steps", 200)
    assert result.code == 6, result.err
    assert f"halted by the coherence gate at step {FIFTH}: 5 samples in a row below 100" in result.out
    return directory


def test_halts_at_the_fifth_low_sample_saves_and_pins(halted: RunDirectory) -> None:
    assert records.sample_steps(halted) == [10, 20, 30, 40, FIFTH]
    assert records.steps(halted) == list(range(1, FIFTH + 1))
    (halt,) = records.events(halted, "halt")
    assert halt.step == FIFTH
    assert halt.facts["last_good_step"] is None, "no sample was ever good"
    assert [e.integer("consecutive_low") for e in records.events(halted, "sample")] == [1, 2, 3, 4, 5]
    assert len(records.events(halted, "gate", alarm="collapse", step=FIFTH)) == 1
    assert records.events(halted, "save_durable", step=FIFTH, reason="halt", pinned=True)
    assert pinned_steps(read_events(halted.events)) == {FIFTH}
    state = condition(halted)
    assert (state.word, state.alive) == ("halted", False)


def test_a_restart_is_refused_in_one_sentence(halted: RunDirectory) -> None:
    for _ in range(2):
        result = andrea_engine("train", halted.path, "--steps", 200)
        assert result.code == 6
        (sentence,) = (line for line in result.out.splitlines() if "halted" in line)
        assert "go on only with --override-halt" in sentence
        assert records.steps(halted) == list(range(1, FIFTH + 1)), "not one step was trained"
        assert condition(halted).word == "halted"


def test_the_operator_goes_on_and_the_gate_counts_anew(halted: RunDirectory) -> None:
    result = andrea_engine("train", halted.path, "--steps", FIFTH + 3, "--override-halt")
    assert result.code == 0, result.err
    assert [event.step for event in records.events(halted, "override")] == [FIFTH]
    result = andrea_engine("train", halted.path, "--steps", 200)
    assert result.code == 6, "the override holds after another restart, for five more samples"
    assert records.sample_steps(halted)[-1] == 2 * FIFTH
    assert records.steps(halted) == list(range(1, 2 * FIFTH + 1))


def test_a_kill_between_two_samples_of_the_streak_changes_nothing(engines: Engines, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", COLLAPSED)
    engine = engines.start(directory)
    engine.wait_event("sample", consecutive_low=3)
    engine.kill()
    killed_at = records.sample_steps(directory)
    result = andrea_engine("train", directory.path, "--steps", 200)
    assert result.code == 6
    assert killed_at[:3] == [10, 20, 30]
    assert records.sample_steps(directory) == [10, 20, 30, 40, FIFTH]
    assert records.steps(directory) == list(range(1, FIFTH + 1))


def test_the_fifth_sample_halts_also_when_it_is_made_up_for_at_a_start(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", COLLAPSED)
    bell = Bell(lambda: len(records.events(directory, "save_writing", step=FIFTH)) > 0)
    assert andrea_engine("train", directory.path, bell=bell).code == 0, "stopped after the step, before its sample"
    assert records.sample_steps(directory) == [10, 20, 30, 40]
    assert andrea_engine("train", directory.path, "--steps", 200).code == 6
    assert records.steps(directory) == list(range(1, FIFTH + 1)), "halted before another step"


def test_a_good_sample_resets_the_count(tmp_path: Path) -> None:
    """The threshold lies below everything: the run goes its way, with low ones counted before."""
    directory = make_run(tmp_path / "run", COLLAPSED)
    assert andrea_engine("train", directory.path, "--steps", 40).code == 0
    configure(directory, {"gate": {"halt": True, "threshold": 0.0}})
    assert andrea_engine("train", directory.path, "--steps", FIFTH).code == 0
    configure(directory, COLLAPSED)
    samples = read_samples(directory.samples)
    assert samples[-1].step == FIFTH
    give_scores(directory, {FIFTH: FULL_MARKS})
    assert andrea_engine("train", directory.path, "--steps", FIFTH + 40).code == 0
    assert [e.integer("consecutive_low") for e in records.events(directory, "sample")[-4:]] == [1, 2, 3, 4]
    assert andrea_engine("train", directory.path, "--steps", 200).code == 6
    (halt,) = records.events(directory, "halt")
    assert (halt.step, halt.integer("last_good_step"), halt.integer("pinned")) == (2 * FIFTH, FIFTH, FIFTH)
    assert {FIFTH, 2 * FIFTH} <= pinned_steps(read_events(directory.events))


def test_the_last_good_checkpoint_outlives_the_keep_rule_during_a_streak(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", COLLAPSED)
    assert andrea_engine("train", directory.path, "--steps", 30).code == 0
    give_scores(directory, {10: FULL_MARKS})
    configure(directory, {**COLLAPSED, "checkpoint": {"keep": "rule", "keep_last": 2, "keep_every": 0}})
    assert andrea_engine("train", directory.path, "--steps", 200).code == 6
    assert records.sample_steps(directory) == [10, 20, 30, 40, 50, 60]
    assert records.checkpoints(directory) == [10, 50, 60]
