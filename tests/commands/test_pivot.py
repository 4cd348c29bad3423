"""`andrea-engine pivot`: what it says, what it refuses, and that looking changes nothing."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import write_heartbeat
from andrea_engine.run.intent import read_intent
from tests.run import helpers
from tests.run import pivot_support as support
from tests.support.inprocess import andrea_engine


@pytest.fixture
def stopped(tmp_path: Path) -> RunDirectory:
    return support.build(tmp_path / "run")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "new.toml"
    path.write_text(support.NEW_POLICY)
    return path


def fingerprint(directory: RunDirectory) -> dict[str, tuple[bytes, int, int]]:
    """Every file with its content, inode and time of change."""
    return {
        str(path.relative_to(directory.path)): (path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns)
        for path in directory.path.rglob("*")
        if path.is_file()
    }


def present(directory: RunDirectory) -> dict[str, object]:
    policy = tomllib.loads(directory.config.read_text())["policy"]
    return {"floors": policy.get("floors", {}), "caps": policy.get("caps", {})}


def test_a_pivot_of_a_stopped_run(stopped: RunDirectory, policy: Path) -> None:
    before = support.contents(stopped)
    result = andrea_engine("pivot", stopped.path, "--policy", policy)
    assert (result.code, result.err) == (0, "")
    support.carried_out(stopped, before)
    for told in (
        "to policy 1 at once, at step 40: the engine is not running",
        "policy 1 from step 41 on",
        "continuity  unchanged",
        f"start it with: andrea-engine train {stopped.path}",
    ):
        assert told in result.out


def test_undo_and_undo_again(stopped: RunDirectory, policy: Path) -> None:
    old = present(stopped)
    assert andrea_engine("pivot", stopped.path, "--policy", policy).code == 0
    new = present(stopped)
    assert new == {"floors": {"irc": 0.9}, "caps": {"chat": 0.25}}
    assert andrea_engine("pivot", stopped.path, "--undo").code == 0
    assert present(stopped) == old | {"caps": {}}
    assert andrea_engine("pivot", stopped.path, "--undo").code == 0
    assert present(stopped) == new
    assert [path.name[:10] for path in stopped.archives()] == ["pivot-0001", "pivot-0002", "pivot-0003"]
    assert andrea_engine("check", stopped.path).code == 0


def test_dry_run_changes_nothing(stopped: RunDirectory, policy: Path) -> None:
    lock = {"arms": {"chat": {"tokens": 10_000}, "irc": {"tokens": 5_000}}, "unavailable": {}}
    stopped.resolved.write_bytes(msgspec.json.encode(lock))
    before = fingerprint(stopped)
    result = andrea_engine("pivot", stopped.path, "--policy", policy, "--dry-run")
    assert result.code == 0
    assert fingerprint(stopped) == before
    assert ".samples.json, .state.json, policy.toml in archive/pivot-0001-step-000040" in result.out
    rows = {line.split()[0]: line for line in result.out.splitlines() if "->" in line}
    assert set(rows) == {"chat", "irc"}
    # irc has a floor of 0.9 (1 in focus), chat a cap of 0.25 (0.15 out of focus): 0.9/1.15 is its least share
    assert rows["irc"].split("->")[1].split()[0] == "78.3%"
    draws = [int(rows[name].split()[-1]) for name in ("chat", "irc")]
    assert sum(draws) == 500
    assert draws[1] > 350


def test_dry_run_of_a_run_that_was_never_started_has_no_mix(stopped: RunDirectory, policy: Path) -> None:
    result = andrea_engine("pivot", stopped.path, "--policy", policy, "--dry-run")
    assert result.code == 0
    assert "mix         unknown: " in result.out


def test_dry_run_of_an_undo(stopped: RunDirectory, policy: Path) -> None:
    assert andrea_engine("pivot", stopped.path, "--policy", policy).code == 0
    before = fingerprint(stopped)
    assert andrea_engine("pivot", stopped.path, "--undo", "--dry-run").code == 0
    assert fingerprint(stopped) == before


def test_an_example_by_its_name(stopped: RunDirectory) -> None:
    result = andrea_engine("pivot", stopped.path, "--policy", "chatbot", "--dry-run")
    assert result.code == 0
    assert "without effect: dictionary, gutenberg" in result.out


def test_notices_come_first(stopped: RunDirectory, tmp_path: Path) -> None:
    path = tmp_path / "same.toml"
    path.write_text("[floors]\nchat = 0.5\n[warmup]\nsteps = 20\nsources = ['chat']\n")
    result = andrea_engine("pivot", stopped.path, "--policy", path)
    assert result.code == 0
    assert "the new policy equals the present one" in result.out.splitlines()[0]


def test_cancelled(stopped: RunDirectory) -> None:
    support.pending(stopped, 50, phase="asked", reached=None)
    before = support.contents(stopped)
    result = andrea_engine("pivot", stopped.path, "--cancel")
    assert (result.code, result.out) == (0, "cancelled the pivot at step 50; the run goes on under its policy\n")
    support.untouched(stopped, before)


def test_seeing_a_pivot_through_that_somebody_left(stopped: RunDirectory) -> None:
    before = support.contents(stopped)
    support.pending(stopped, restart=False)
    result = andrea_engine("pivot", stopped.path)
    assert result.code == 0
    assert "asked       by somebody@somewhere (a test); done by" in result.out
    support.carried_out(stopped, before)


def test_a_step_that_is_not_reached_stays_pending(stopped: RunDirectory) -> None:
    intent = support.pending(stopped, 50, phase="asked", reached=None)
    result = andrea_engine("pivot", stopped.path)
    assert result.code == 1
    assert "the engine ended before step 50, so the pivot stays pending" in result.err
    assert read_intent(stopped) == intent


def test_a_restart_that_fails_is_told(stopped: RunDirectory) -> None:
    """The sources of this run are not there, so its engine ends at once; the pivot is complete all the same."""
    before = support.contents(stopped)
    support.pending(stopped)
    result = andrea_engine("pivot", stopped.path)
    assert result.code == 1
    assert "pivoted, but not running: the engine ended with exit code" in result.err
    support.carried_out(stopped, before)


def _elsewhere(directory: RunDirectory) -> None:
    write_heartbeat(directory.heartbeat, helpers.beat(1, phase="training", host="elsewhere"))


def _without_checkpoints(directory: RunDirectory) -> None:
    for path in directory.path.glob("step_*.bin"):
        path.unlink()


def _nothing(directory: RunDirectory) -> None:
    """As it is."""


@pytest.mark.parametrize(
    ("words", "prepare", "told"),
    [
        (["--policy", "absent.toml"], _nothing, "absent.toml does not exist"),
        (["--policy", "run"], _nothing, "run cannot be read"),
        (["--policy", "invalid.toml"], _nothing, "[floors] irc = 'much' cannot be used"),
        (["--policy", "nothing.toml"], _nothing, "every source of this run has a cap of 0"),
        (["--policy", "new.toml"], support.pending, "a pivot of run at step 40 is under way already"),
        (["--policy", "new.toml", "--dry-run"], support.pending, "is under way already"),
        (["--policy", "new.toml"], _without_checkpoints, "has no checkpoint to pivot at"),
        (["--policy", "new.toml"], _elsewhere, "runs on elsewhere"),
        (["--undo"], _nothing, "has had no pivot"),
        (["--cancel"], _nothing, "no pivot of run is under way"),
        (["--cancel"], support.pending, "has been reached"),
        ([], _nothing, "name the new policy with --policy"),
        (["--policy", "new.toml", "--undo"], _nothing, "not allowed with"),
    ],
)
def test_one_sentence_and_exit_code_2(
    stopped: RunDirectory,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    prepare: Callable[[RunDirectory], object],
    told: str,
) -> None:
    monkeypatch.chdir(stopped.path.parent)
    Path("new.toml").write_text(support.NEW_POLICY)
    Path("invalid.toml").write_text("[floors]\nirc = 'much'\n")
    Path("nothing.toml").write_text("[caps]\nirc = 0\nchat = 0\n")
    prepare(stopped)
    before = fingerprint(stopped)
    result = andrea_engine("pivot", "run", *words)
    assert result.code == 2
    assert told in result.err
    assert "usage:" in result.err or result.err.count("\n") == 1
    assert fingerprint(stopped) == before


def test_no_such_run(tmp_path: Path, policy: Path) -> None:
    result = andrea_engine("pivot", tmp_path / "nowhere", "--policy", policy)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "is not a run directory" in result.err
    assert not (tmp_path / "nowhere").exists()
