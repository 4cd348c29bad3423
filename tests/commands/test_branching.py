"""Roll back and fork: nothing is lost, and what goes on equals a run that was never elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from andrea_engine.run.condition import condition
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.loss_entry import current_branch
from andrea_engine.run.samples import read_samples
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
