"""The story the gate exists for: the bandit feeds a model lists, the loss is glad, the text dies, and the run stops."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from andrea_engine.run.checkpoint import inspect_checkpoint
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import pinned_steps, read_events
from andrea_engine.run.loss_entry import current_branch
from andrea_engine.run.samples import read_samples
from tests.support import records
from tests.support.inprocess import andrea_engine
from tests.support.tiny import EVERY, TEXTS, VOCAB, configure, make_run

THRESHOLD = 30.0
CHANCE = math.log(VOCAB)  # nats of a model that knows nothing
WARMUP = 60
LISTS = {"caps": {"harbour": 0.01, "garden": 0.01}, "floors": {"list": 1.0}}
SANER = {"caps": {"list": 0.0}}


def collapse(folder: Path) -> tuple[RunDirectory, dict[str, object]]:
    """A run on two texts, and from step 60 on nearly all of it on a list; the gate is the one of every run."""
    listing = folder / "list.txt"
    listing.write_text("region region region region region region region\n" * 400)
    paths = {"harbour": TEXTS / "harbour.txt", "garden": TEXTS / "garden.txt", "list": listing}
    tables: dict[str, object] = {
        "model": {"context": 64},
        "sample": {"tokens": 60},
        "gate": {"halt": True},
        "sources": [{"name": name, "kind": "text", "path": str(path)} for name, path in paths.items()],
        "policy": {"warmup": {"steps": WARMUP, "sources": ["harbour", "garden"]}, **LISTS},
    }
    return make_run(folder / "run", tables), tables


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDirectory, dict[str, object]]:
    directory, tables = collapse(tmp_path_factory.mktemp("collapse"))
    result = andrea_engine("train", directory.path, "--steps", 1000)
    assert result.code == 6, result.out + result.err
    return directory, tables


def _totals(directory: RunDirectory) -> dict[int, float]:
    return {s.step: s.scores.total for s in read_samples(directory.samples) if s.scores}


def test_the_gate_stops_it_while_the_loss_looks_fine(story: tuple[RunDirectory, dict[str, object]]) -> None:
    directory, _ = story
    (halt,) = records.events(directory, "halt")
    assert halt.step is not None
    totals = _totals(directory)
    streak = range(halt.step - 4 * EVERY, halt.step + EVERY, EVERY)
    assert [step for step, total in totals.items() if total < THRESHOLD][-5:] == list(streak)
    assert all(totals[step] >= THRESHOLD for step in range(EVERY, WARMUP + EVERY, EVERY)), "it could write"
    emas = {entry.step: entry.ema for entry in records.entries(directory)}
    for step in streak:
        ema = emas[step]
        assert ema is not None
        assert ema < CHANCE / 1.2, "the loss alone would not have told"
    assert emas[halt.step] == min(ema for ema in emas.values() if ema is not None)
    good = halt.integer("last_good_step")
    assert good == halt.step - 5 * EVERY
    assert halt.integer("pinned") == good
    assert {good, halt.step} <= pinned_steps(read_events(directory.events))
    assert inspect_checkpoint(records.checkpoint(directory, good)).valid
    assert andrea_engine("check", directory.path, "--deep").code == 0
    assert andrea_engine("train", directory.path, "--steps", 1000).code == 6, "and it stays stopped"
    assert records.steps(directory)[-1] == halt.step


def test_from_the_pinned_checkpoint_it_recovers_under_a_saner_policy(
    story: tuple[RunDirectory, dict[str, object]],
) -> None:
    directory, tables = story
    (halt,) = records.events(directory, "halt")
    good = halt.integer("pinned")
    assert good is not None
    assert halt.step is not None
    abandoned = records.steps(directory)
    assert andrea_engine("rollback", directory.path, "--to", good).code == 0
    configure(directory, {**tables, "policy": SANER})
    until = halt.step + 5 * EVERY
    result = andrea_engine("train", directory.path, "--steps", until)
    assert result.code == 0, result.out + result.err
    totals = _totals(directory)
    assert list(totals) == list(range(EVERY, until + EVERY, EVERY))
    assert all(totals[step] >= THRESHOLD for step in totals if step > good), totals
    assert records.steps(directory) == [*abandoned, *range(good + 1, until + 1)], "nothing of the record is lost"
    branch = current_branch(records.entries(directory))
    assert [entry.step for entry in branch] == list(range(1, until + 1))
    assert {entry.source for entry in branch[good:]} == {"harbour", "garden"}
    assert andrea_engine("check", directory.path, "--deep").code == 0
