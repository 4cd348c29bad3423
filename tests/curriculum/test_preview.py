"""The preview of a policy: the curriculum rebuilt from the files of a run, and what would change."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from andrea_engine.curriculum.curriculum import Curriculum
from andrea_engine.curriculum.preview import preview, rebuild
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError
from andrea_engine.run.loss_entry import make_entry
from andrea_engine.run.policy import Policy

from .helpers import falling, train

CONFIG = """\
seed = 1
[model]
context = 64
[schedule]
batch = 2
[policy.floors]
chat = 0.5
[[sources]]
name = "chat"
[[sources]]
name = "irc"
[[sources]]
name = "gone"
"""
TOKENS = {"chat": 100_000, "irc": 50_000}


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path)
    run.config.write_text(CONFIG)
    lock = {"arms": {name: {"tokens": count} for name, count in TOKENS.items()}, "unavailable": {"gone": "no folder"}}
    run.resolved.write_bytes(msgspec.json.encode(lock))
    return run


def live() -> Curriculum:
    """What the engine of that run holds."""
    unavailable = {"gone": "no folder"}
    return Curriculum(Policy(floors={"chat": 0.5}), TOKENS, unavailable, seed=1, tokens_per_step=128)


def test_rebuilt_from_record_and_journal(directory: RunDirectory) -> None:
    curriculum = live()
    entries = [make_entry(step=e.step, loss=e.loss, source=e.source, policy=0) for e in train(curriculum, range(1, 61))]
    lines = [entry.to_line() for entry in entries]
    directory.loss.write_bytes(b"[\n" + b",\n".join(lines[:40]) + b"\n]\n")
    directory.journal.write_bytes(b"\n".join(lines[40:]) + b"\n")
    assert rebuild(directory).snapshot() == curriculum.snapshot()


def test_a_run_that_was_never_started(directory: RunDirectory) -> None:
    directory.resolved.unlink()
    with pytest.raises(ConfigError, match="was never started"):
        rebuild(directory)
    directory.resolved.write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        rebuild(directory)


def test_old_against_new(directory: RunDirectory) -> None:
    curriculum = live()
    train(curriculum, range(1, 101), falling)
    before = curriculum.snapshot()
    policy = Policy(floors={"irc": 3.0}, caps={"chat": 1.0})
    rows = {row.name: row for row in preview(curriculum, policy, 200)}
    assert list(rows) == ["chat", "irc"]
    assert sum(row.old_draws for row in rows.values()) == sum(row.new_draws for row in rows.values()) == 200
    assert {name: row.new_draws for name, row in rows.items()} == curriculum.simulate(200, policy)
    assert (rows["irc"].new_least, rows["irc"].new_most) == curriculum.reach(policy)["irc"]
    assert rows["irc"].new_least >= 3.0 / 4.0
    for row in rows.values():
        assert row.old_least <= row.old_most
        assert row.new_least <= row.new_most
    assert curriculum.snapshot() == before, "a preview changes nothing"


def test_nothing_left_to_draw_from(directory: RunDirectory) -> None:
    with pytest.raises(ConfigError, match="all arms have weight zero"):
        preview(rebuild(directory), Policy(caps={"chat": 0.0, "irc": 0.0}))
