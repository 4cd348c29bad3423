"""The samples that pivots have archived: known to the console, once read, and only where they belong to the run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from andrea_engine.run.condition import Condition
from andrea_engine.run.config import parse_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import Event
from andrea_engine.run.loss_entry import make_entry
from andrea_engine.run.samples import KEPT, Sample, StoredScores, write_samples
from andrea_tui.commands import BY_ID, Situation
from andrea_tui.feed import past_samples
from andrea_tui.feed.past_samples import PastSamples, in_order
from andrea_tui.feed.sample_history import history, next_sample, none_yet, walkable
from andrea_tui.feed.store import Store
from andrea_tui.feed.tailer import DirectoryReader
from andrea_tui.feed.update import EntryBatch, Update

TRAINING = Condition("training", alive=True, sentence="")
STOPPED = Condition("stopped", alive=False, sentence="")
DEMO = parse_config('preset = "demo"', "run.toml")


@pytest.fixture(autouse=True)
def at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_samples, "LOOK_SECONDS", 0.0)


def made(*steps: int) -> list[Sample]:
    return [Sample(step=step, text=f"sample {step}", scores=StoredScores(9, 9, 9, 9, 36.0)) for step in steps]


def archive(directory: RunDirectory, number: int, step: int, samples: list[Sample], *, complete: bool = True) -> Path:
    folder = directory.archive / f"pivot-{number:04d}-step-{step:06d}"
    folder.mkdir(parents=True)
    write_samples(folder / directory.samples.name, samples)
    if complete:
        (folder / "receipt.json").write_text("{}")
    return folder


def steps(samples: tuple[Sample, ...] | None) -> list[int] | None:
    return None if samples is None else [sample.step for sample in samples]


def test_each_archive_is_read_once_and_handed_out_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, read = RunDirectory(tmp_path), []
    monkeypatch.setattr(
        past_samples, "read_samples", lambda path, real=past_samples.read_samples: read.append(path) or real(path)
    )
    past = PastSamples(directory)
    assert past.look() is None
    archive(directory, 1, 250, made(100, 200))
    assert steps(past.look()) == [100, 200]
    assert past.look() is None
    archive(directory, 2, 420, made(300, 400))
    assert steps(past.look()) == [100, 200, 300, 400]
    assert past.look() is None
    assert len(read) == 2


def test_what_a_roll_back_has_left_is_no_part_of_the_run(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    archive(directory, 1, 400, made(100, 200, 300, 400))
    archive(directory, 2, 350, made(200, 300))  # after going back to step 100
    rolled = directory.archive / "rollback-0001-from-500-to-350"
    rolled.mkdir()
    write_samples(rolled / directory.samples.name, made(500))
    assert steps(PastSamples(directory).look()) == [100, 200, 300]
    assert steps(in_order(made(100, 300, 300, 200))) == [100, 200]


def test_a_broken_archive_is_skipped_and_a_half_done_one_does_not_count(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    archive(directory, 1, 150, made(100))
    (archive(directory, 2, 250, made(200)) / directory.samples.name).write_bytes(b"\xff\x00[{[rubbish")
    archive(directory, 3, 350, made(300), complete=False)
    broken = archive(directory, 4, 450, []) / directory.samples.name
    broken.unlink()
    os.mkfifo(broken)
    archive(directory, 5, 550, made(500))
    assert steps(PastSamples(directory).look()) == [100, 500]


def test_there_is_an_end_to_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = RunDirectory(tmp_path)
    archive(directory, 1, 2, made(1))
    archive(directory, 2, 2000, made(*range(2, 802)))
    archive(directory, 3, 4000, made(*range(1000, 1800)))
    found = PastSamples(directory).look()
    assert found is not None
    assert (len(found), found[-1].step) == (KEPT, 1799)
    monkeypatch.setattr(past_samples, "FILE_LIMIT", 10)
    assert PastSamples(directory).look() == ()


def test_the_console_gets_them_from_its_reader(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    archive(directory, 1, 250, made(100, 200))
    write_samples(directory.samples, made(300))
    reader, store = DirectoryReader(directory), Store()
    store.apply(reader.poll())
    assert (steps(store.samples), steps(history(store))) == ([300], [100, 200, 300])
    assert reader.poll().past_samples is None


# -- what is told of them ---------------------------------------------------------------------------------------------


def store_of(
    step: int, samples: list[Sample], past: list[Sample], *kinds: str, condition: Condition = TRAINING, every: int = 100
) -> Store:
    """At `step`, with these samples; events of `kinds` at step 250, in this order."""
    store = Store()
    entries = tuple(make_entry(step=number, loss=3.0, ema=3.0) for number in range(1, step + 1))
    config = parse_config(f'preset = "demo"\n[sample]\nevery = {every}', "run.toml")
    store.apply(
        Update(
            9.0,
            condition,
            None,
            batches=(EntryBatch(entries),) if entries else (),
            events=tuple(Event(9.0, kind, 1, {"step": 250, "consecutive_low": 2}) for kind in kinds),
            samples=tuple(samples),
            past_samples=tuple(past),
            config=config,
        )
    )
    return store


def test_a_sample_of_a_later_step_than_the_run_has_is_left_out() -> None:
    """The run went back behind a pivot, and has no sample of its own yet."""
    past = made(100, 200, 300)
    assert steps(history(store_of(250, [], past))) == [100, 200]
    assert steps(history(store_of(400, made(200, 400), past))) == [100, 200, 400]
    assert steps(history(store_of(0, [], past))) == [100, 200, 300], "nobody knows where the run stands"


@pytest.mark.parametrize(
    ("step", "every", "samples", "past", "words"),
    [
        (0, 100, [], [], "the first sample comes at step 100"),
        (42, 50, [], [], "the first sample comes at step 50"),
        (1144, 100, [], [1000, 1100], "the next sample comes at step 1,200"),
        (1100, 100, [], [1000, 1100], "the next sample comes at step 1,200"),
        (1200, 100, [], [1000, 1100], "the next sample comes at step 1,200"),  # being made
        (550, 100, [500], [], "the next sample comes at step 600"),
        (4990, 100, [4900], [], "the next sample comes at step 5,000"),
        (5000, 100, [5000], [], "no further sample comes: the run ends at step 5,000"),
        (4950, 700, [], [], "no sample comes: the run ends at step 5,000"),
    ],
)
def test_the_next_sample_is_named(step: int, every: int, samples: list[int], past: list[int], words: str) -> None:
    assert next_sample(store_of(step, made(*samples), made(*past), every=every)) == words
    stopped = next_sample(store_of(step, made(*samples), made(*past), condition=STOPPED, every=every))
    assert stopped == words + (", when the engine runs" if " comes at " in words else "")


def test_after_a_rollback_the_next_sample_is_not_one_that_was_made_before() -> None:
    store = store_of(550, made(500), [])
    store.score.extend([500.0, 600.0, 1000.0], [50.0, 50.0, 50.0])
    assert next_sample(store) == "the next sample comes at step 600"


def test_the_gate_counts_anew_after_a_pivot() -> None:
    assert store_of(300, [], made(200), "sample").gate_low == 2
    assert store_of(300, [], made(200), "sample", "pivot").gate_low == 0
    assert store_of(300, made(300), made(200), "pivot", "sample").gate_low == 2


def test_why_there_is_none() -> None:
    assert none_yet(store_of(0, [], [])) == "none yet"
    assert none_yet(store_of(300, [], made(200), "pivot")) == "none since the pivot at step 250"
    assert none_yet(store_of(300, [], made(200))) == "none since the last pivot"


def test_one_archived_sample_is_enough_to_walk_to() -> None:
    for samples, past, possible in (([], [], False), ([300], [], False), ([], [200], True), ([300], [200], True)):
        store = store_of(300, made(*samples), made(*past))
        assert walkable(store) is possible
        assert (not BY_ID["older"].reason(Situation(store, ""))) is possible
