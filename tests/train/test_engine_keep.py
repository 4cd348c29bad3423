"""The keep rule at work: old checkpoints go, pinned ones, multiples and the newest stay."""

from __future__ import annotations

from pathlib import Path

from tests.support import records
from tests.support.inprocess import Bell, andrea_engine
from tests.support.tiny import CHECKPOINT_BYTES, make_run


def test_the_rule_keeps_the_newest_the_multiples_and_what_was_asked_for(tmp_path: Path) -> None:
    rule = {"every": 5, "keep": "rule", "keep_last": 3, "keep_every": 20}
    directory = make_run(tmp_path / "run", {"checkpoint": rule})
    bell = Bell()
    bell.save_asked = 1.0  # seen after the first step
    assert andrea_engine("train", directory.path, "--steps", 57, bell=bell).code == 0
    assert records.checkpoints(directory) == [1, 20, 40, 50, 55, 57]
    removed = records.events(directory, "removed", reason="keep rule")
    steps = sorted(step for event in removed for step in event.facts["steps"])
    assert steps == [5, 10, 15, 25, 30, 35, 45]
    assert sum(event.integer("bytes") or 0 for event in removed) == 7 * CHECKPOINT_BYTES
    assert records.steps(directory) == list(range(1, 58)), "the record stays whole"
    assert andrea_engine("check", directory.path).code == 0


def test_a_pin_outlives_the_session(tmp_path: Path) -> None:
    rule = {"every": 5, "keep": "rule", "keep_last": 2, "keep_every": 0}
    directory = make_run(tmp_path / "run", {"checkpoint": rule})
    bell = Bell()
    bell.save_asked = 1.0
    assert andrea_engine("train", directory.path, "--steps", 5, bell=bell).code == 0
    assert andrea_engine("train", directory.path, "--steps", 30).code == 0
    assert records.checkpoints(directory) == [1, 25, 30]


def test_a_file_that_is_not_valid_is_neither_counted_nor_removed(tmp_path: Path) -> None:
    rule = {"every": 5, "keep": "rule", "keep_last": 2, "keep_every": 0}
    directory = make_run(tmp_path / "run", {"checkpoint": rule})
    assert andrea_engine("train", directory.path, "--steps", 5).code == 0
    broken = records.checkpoint(directory, 7)
    broken.write_bytes(b"not a checkpoint")
    assert andrea_engine("train", directory.path, "--steps", 30).code == 0
    assert records.checkpoints(directory) == [7, 25, 30]
    assert broken.read_bytes() == b"not a checkpoint"


def test_a_request_at_a_step_that_is_on_disk_pins_it_without_writing_again(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", {"sample": {"every": 5}, "checkpoint": {"every": 5}})
    bell = Bell()

    def ring() -> bool:
        """Ring while the sample of step 5 is about to be made; its checkpoint was handed to the writer before."""
        if not asked and records.events(directory, "save_writing", step=5):
            asked.append(True)
            bell.save_asked = 1.0
        return False

    asked: list[bool] = []
    bell = Bell(ring)
    assert andrea_engine("train", directory.path, "--steps", 8, bell=bell).code == 0
    first, second = records.events(directory, "save_durable", step=5)
    assert (first.text("reason"), second.text("reason")) == ("cadence", "operator")
    assert (second.facts["already_saved"], second.facts["pinned"]) == (True, True)
    assert first.text("sha256") == second.text("sha256")
    assert len(records.events(directory, "save_writing", step=5)) == 1
    assert records.sample_steps(directory) == [5], "the sample was made after the answer"
