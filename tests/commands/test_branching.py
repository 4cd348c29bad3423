"""Roll back and fork: nothing is lost, and what goes on equals a run that was never elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from andrea_engine.run.condition import condition
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.loss_entry import current_branch
from andrea_engine.run.samples import read_samples
from andrea_engine.run.summary import summarise
from andrea_tui.cli import farewell
from andrea_tui.feed.runs import RunsReader
from andrea_tui.feed.store import Store
from andrea_tui.feed.tailer import DirectoryReader
from andrea_tui.leaving import ExitState
from tests.support.inprocess import andrea_engine
from tests.support.records import checkpoint, checkpoints, entries, events, sample_steps, steps
from tests.support.tiny import make_run


@pytest.fixture
def trained(tmp_path: Path) -> RunDirectory:
    directory = make_run(tmp_path / "run")
    assert andrea_engine("train", directory.path, "--steps", 30).code == 0
    return directory


def test_rollback_archives_what_is_newer_and_training_repeats_it(trained: RunDirectory) -> None:
    newest, record = checkpoint(trained, 30).read_bytes(), trained.loss.read_bytes()
    texts = [sample.text for sample in read_samples(trained.samples)]

    result = andrea_engine("rollback", trained.path, "--to", 10)
    assert result.code == 0
    assert "stands at step 10 again; it had reached step 30" in result.out
    assert checkpoints(trained) == [10]
    assert sample_steps(trained) == [10]
    archive = trained.archive / "rollback-0001-from-30-to-10"
    assert sorted(path.name for path in archive.iterdir()) == [
        ".samples.json",
        ".state.json",
        "step_000020.bin",
        "step_000030.bin",
    ]
    assert trained.loss.read_bytes() == record
    assert condition(trained).word == "stopped"

    assert andrea_engine("train", trained.path, "--steps", 30).code == 0
    assert checkpoint(trained, 30).read_bytes() == newest  # same seed, same data: the same run again
    assert [sample.text for sample in read_samples(trained.samples)] == texts
    assert trained.loss.read_bytes()[: len(record) - 3] == record[:-3]  # all but the closing bracket
    assert steps(trained) == [*range(1, 31), *range(11, 31)]
    assert [entry.step for entry in current_branch(entries(trained))] == list(range(1, 31))
    assert andrea_engine("check", trained.path, "--deep").code == 0


class Readers:
    """All that tell where a run stands: a console that was open before, one that is opened now, the list, the facts."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._reader, self._open = DirectoryReader(directory), Store()

    def _look(self, reader: DirectoryReader, store: Store) -> Store:
        store.apply(reader.poll())
        while not store.complete:
            store.apply(reader.poll())
        return store

    def steps(self) -> dict[str, int]:
        summary = summarise(self._directory)
        (row,) = RunsReader(self._directory.path.parent).poll().rows
        before = self._look(self._reader, self._open)
        now = self._look(DirectoryReader(self._directory), Store())
        return {
            "facts": summary.step,
            "entries": summary.entries,
            "last save": summary.last_save.step if summary.last_save else 0,
            "list": row.step,
            "open": before.step,
            "opened": now.step,
            "open, entries": len(before.record),
            "opened, entries": len(now.record),
            "open, saved": before.saves.durable_step or 0,
            "opened, saved": now.saves.durable_step or 0,
            "open, score": int(before.score.x_max or 0),
            "opened, score": int(now.score.x_max or 0),
        }

    @property
    def abandoned(self) -> list[int]:
        return [len(series) for series in self._open.abandoned]


def test_every_reader_says_where_the_run_stands(trained: RunDirectory) -> None:
    readers = Readers(trained)
    assert set(readers.steps().values()) == {30}
    assert andrea_engine("rollback", trained.path, "--to", 20).code == 0
    assert set(readers.steps().values()) == {20}
    assert readers.abandoned == [10]
    line = farewell(trained, ExitState("left"))
    assert "rolled back to step 20" in line
    assert "last checkpoint step 20 (step_000020.bin)" in line
    assert "30" not in line
    result = andrea_engine("train", trained.path, "--steps", 30)
    assert result.code == 0
    assert "steps 21 to 30 were after the checkpoint of step 20 and are trained again" in result.out + result.err
    assert set(readers.steps().values()) == {30}
    assert readers.abandoned == [10]


def test_a_second_rollback_gets_its_own_archive(trained: RunDirectory) -> None:
    assert andrea_engine("rollback", trained.path, "--to", 20).code == 0
    assert andrea_engine("rollback", trained.path, "--to", 10).code == 0
    names = sorted(path.name for path in trained.archive.iterdir())
    assert names == ["rollback-0001-from-30-to-20", "rollback-0002-from-30-to-10"]
    assert [e.step for e in events(trained, "rollback")] == [20, 10]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--to", 15), 5, "no valid checkpoint of step 15; valid ones: 30, 20, 10"),
        (("--to", -1), 5, "no valid checkpoint of step -1"),
    ],
)
def test_rollback_refuses_what_it_cannot_do(
    trained: RunDirectory, arguments: tuple[object, ...], code: int, words: str
) -> None:
    before = sorted(path.name for path in trained.path.iterdir())
    result = andrea_engine("rollback", trained.path, *arguments)
    assert (result.code, words in result.err) == (code, True), result.err
    assert sorted(path.name for path in trained.path.iterdir() if path.name != "engine.lock") == [
        name for name in before if name != "engine.lock"
    ]


def test_fork_goes_on_like_the_run_it_came_from(trained: RunDirectory, tmp_path: Path) -> None:
    new = RunDirectory(tmp_path / "fork")
    result = andrea_engine("fork", trained.path, new.path, "--at", 20)
    assert result.code == 0, result.err
    assert steps(new) == list(range(1, 21))
    assert sample_steps(new) == [10, 20]
    assert andrea_engine("train", new.path, "--steps", 30).code == 0
    assert not [e for e in events(new, "notice") if "unverified" in e.text("text")]
    assert checkpoint(new, 30).read_bytes() == checkpoint(trained, 30).read_bytes()
    assert all(a.same_training(b) for a, b in zip(entries(new), entries(trained), strict=True))
    assert andrea_engine("check", new.path).code == 0


def test_a_fork_that_was_not_started_says_what_it_is(trained: RunDirectory, tmp_path: Path) -> None:
    new = RunDirectory(tmp_path / "forks" / "one")
    assert andrea_engine("fork", trained.path, new.path, "--at", 20).code == 0
    found = condition(new)
    assert (found.word, found.alive) == ("stopped", False)
    assert found.sentence == "not started yet; it goes on from the checkpoint of step 20"
    (row,) = RunsReader(tmp_path / "forks").poll().rows
    assert (row.word, row.step) == ("stopped", 20)


def test_fork_refuses_an_existing_directory_and_an_unknown_step(trained: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    assert andrea_engine("fork", trained.path, tmp_path / "there", "--at", 20).code == 2
    result = andrea_engine("fork", trained.path, tmp_path / "new", "--at", 21)
    assert (result.code, (tmp_path / "new").exists()) == (5, False)


def test_fork_under_another_policy(trained: RunDirectory, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("[caps]\nharbour = 0\n")
    new = RunDirectory(tmp_path / "fork")
    result = andrea_engine("fork", trained.path, new.path, "--at", 20, "--policy", policy)
    assert (result.code, "policy 1 from step 21 on" in result.out) == (0, True), result.err
    assert andrea_engine("train", new.path, "--steps", 30).code == 0
    after = [entry for entry in entries(new) if entry.step > 20]
    assert {(entry.policy, entry.source) for entry in after} == {(1, "garden")}
    assert andrea_engine("check", new.path, "--deep").code == 0


def test_fork_refuses_a_bad_policy_before_it_makes_anything(trained: RunDirectory, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("[floors]\nharbour = 2\n[caps]\nharbour = 1\n")
    result = andrea_engine("fork", trained.path, tmp_path / "fork", "--at", 20, "--policy", policy)
    assert (result.code, (tmp_path / "fork").exists()) == (2, False)
