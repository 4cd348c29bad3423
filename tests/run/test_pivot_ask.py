"""Asking for a pivot: what is refused and how, when it would happen, and what is written and rung."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, ExitCode, RunError
from andrea_engine.run.events import Event, read_events
from andrea_engine.run.heartbeat import write_heartbeat
from andrea_engine.run.intent import agreed_step, guard, next_boundary, read_intent
from andrea_engine.run.pivot import (
    ask,
    cancel,
    example_policies,
    find_receipt,
    plan,
    policy_text,
    present_generation,
    previous_policy,
    progress,
    propose,
)
from andrea_engine.run.pivot_sequence import finish
from andrea_engine.run.policy import Policy, parse_policy
from tests.run import helpers
from tests.run import pivot_support as support

POLICY = parse_policy(support.NEW_POLICY, "new.toml")
PUBLISHED = {
    "hermes3-general", "hermes3-creative", "hermes3-roleplay", "chat", "smoltalk", "oasst", "gutenberg", "dictionary",
    "repo-docs", "repo-commits", "repo-docstrings", "irc", "unweapon", "synthetic-chat", "unfirehose-chat",
}  # fmt: skip


@pytest.fixture
def stopped(tmp_path: Path) -> RunDirectory:
    return support.build(tmp_path / "run")


@pytest.fixture
def running(stopped: RunDirectory) -> Iterator[RunDirectory]:
    """A stand-in engine at step 7 holds the lock."""
    with helpers.fake_engine(stopped):
        yield stopped


def events(directory: RunDirectory, kind: str) -> list[Event]:
    return [event for event in read_events(directory.events) if event.kind == kind]


def refusal(error: pytest.ExceptionInfo[RunError]) -> str:
    assert error.value.exit_code == ExitCode.USAGE
    assert "\n" not in str(error.value)
    return str(error.value)


# -- the new policy ---------------------------------------------------------------------------------------------------


def test_a_policy_for_this_run(stopped: RunDirectory) -> None:
    proposal = propose(stopped, support.NEW_POLICY, "new.toml")
    assert (proposal.policy, proposal.notices) == (POLICY, ())


def test_unknown_sources_are_named(stopped: RunDirectory) -> None:
    (notice,) = propose(stopped, "[floors]\nchat = 1\nzoo = 1\n[caps]\nattic = 1\n", "new.toml").notices
    assert notice.endswith("without effect: attic, zoo")


def test_the_present_policy_is_allowed_and_noticed(stopped: RunDirectory) -> None:
    present = "[floors]\nchat = 0.5\n[warmup]\nsteps = 20\nsources = ['chat']\n"
    (notice,) = propose(stopped, present, "new.toml").notices
    assert "equals the present one" in notice


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[floors]\nchat = -1\n", "new.toml: [floors] chat = -1 cannot be used"),
        ("[floors]\nchat = 1\n[caps]\nchat = 0.5\n", "is below its floor 1"),
        ("[floors", "not valid TOML"),
        ("[caps]\nchat = 0\nirc = 0\n", "every source of this run has a cap of 0"),
    ],
)
def test_what_no_policy_can_be(stopped: RunDirectory, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        propose(stopped, text, "new.toml")
    assert told in refusal(error)


def test_a_source_without_text_saves_no_policy(stopped: RunDirectory) -> None:
    """Only irc is free, and irc had no text at the last start."""
    lock = {"arms": {"chat": {"tokens": 10}}, "unavailable": {"irc": "the folder is empty"}}
    stopped.resolved.write_bytes(msgspec.json.encode(lock))
    with pytest.raises(ConfigError, match="every source of this run has a cap of 0"):
        propose(stopped, "[caps]\nchat = 0\n", "new.toml")


def test_policy_files(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("[floors]\n")
    assert policy_text(str(tmp_path / "p.toml")) == "[floors]\n"
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    for name, told in (("absent.toml", "does not exist"), ("bytes.toml", "cannot be read"), ("", "cannot be read")):
        with pytest.raises(ConfigError, match=told):
            policy_text(str(tmp_path / name))


def test_the_examples_name_published_sources_only() -> None:
    assert list(example_policies()) == ["bash-commander", "chatbot", "tool-caller"]
    for name in example_policies():
        policy = parse_policy(policy_text(name), name)
        assert policy.floors
        assert policy.caps
        assert policy.sources() <= PUBLISHED
    floors = parse_policy(policy_text("chatbot"), "chatbot").floors
    published = {"hermes3-general": 0.8, "chat": 0.8, "dictionary": 0.7, "gutenberg": 0.7, "synthetic-chat": 0.0}
    assert published.items() <= floors.items()


# -- when -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "every", "target", "boundary"),
    [(0, 10, 100, 10), (9, 10, 100, 10), (10, 10, 100, 20), (95, 10, 97, 97), (97, 10, 97, 100), (3, 100, 50, 50)],
)
def test_the_next_boundary_is_after_the_step(step: int, every: int, target: int, boundary: int) -> None:
    assert next_boundary(step, every, target) == boundary


@pytest.mark.parametrize(("here", "agreed"), [(3, 20), (20, 20), (21, 30), (30, 30), (31, 40), (47, 50), (58, 58)])
def test_the_step_that_is_agreed(stopped: RunDirectory, here: int, agreed: int) -> None:
    intent = support.pending(stopped, 20)
    assert agreed_step(intent, here, 10, 58) == agreed
    now = msgspec.structs.replace(intent, at="now")
    assert agreed_step(now, here, 10, 58) == here


def test_without_an_engine_it_happens_at_the_newest_checkpoint(stopped: RunDirectory) -> None:
    planned = plan(stopped, "boundary")
    assert (planned.running, planned.here, planned.step, planned.seconds) == (False, 40, 40, 0.0)
    assert planned.archive == "archive/pivot-0001-step-000040"
    assert planned.archived == (".samples.json", ".state.json")
    assert (planned.generation, planned.arguments, planned.notices) == (1, (), ())


def test_with_an_engine_it_happens_at_a_boundary_or_after_the_step(running: RunDirectory) -> None:
    planned = plan(running, "boundary")
    assert (planned.running, planned.here, planned.step, planned.seconds) == (True, 7, 10, None)
    assert plan(running, "now").step == 8


def test_the_time_to_it_and_the_end_before_it(running: RunDirectory) -> None:
    pid = int(helpers.strict(running.heartbeat.read_bytes())["pid"])  # type: ignore[index]
    write_heartbeat(running.heartbeat, helpers.beat(pid, step=21, step_seconds=4.0, target_step=2000))
    planned = plan(running, "boundary")
    assert (planned.step, planned.seconds, planned.arguments) == (30, 36.0, ("--steps", "2000"))
    write_heartbeat(running.heartbeat, helpers.beat(pid, step=21, target_step=25))
    assert plan(running, "boundary").step == 25


def test_the_archive_gets_a_name_of_its_own(stopped: RunDirectory) -> None:
    (stopped.archive / "pivot-0001-step-000040").mkdir(parents=True)
    (stopped.archive / "pivot-0001-step-000040-2").touch()
    assert plan(stopped, "now").archive == "archive/pivot-0001-step-000040-3"


def test_a_fork_goes_on_counting_policies(stopped: RunDirectory) -> None:
    """Its record knows of a pivot whose archive stayed with the run it came from."""
    entry = msgspec.structs.replace(helpers.entry(41), policy=2)
    stopped.loss.write_bytes(helpers.array_text([helpers.entry(40), entry]))
    assert present_generation(stopped) == 2
    assert plan(stopped, "now").generation == 3


def test_a_halted_run_is_said_to_be_one(stopped: RunDirectory) -> None:
    write_heartbeat(stopped.heartbeat, helpers.beat(1, phase="halted"))
    (notice,) = plan(stopped, "now").notices
    assert "halted" in notice


def test_where_no_pivot_can_be(tmp_path: Path, stopped: RunDirectory) -> None:
    with pytest.raises(ConfigError) as error:
        plan(RunDirectory(tmp_path / "nowhere"), "now")
    assert "is not a run directory" in refusal(error)
    write_heartbeat(stopped.heartbeat, helpers.beat(1, phase="training", host="elsewhere"))
    with pytest.raises(ConfigError) as error:
        plan(stopped, "now")
    assert "runs on elsewhere" in refusal(error)
    write_heartbeat(stopped.heartbeat, helpers.beat(1, phase="stopped", host="elsewhere"))
    assert plan(stopped, "now").step == 40, "it has ended there, and the directory is here now"
    for step in (30, 40):
        (stopped.path / f"step_{step:06d}.bin").unlink()
    with pytest.raises(ConfigError) as error:
        plan(stopped, "now")
    assert "no checkpoint" in refusal(error)


# -- asking and taking back -------------------------------------------------------------------------------------------


def test_asking_writes_the_intent_and_rings(running: RunDirectory) -> None:
    intent = ask(running, POLICY, "boundary", by="a test")
    assert read_intent(running) == intent
    assert (intent.step, intent.phase, intent.restart, intent.generation) == (10, "asked", True, 1)
    assert parse_policy(intent.policy, "") == POLICY
    seen = running.path / "seen"
    helpers.wait_for(lambda: seen.exists() and seen.read_bytes() == b"save\n", "the bell")
    (event,) = events(running, "pivot_asked")
    assert (event.step, event.text("id"), event.text("when")) == (10, intent.id, "boundary")
    assert "(a test)" in event.text("by")
    now = progress(running, intent)
    assert (now.stage, now.step, now.here) == ("waiting", 10, 7)


def test_a_second_one_is_refused(running: RunDirectory) -> None:
    first = ask(running, POLICY, "boundary", by="a test")
    with pytest.raises(ConfigError) as error:
        ask(running, Policy(), "now", by="another test")
    assert "at step 10 is under way already" in refusal(error)
    assert read_intent(running) == first


def test_of_many_at_once_one_is_first(stopped: RunDirectory) -> None:
    told: list[object] = []

    def one(number: int) -> None:
        try:
            told.append(ask(stopped, Policy(c=float(number)), "now", by="a test"))
        except RunError as error:
            told.append(str(error))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (intent,) = [word for word in told if not isinstance(word, str)]
    assert read_intent(stopped) == intent
    assert len(events(stopped, "pivot_asked")) == 1


def test_without_an_engine_there_is_nothing_to_restart(stopped: RunDirectory) -> None:
    intent = ask(stopped, POLICY, "boundary", by="a test")
    assert (intent.at, intent.step, intent.restart) == ("now", 40, False)


def test_cancelled(running: RunDirectory) -> None:
    before = support.contents(running)
    intent = ask(running, POLICY, "boundary", by="a test")
    assert cancel(running, by="a test") == intent
    support.untouched(running, before)
    (event,) = events(running, "pivot_cancelled")
    assert (event.step, event.text("id")) == (10, intent.id)
    assert progress(running, intent).stage == "cancelled"
    with pytest.raises(ConfigError) as error:
        cancel(running, by="a test")
    assert "no pivot" in refusal(error)


def test_what_is_reached_cannot_be_cancelled(stopped: RunDirectory) -> None:
    intent = support.pending(stopped)
    with pytest.raises(ConfigError) as error:
        cancel(stopped, by="a test")
    assert "has been reached" in refusal(error)
    assert read_intent(stopped) == intent


def test_who_holds_the_guard_is_waited_for(stopped: RunDirectory) -> None:
    with guard(stopped), pytest.raises(RunError, match="another process is changing the pivot"), guard(stopped, 0.05):
        pass
    with guard(stopped, 0.0):
        pass


def test_a_directory_that_cannot_be_written(stopped: RunDirectory) -> None:
    stopped.pivot_intent.with_name("pivot.json").mkdir()
    with pytest.raises(ConfigError, match=r"pivot\.json cannot be read"):
        ask(stopped, POLICY, "now", by="a test")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("archive", "archive/../../elsewhere"),
        ("archive", "archive/pivot-0001-step-000040/.."),
        ("archive", "/tmp/pivot-0001-step-000040"),
        ("phase", "applying"),
        ("phase", "unheard-of"),
        ("step", -1),
        ("policy", None),
    ],
)
def test_a_damaged_intent_is_refused(stopped: RunDirectory, key: str, value: object) -> None:
    support.pending(stopped)
    facts = helpers.strict(stopped.pivot_intent.read_bytes())
    assert isinstance(facts, dict)
    stopped.pivot_intent.write_bytes(msgspec.json.encode({**facts, key: value}))
    before = support.contents(stopped)
    for act in (lambda: read_intent(stopped), lambda: finish(stopped, by="a test"), lambda: cancel(stopped, by="x")):
        with pytest.raises(ConfigError) as error:
            act()
        assert str(stopped.pivot_intent) in refusal(error)
    assert support.contents(stopped) == before


# -- how far it is ----------------------------------------------------------------------------------------------------


def test_progress_from_the_engines_end_to_the_receipt(stopped: RunDirectory) -> None:
    intent = support.pending(stopped)
    assert progress(stopped, intent).stage == "ready"
    with helpers.fake_engine(stopped):
        assert progress(stopped, intent).stage == "leaving"
    finished = finish(stopped, by="a test")
    assert finished is not None
    done = progress(stopped, intent)
    assert (done.stage, done.receipt) == ("done", finished.receipt)
    assert find_receipt(stopped, intent.id) == finished.receipt
    assert find_receipt(stopped, "of another") is None


def test_the_policy_before_the_last_pivot(stopped: RunDirectory) -> None:
    with pytest.raises(ConfigError) as error:
        previous_policy(stopped)
    assert "no pivot" in refusal(error)
    support.pending(stopped)
    finish(stopped, by="a test")
    text, where = previous_policy(stopped)
    assert parse_policy(text, where).floors == {"chat": 0.5}
    assert where.endswith("archive/pivot-0001-step-000040/policy.toml")


def test_asking_is_free_of_the_engine() -> None:
    code = "import sys, andrea_engine.run.pivot_sequence, andrea_engine.curriculum.preview; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=helpers.ROOT)
    assert {"torch", "numpy", "textual"}.isdisjoint(done.stdout.split())
