"""A pivot of a real engine: it trains to exactly the agreed step, leaves, and nothing is lost on the way."""

from __future__ import annotations

import hashlib
import shutil
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from andrea_engine.run.check import check
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError, SaveError
from andrea_engine.run.heartbeat import read_heartbeat
from andrea_engine.run.intent import PivotIntent, read_intent, write_intent
from andrea_engine.run.launch import request
from andrea_engine.run.lock import is_locked
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.pivot import cancel, progress
from andrea_engine.run.pivot_sequence import finish, finish_locked
from andrea_engine.run.policy import Policy, dump_policy
from andrea_engine.run.receipt import Receipt, read_receipt
from andrea_engine.train import checkpointing
from tests.run.faults import Death, Faults
from tests.support import records
from tests.support.engines import PATIENCE, Engines
from tests.support.inprocess import Bell, andrea_engine
from tests.support.tiny import EVERY, RARELY, configure, make_run

POLICY = Policy(floors={"garden": 0.9}, caps={"harbour": 0.2})


class Script(Bell):
    """Does things while an engine in this process trains: each as soon as its step is recorded, after that step.

    So it acts between two steps, and what is rung is noticed at the end of the next one.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._readers = (LossReader(run.loss), LossReader(run.journal))
        self._step = 0
        self._acts: list[tuple[int, Callable[[], object]]] = []
        super().__init__(self._play)

    def at(self, step: int, act: Callable[[], object]) -> None:
        self._acts.append((step, act))

    def ring(self, intent: object = None) -> None:
        self.save_asked = time.time()

    def stop(self) -> None:
        self.stop_asked = time.time()

    def _play(self) -> bool:
        for reader in self._readers:
            for entry in reader.read():
                self._step = max(self._step, entry.step)
        while self._acts and self._step >= self._acts[0][0]:
            self._acts.pop(0)[1]()
        return False


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "new.toml"
    path.write_text(dump_policy(POLICY))
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RunDirectory]:
    """A run whose last engine may have been started by a command: it is ended with the test."""
    run = make_run(tmp_path / "run")
    yield run
    end(run)


def end(run: RunDirectory) -> None:
    """Stop whatever engine runs, and wait until it has given the lock back."""
    if is_locked(run):
        wait(lambda: asked_to_stop(run), "an engine that can be asked to stop")
        wait(lambda: not is_locked(run), "the end of the engine")


def asked_to_stop(run: RunDirectory) -> bool:
    try:
        request(run, "stop")
    except RunError:  # it has not reported yet, or it is gone
        return not is_locked(run)
    return True


def wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


def pend(run: RunDirectory, step: int, at: str = "boundary", **fields: object) -> PivotIntent:
    """An intent that nobody rings for."""
    values: dict[str, object] = {
        "id": "0123456789abcdef",
        "generation": 1,
        "at": at,
        "step": step,
        "archive": f"archive/pivot-0001-step-{step:06d}",
        "policy": dump_policy(POLICY),
        "asked": 1000.0,
        "asked_by": "a test",
    }
    intent = PivotIntent(**(values | fields))  # type: ignore[arg-type]
    write_intent(run, intent)
    return intent


def receipt_of(run: RunDirectory) -> Receipt:
    (archive,) = run.archives()
    return read_receipt(archive / "receipt.json")


def generations(run: RunDirectory) -> list[int | None]:
    return [entry.policy for entry in records.entries(run)]


def regions(path: Path) -> list[str]:
    body = path.read_bytes()[8:]
    size = len(body) // 3
    return [hashlib.sha256(body[at : at + size]).hexdigest() for at in range(0, 3 * size, size)]


def assert_pivoted(run: RunDirectory, step: int) -> Receipt:
    """What must hold after a pivot at `step`, with or without steps after it."""
    receipt = receipt_of(run)
    assert (receipt.step, receipt.first_step, receipt.problem) == (step, step + 1, None)
    assert receipt.checkpoint_before.file == records.checkpoint(run, step).name
    digests = receipt.checkpoint_after
    assert digests is not None
    assert [digests.weights, digests.m, digests.v] == regions(records.checkpoint(run, step))
    prefix = run.loss.read_bytes()[: receipt.record_before.length]
    assert hashlib.sha256(prefix).hexdigest() == receipt.record_before.sha256
    assert prefix.count(b"\n") == step, "the record was complete up to the pivot"
    recorded = records.steps(run)
    assert recorded == list(range(1, recorded[-1] + 1)), "no gap and no duplicate"
    assert generations(run) == [0] * step + [1] * (len(recorded) - step)
    assert tomllib.loads(run.config.read_text())["policy"]["floors"] == {"garden": 0.9}
    report = check(run, checkpointing.content_problem)
    assert report.ok, [finding for finding in report.findings if finding.severity == "problem"]
    return receipt


# -- the whole way, with the command ----------------------------------------------------------------------------------


def test_at_a_boundary_of_a_running_engine(
    directory: RunDirectory, engines: Engines, policy: Path, tmp_path: Path
) -> None:
    engine = engines.start(directory, "--steps", "100000")
    engine.wait_step(12)
    result = andrea_engine("pivot", directory.path, "--policy", policy)
    assert (result.code, result.err) == (0, ""), result.err
    assert engine.wait() == 7

    step = receipt_of(directory).step
    durable = [event for event in engine.events("save_durable") if event.step == step][-1]
    assert (durable.text("reason"), durable.facts["pinned"]) == ("pivot", True)
    assert engine.events("save_asked") == [], "the bell is not a request for a save"
    (stop,) = engine.events("stop")
    assert (stop.text("phase"), stop.step, stop.integer("exit_code")) == ("pivot", step, 7)
    (seen,) = engine.events("pivot_seen")
    assert (seen.integer("agreed"), step % EVERY) == (step, 0)
    assert len(records.events(directory, "pivot", step=step)) == 1

    beat = read_heartbeat(directory.heartbeat)
    assert beat is not None
    assert beat.pid != engine.pid, "the engine was started again"
    assert beat.target_step == 100_000, "with the same options"
    assert f"the engine goes on with step {step + 1}" in result.out
    wait(lambda: max(records.steps(directory)) >= step + 2 * EVERY, "steps under the new policy")
    end(directory)

    receipt = assert_pivoted(directory, step)
    archive = directory.archive / f"pivot-0001-step-{step:06d}"
    archived = RunDirectory(archive)
    assert records.sample_steps(archived) == list(range(EVERY, step + 1, EVERY))
    state = records.strict_json(archived.state)
    assert isinstance(state, dict)
    assert (state["step"], sum(arm["pulls"] for arm in state["arms"].values())) == (step, step)
    last = max(records.steps(directory))
    made = records.sample_steps(directory)
    assert made == [s for s in range(step + EVERY, last + 1, EVERY) if s <= made[-1]], "samples began anew"
    state = records.strict_json(directory.state)
    assert isinstance(state, dict)
    assert sum(arm["pulls"] for arm in state["arms"].values()) == last - step, "the bandit began anew"
    share = [entry.source for entry in records.entries(directory)][step:].count("garden") / (last - step)
    assert share > 0.6, "0.9 against 0.2 at the most"
    assert receipt.asked_by.endswith("(andrea-engine pivot)")
    _assert_equal_to_a_stopped_pivot(directory, step, last, policy, tmp_path)


def _assert_equal_to_a_stopped_pivot(
    directory: RunDirectory, step: int, last: int, policy: Path, tmp_path: Path
) -> None:
    """The same run, but stopped, pivoted while no engine runs, and resumed: equal bit for bit."""
    other = make_run(tmp_path / "other")
    assert andrea_engine("train", other.path, "--steps", step).code == 0
    assert andrea_engine("pivot", other.path, "--policy", policy).code == 0
    assert andrea_engine("train", other.path, "--steps", last).code == 0
    assert_pivoted(other, step)
    first, second = records.entries(directory), records.entries(other)
    assert [a.step for a, b in zip(first, second, strict=True) if not a.same_training(b)] == []
    assert records.checkpoint(directory, last).read_bytes() == records.checkpoint(other, last).read_bytes()


def test_now_and_without_a_restart(engines: Engines, policy: Path, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", RARELY)
    engine = engines.start(directory)
    engine.wait_step(3)
    result = andrea_engine("pivot", directory.path, "--policy", policy, "--at", "now", "--no-restart")
    assert result.code == 0, result.err
    assert engine.wait() == 7
    assert not is_locked(directory)
    assert "the engine is not running" in result.out
    (step,) = records.checkpoints(directory)
    assert_pivoted(directory, step)
    assert directory.archives()[0].name == f"pivot-0001-step-{step:06d}", "the step that was agreed in the end"


# -- who rings, and when ----------------------------------------------------------------------------------------------


def test_the_operator_saves_cancels_and_asks_again(run_copy: RunDirectory) -> None:
    """Only the first bell of an intent is no request for a save; a cancelled intent is none."""
    script = Script(run_copy)
    script.at(41, lambda: script.ring(pend(run_copy, 90, id="1" * 16)))
    script.at(43, script.ring)
    script.at(45, lambda: cancel(run_copy, by="a test"))
    script.at(47, script.ring)
    script.at(49, lambda: script.ring(pend(run_copy, 50, at="now", id="2" * 16)))
    assert andrea_engine("train", run_copy.path, bell=script).code == 7
    seen = records.events(run_copy, "pivot_seen")
    assert [(e.text("id")[:1], e.step, e.integer("agreed")) for e in seen] == [("1", 42, 90), ("2", 50, 50)]
    saves = [e.step for e in records.events(run_copy, "save_durable", reason="operator")]
    assert saves == [44, 48]
    finished = finish(run_copy, by="a test")
    assert finished is not None
    assert_pivoted(run_copy, 50)


def test_a_bell_that_came_after_the_intent_was_noticed(run_copy: RunDirectory) -> None:
    """Written just before a boundary, where the engine looks by itself, and rung just after it."""
    script = Script(run_copy)
    script.at(49, lambda: pend(run_copy, 70, asked=time.time()))
    script.at(50, script.ring)
    script.at(52, script.ring)
    assert andrea_engine("train", run_copy.path, bell=script).code == 7
    saves = [e.step for e in records.events(run_copy, "save_durable", reason="operator")]
    assert saves == [53], "the first was the bell, the second is the operator"


@pytest.mark.parametrize("step", [42, 47, 50])
def test_a_bell_that_nobody_rang(run_copy: RunDirectory, step: int) -> None:
    """The asker died between writing and ringing, and the step it named may have passed."""
    script = Script(run_copy)
    script.at(47, lambda: pend(run_copy, step))
    assert andrea_engine("train", run_copy.path, bell=script).code == 7
    intent = read_intent(run_copy)
    assert intent is not None
    assert (intent.step, intent.phase, intent.archive) == (50, "reached", "archive/pivot-0001-step-000050")
    assert finish(run_copy, by="a test") is not None
    assert_pivoted(run_copy, 50)


@pytest.mark.parametrize("moment", [45, 49])
def test_cancelled_before_the_step(run_copy: RunDirectory, moment: int) -> None:
    before = run_copy.config.read_bytes()
    pend(run_copy, 50)
    script = Script(run_copy)
    script.at(moment, lambda: cancel(run_copy, by="a test"))
    assert andrea_engine("train", run_copy.path, "--steps", 55, bell=script).code == 0
    assert generations(run_copy) == [0] * 55
    (durable,) = records.events(run_copy, "save_durable", step=50)
    assert durable.text("reason") == "cadence"
    assert (run_copy.config.read_bytes(), run_copy.archives()) == (before, [])


def test_the_screen_is_told_what_is_ahead(run_copy: RunDirectory) -> None:
    notes = []
    script = Script(run_copy)
    intent = pend(run_copy, 50)

    def look() -> None:
        beat = read_heartbeat(run_copy.heartbeat)
        assert beat is not None
        notes.append((beat.phase, beat.note, progress(run_copy, intent).stage))

    script.at(41, look)
    assert andrea_engine("train", run_copy.path, bell=script).code == 7
    assert notes == [("training", "pivot to policy 1 at step 50", "waiting")]
    assert progress(run_copy, intent).stage == "ready"


def test_a_stop_before_the_boundary_wins_and_the_pivot_stays_pending(run_copy: RunDirectory, policy: Path) -> None:
    intent = pend(run_copy, 60)
    script = Script(run_copy)
    script.at(44, script.stop)
    assert andrea_engine("train", run_copy.path, bell=script).code == 0
    assert read_intent(run_copy) == intent
    told = andrea_engine("pivot", run_copy.path)
    assert told.code == 1
    assert "the engine ended before step 60, so the pivot stays pending" in told.err
    assert andrea_engine("pivot", run_copy.path, "--policy", policy).code == 2
    assert andrea_engine("train", run_copy.path).code == 7
    assert andrea_engine("train", run_copy.path, "--steps", 61).code == 0
    assert_pivoted(run_copy, 60)


def test_a_stop_at_the_very_step_wins_and_the_pivot_can_be_carried_out(run_copy: RunDirectory) -> None:
    pend(run_copy, 50, restart=True)
    script = Script(run_copy)
    script.at(50, script.stop)
    assert andrea_engine("train", run_copy.path, bell=script).code == 0
    finished = finish(run_copy, by="a test")
    assert finished is not None
    assert not finished.restart, "it was stopped, and not for the pivot"
    assert_pivoted(run_copy, 50)


def test_asked_for_now_it_adopts_the_step_of_the_stop(run_copy: RunDirectory) -> None:
    pend(run_copy, 99, at="now")
    told = andrea_engine("pivot", run_copy.path)
    assert told.code == 0
    assert_pivoted(run_copy, 40)


# -- starts that find an intent ---------------------------------------------------------------------------------------


def test_a_start_goes_on_towards_the_step_and_the_next_one_completes_it(run_copy: RunDirectory) -> None:
    pend(run_copy, 50)
    assert andrea_engine("train", run_copy.path, "--steps", 60).code == 7
    assert records.checkpoints(run_copy) == [10, 20, 30, 40, 50]
    assert records.sample_steps(run_copy) == [10, 20, 30, 40, 50], "the checkpoint of the pivot has its sample too"
    assert andrea_engine("train", run_copy.path, "--steps", 60).code == 0
    assert "completed the pivot at step 50: policy 1 from step 51 on" in records.notices(run_copy)
    assert_pivoted(run_copy, 50)
    assert records.sample_steps(run_copy) == [60]
    assert generations(run_copy) == [0] * 50 + [1] * 10


def test_a_start_completes_a_pivot_whose_step_is_saved(run_copy: RunDirectory) -> None:
    """The engine was killed after the checkpoint, before it could say that it leaves."""
    pend(run_copy, 40)
    assert andrea_engine("train", run_copy.path, "--steps", 45).code == 0
    assert_pivoted(run_copy, 40)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.7, 0.9, 0.97])
def test_a_start_completes_a_pivot_that_was_interrupted(run_copy: RunDirectory, part: float) -> None:
    pend(run_copy, 40)
    rehearsal = RunDirectory(run_copy.path.with_name("rehearsal"))
    shutil.copytree(run_copy.path, rehearsal.path)
    with Faults() as faults:
        finish_locked(rehearsal, by="a test")
    with pytest.raises(Death), Faults(int(part * faults.count)):
        finish_locked(run_copy, by="a test")
    record = run_copy.loss.read_bytes()
    assert andrea_engine("train", run_copy.path, "--steps", 45).code == 0
    receipt = assert_pivoted(run_copy, 40)
    assert run_copy.loss.read_bytes()[: receipt.record_before.length] == record[: receipt.record_before.length]
    assert len(records.events(run_copy, "pivot")) == 1
    assert list(run_copy.path.rglob(".*.tmp")) == []


def test_a_halt_at_the_very_step_is_a_halt_and_the_pivot_is_the_way_out(run_copy: RunDirectory) -> None:
    """The fifth low sample in a row is that of the step: the gate stops the run, no command starts it by itself."""
    configure(run_copy, {"gate": {"halt": True, "threshold": 100.0, "consecutive": 5}})
    pend(run_copy, 50, restart=True)
    assert andrea_engine("train", run_copy.path).code == 6
    told = andrea_engine("pivot", run_copy.path)
    assert told.code == 0
    assert "the engine is not running" in told.out
    assert_pivoted(run_copy, 50)
    assert andrea_engine("train", run_copy.path, "--steps", 65).code == 0, "the samples that counted are archived"


def test_the_target_comes_first(run_copy: RunDirectory) -> None:
    """A pivot beyond the target stays pending; at the target it happens, and there is nothing left to train."""
    pend(run_copy, 60)
    assert andrea_engine("train", run_copy.path, "--steps", 55).code == 0
    assert andrea_engine("train", run_copy.path, "--steps", 60).code == 7
    assert andrea_engine("train", run_copy.path, "--steps", 60).code == 0
    assert_pivoted(run_copy, 60)


def test_an_intent_that_cannot_be_read_stops_the_start(run_copy: RunDirectory) -> None:
    run_copy.pivot_intent.write_text("{")
    result = andrea_engine("train", run_copy.path, "--steps", 45)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "pivot.json cannot be read" in result.err
    assert records.steps(run_copy)[-1] == 40


def test_an_intent_that_is_damaged_while_training_is_told_and_changes_nothing(run_copy: RunDirectory) -> None:
    script = Script(run_copy)
    script.at(45, lambda: run_copy.pivot_intent.write_text("{"))
    assert andrea_engine("train", run_copy.path, "--steps", 75, bell=script).code == 0
    assert records.notices(run_copy).count("no pivot: ") == 1


# -- what can go wrong at the step itself -----------------------------------------------------------------------------


def test_a_save_that_fails_moves_the_pivot_on(run_copy: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    write = checkpointing.write_checkpoint

    def failing(directory: Path, step: int, *rest: object) -> object:
        if step == 50:
            raise SaveError("disk full")
        return write(directory, step, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(checkpointing, "write_checkpoint", failing)
    pend(run_copy, 50)
    assert andrea_engine("train", run_copy.path).code == 7
    assert "the pivot moves from step 50 to step 60: disk full" in records.notices(run_copy)
    intent = read_intent(run_copy)
    assert intent is not None
    assert (intent.step, intent.archive) == (60, "archive/pivot-0001-step-000060")
    assert andrea_engine("train", run_copy.path, "--steps", 65).code == 0
    assert_pivoted(run_copy, 60)


def test_an_intent_that_cannot_be_written_moves_the_pivot_on(
    run_copy: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from andrea_engine.train import pivoting

    written = []

    def failing(directory: RunDirectory, intent: PivotIntent) -> None:
        written.append(intent.phase)
        if len(written) < 3:
            raise OSError(28, "No space left on device")
        write_intent(directory, intent)

    monkeypatch.setattr(pivoting, "write_intent", failing)
    pend(run_copy, 50)
    assert andrea_engine("train", run_copy.path).code == 7
    assert written == ["reached", "asked", "asked", "reached"]
    assert andrea_engine("train", run_copy.path, "--steps", 65).code == 0
    assert_pivoted(run_copy, 60)
