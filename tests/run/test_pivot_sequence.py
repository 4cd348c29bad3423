"""Carrying a pivot out: when it is due, what it takes from the directory, and what is never overwritten."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from andrea_engine.run.arms import arm_rows
from andrea_engine.run.check import check
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, LockedError, NoCheckpointError, RunError
from andrea_engine.run.events import pinned_steps, read_events
from andrea_engine.run.intent import read_intent, write_intent
from andrea_engine.run.lock import EngineLock
from andrea_engine.run.pivot import ask, cancel
from andrea_engine.run.pivot_sequence import Finished, finish
from andrea_engine.run.policy import Policy, parse_policy
from andrea_engine.run.samples import read_samples
from andrea_engine.run.state import read_state
from tests.run import helpers
from tests.run import pivot_support as support
from tests.run.faults import Death, Faults

POLICY = parse_policy(support.NEW_POLICY, "new.toml")


@pytest.fixture
def stopped(tmp_path: Path) -> RunDirectory:
    return support.build(tmp_path / "run")


def carried_out(directory: RunDirectory) -> Finished:
    finished = finish(directory, by="a test")
    assert finished is not None
    return finished


def test_nothing_is_under_way(stopped: RunDirectory) -> None:
    before = support.contents(stopped)
    assert finish(stopped, by="a test") is None
    support.untouched(stopped, before)


def test_the_engine_left_for_it(stopped: RunDirectory) -> None:
    before = support.contents(stopped)
    support.pending(stopped, arguments=["--steps", "99"])
    finished = carried_out(stopped)
    support.carried_out(stopped, before)
    assert (finished.restart, finished.arguments) == (True, ("--steps", "99"))
    assert finished.archive == stopped.archive / "pivot-0001-step-000040"
    (event,) = [e for e in read_events(stopped.events) if e.kind == "pivot"]
    assert (event.step, event.integer("generation")) == (40, 1)
    assert event.text("archive") == "archive/pivot-0001-step-000040"
    assert 40 in pinned_steps(read_events(stopped.events)), "a pivot point is kept"
    assert finish(stopped, by="a test") is None, "it happens once"
    assert support.pivot_events(stopped) == 1


def test_without_an_engine(stopped: RunDirectory) -> None:
    before = support.contents(stopped)
    ask(stopped, POLICY, "boundary", by="a test")
    assert not carried_out(stopped).restart
    support.carried_out(stopped, before)


def test_the_text_of_run_toml_around_the_policy_stays(stopped: RunDirectory) -> None:
    support.pending(stopped)
    carried_out(stopped)
    text = stopped.config.read_text()
    head, tail = support.CONFIG.partition("[policy.floors]")[0], support.CONFIG.partition("# What is read.")[2]
    assert text.startswith(head)
    assert text.endswith("# What is read." + tail)
    assert "0123456789abcdef" in text, "the policy names the pivot it came with"


def test_the_fresh_files_are_readable_by_everybody(stopped: RunDirectory) -> None:
    support.pending(stopped)
    carried_out(stopped)
    assert read_samples(stopped.samples) == []
    assert arm_rows(read_state(stopped.state)) == []


@pytest.mark.parametrize("name", [".samples.json", ".state.json"])
def test_a_file_that_is_not_there_is_not_archived(stopped: RunDirectory, name: str) -> None:
    (stopped.path / name).unlink()
    support.pending(stopped)
    finished = carried_out(stopped)
    assert name not in finished.receipt.archived
    assert not (finished.archive / name).exists()
    assert (stopped.path / name).exists(), "it begins anew all the same"
    assert check(stopped).ok


def test_a_link_is_moved_and_not_followed(stopped: RunDirectory, tmp_path: Path) -> None:
    decoy = tmp_path / "decoy.json"
    decoy.write_bytes(support.SAMPLES)
    stopped.samples.unlink()
    stopped.samples.symlink_to(decoy)
    support.pending(stopped)
    finished = carried_out(stopped)
    assert (finished.archive / ".samples.json").is_symlink()
    assert not stopped.samples.is_symlink()
    assert decoy.read_bytes() == support.SAMPLES


def test_its_step_is_not_reached(stopped: RunDirectory) -> None:
    before = support.contents(stopped)
    intent = support.pending(stopped, 50, phase="asked", reached=None)
    assert finish(stopped, by="a test") is None
    assert read_intent(stopped) == intent
    assert support.contents(stopped) == before
    assert cancel(stopped, by="a test") == intent


def test_a_boundary_that_passed_unseen(stopped: RunDirectory) -> None:
    """Asked for step 30, stopped at 40 before the engine looked: 40 is a boundary, so it happens there."""
    support.pending(stopped, 30, phase="asked", reached=None)
    finished = carried_out(stopped)
    assert (finished.receipt.step, finished.archive.name) == (40, "pivot-0001-step-000040")


def test_now_adopts_the_step_that_a_stop_saved(stopped: RunDirectory) -> None:
    helpers.put_checkpoint(stopped.path, 43, support.N_PARAMS)
    support.pending(stopped, 41, at="now", phase="asked", reached=None)
    finished = carried_out(stopped)
    assert (finished.receipt.step, finished.restart) == (43, False)


def test_a_damaged_checkpoint_sends_it_back(stopped: RunDirectory) -> None:
    """Step 40 was reached, but its bytes are not those that were saved: training repeats it from step 30."""
    file = stopped.path / "step_000040.bin"
    file.write_bytes(file.read_bytes()[:-1] + b"\x42")
    support.pending(stopped)
    assert finish(stopped, by="a test") is None
    assert read_intent(stopped) is not None
    ask_now = support.pending(stopped, at="now", phase="asked", reached=None)
    assert ask_now.step == 40
    assert carried_out(stopped).receipt.step == 30


def test_no_valid_checkpoint_at_all(stopped: RunDirectory) -> None:
    support.pending(stopped)
    for step in (30, 40):
        (stopped.path / f"step_{step:06d}.bin").write_bytes(b"short")
    with pytest.raises(NoCheckpointError):
        finish(stopped, by="a test")
    assert read_intent(stopped) is not None


def test_deep_looks_at_the_numbers(stopped: RunDirectory) -> None:
    support.pending(stopped, at="now", phase="asked", reached=None)
    finished = finish(stopped, by="a test", deep=lambda path: "is odd" if path.name == "step_000040.bin" else None)
    assert finished is not None
    assert finished.receipt.step == 30


def test_while_an_engine_runs_nothing_happens(stopped: RunDirectory) -> None:
    before = support.contents(stopped)
    support.pending(stopped)
    with helpers.fake_engine(stopped), pytest.raises(LockedError):
        finish(stopped, by="a test")
    assert support.contents(stopped) == before
    carried_out(stopped)
    support.carried_out(stopped, before)


def test_the_lock_is_given_back(stopped: RunDirectory) -> None:
    support.pending(stopped)
    carried_out(stopped)
    EngineLock(stopped).release()


def _others(archive: Path, *names: str) -> dict[str, bytes]:
    archive.mkdir(parents=True)
    files = {name: f"of somebody else: {name}".encode() for name in names}
    for name, data in files.items():
        (archive / name).write_bytes(data)
    return files


@pytest.mark.parametrize("names", [(".samples.json",), (".state.json",), ("policy.toml",)])
@pytest.mark.parametrize("when", ["before", "after sealing"])
def test_an_archive_of_the_same_name_is_never_touched(stopped: RunDirectory, names: tuple[str, ...], when: str) -> None:
    before = support.contents(stopped)
    taken = stopped.archive / "pivot-0001-step-000040"
    support.pending(stopped)
    if when == "after sealing":
        _stop_after_sealing(stopped)
    theirs = _others(taken, *names)
    finished = carried_out(stopped)
    assert finished.archive.name == "pivot-0001-step-000040-2"
    assert {path.name: path.read_bytes() for path in taken.iterdir()} == theirs
    support.carried_out(stopped, before, "pivot-0001-step-000040-2")


def _stop_after_sealing(directory: RunDirectory) -> None:
    for stop_at in range(1, 100):
        try:
            with Faults(stop_at):
                finish(directory, by="a test")
        except Death:
            # A process that only plays dead keeps its lock; a new file is a free one.
            directory.lock.unlink(missing_ok=True)
        intent = read_intent(directory)
        assert intent is not None
        if intent.phase == "applying":
            return


def test_every_pivot_has_its_archive(stopped: RunDirectory) -> None:
    for number in range(1, 4):
        ask(stopped, Policy(c=float(number)), "now", by="a test")
        receipt = carried_out(stopped).receipt
        assert receipt.generation == number
        assert tomllib.loads(stopped.config.read_text())["policy"]["bandit"]["c"] == number
    names = [path.name for path in stopped.archives()]
    assert names == [f"pivot-{number:04d}-step-000040" for number in range(1, 4)]
    assert stopped.policy_generation() == 3
    assert check(stopped).ok
    old = [parse_policy((path / "policy.toml").read_text(), "").c for path in stopped.archives()]
    assert old == [100.0, 1.0, 2.0]


def test_a_run_toml_that_was_broken_meanwhile(stopped: RunDirectory) -> None:
    """Sealed, then edited by hand into nonsense: said, not lost, and finished once it is mended."""
    support.pending(stopped)
    _stop_after_sealing(stopped)
    good = stopped.config.read_text()
    stopped.config.write_text("[policy\n")
    with pytest.raises(ConfigError, match="cannot be given the new policy"):
        finish(stopped, by="a test")
    stopped.config.write_text(good + "\n# mended\n")
    assert carried_out(stopped).receipt.problem is None
    assert stopped.config.read_text().endswith("# mended\n")


def test_a_directory_that_cannot_be_written(stopped: RunDirectory) -> None:
    support.pending(stopped)
    stopped.archive.write_text("a file where the archive should be")
    with pytest.raises(RunError, match=r"is not complete .*nothing is lost"):
        finish(stopped, by="a test")
    stopped.archive.unlink()
    before = support.contents(stopped)
    carried_out(stopped)
    support.carried_out(stopped, before)


def test_uncommitted_entries_stay_for_the_next_start(stopped: RunDirectory) -> None:
    """The engine was killed between checkpoint and commit: the pivot leaves record and journal as they are."""
    entries = [helpers.entry(step) for step in range(1, 41)]
    stopped.loss.write_bytes(helpers.array_text(entries[:30]))
    journal = b"".join(entry.to_line() + b"\n" for entry in entries[30:])
    stopped.journal.write_bytes(journal)
    record = stopped.loss.read_bytes()
    support.pending(stopped)
    receipt = carried_out(stopped).receipt
    assert (stopped.loss.read_bytes(), stopped.journal.read_bytes()) == (record, journal)
    assert receipt.record_before.length == len(record) - len(b"\n]\n")


def test_cancelled_at_the_last_moment(stopped: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between looking at the checkpoint and sealing: sealing finds the intent gone."""
    before = support.contents(stopped)
    intent = support.pending(stopped, phase="asked", reached=None)

    def deep(path: Path) -> None:
        cancel(stopped, by="somebody else")
        write_intent(stopped, intent)
        os.unlink(stopped.pivot_intent)

    assert finish(stopped, by="a test", deep=deep) is None
    support.untouched(stopped, before)


def test_events_of_the_whole_way(stopped: RunDirectory) -> None:
    intent = ask(stopped, POLICY, "now", by="a test")
    carried_out(stopped)
    told = [(e.kind, e.text("id")) for e in read_events(stopped.events) if e.text("id")]
    assert told == [("pivot_asked", intent.id), ("pin", intent.id), ("pivot", intent.id)]
    json.loads(stopped.state.read_bytes())
