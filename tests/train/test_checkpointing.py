"""The checkpoint writer by itself: what it writes, what it refuses, and what it says when it fails."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.shape import ModelShape
from andrea_engine.run import checkpoint as run_checkpoint
from andrea_engine.run import events as run_events
from andrea_engine.run.config import CheckpointTable
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import EventLog, read_events
from andrea_engine.run.intent import guard
from andrea_engine.run.io import TEMP_PATTERN
from andrea_engine.run.loss_entry import make_entry
from andrea_engine.run.loss_record import LossRecord
from andrea_engine.run.pins import pin
from andrea_engine.train import checkpointing
from andrea_engine.train.checkpointing import CheckpointWriter, content_problem, load_checkpoint, numbers_problem
from tests.support import records

SHAPE = ModelShape(d_model=8, layers=1, heads=2, context=4, vocab=11)
N = SHAPE.n_params


@dataclass
class Bench:
    directory: RunDirectory
    flat: FlatParameters
    record: LossRecord
    writer: CheckpointWriter

    def train(self, step: int) -> None:
        """Numbers that tell the step, and its entry in the journal."""
        self.flat.w.copy_(torch.arange(N) + step)
        self.flat.m.copy_(torch.arange(N) * 2.0 + step)
        self.flat.v.copy_(torch.arange(N) * 3.0 + step)
        self.record.append(make_entry(step=step, loss=1.0 / step))

    def save(self, step: int, reason: str = "cadence") -> None:
        self.train(step)
        self.writer.submit(step, reason, {"step": step})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return _bench(tmp_path, CheckpointTable(keep="all"))


def _bench(path: Path, table: CheckpointTable) -> Bench:
    directory = RunDirectory(path)
    flat = FlatParameters(SHAPE)
    record = LossRecord(directory)
    record.recover(0)
    writer = CheckpointWriter(directory, flat, record, EventLog(directory.events, 1), table, set())
    return Bench(directory, flat, record, writer)


def test_the_file_is_a_header_and_three_regions(bench: Bench) -> None:
    bench.save(3)
    assert bench.writer.wait() is None
    data = records.checkpoint(bench.directory, 3).read_bytes()
    assert np.frombuffer(data, "<i4", 2).tolist() == [3, N]
    w, m, v = np.frombuffer(data, "<f4", offset=8).reshape(3, N)
    assert w.tolist() == [n + 3 for n in range(N)]
    assert m.tolist() == [2 * n + 3 for n in range(N)]
    assert v.tolist() == [3 * n + 3 for n in range(N)]


def test_what_was_written_loads_bit_for_bit(bench: Bench) -> None:
    bench.save(3)
    bench.writer.wait()
    other = FlatParameters(SHAPE)
    load_checkpoint(records.checkpoint(bench.directory, 3), other)
    assert all(torch.equal(getattr(other, name), getattr(bench.flat, name)) for name in "wmv")
    other.check_views()


def test_loading_a_missing_file_is_a_sentence(bench: Bench) -> None:
    with pytest.raises(RunError, match=r"step_000009\.bin cannot be read"):
        load_checkpoint(records.checkpoint(bench.directory, 9), bench.flat)


def test_training_may_go_on_while_the_file_is_written(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = _slow_write(monkeypatch)
    bench.save(1)
    assert entered.wait(30)
    assert bench.writer.busy
    assert bench.writer.saving is not None
    assert (bench.writer.saving.step, bench.writer.saving.total) == (1, 8 + 12 * N)
    bench.train(2)  # the buffers change under the writer
    release.set()
    assert bench.writer.wait() is None
    assert np.fromfile(records.checkpoint(bench.directory, 1), "<f4", offset=8)[0] == 1.0
    assert bench.writer.saving is None
    assert records.steps(bench.directory) == [1], "step 2 is not in the weights that were saved"


def test_one_write_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = _slow_write(monkeypatch)
    bench.save(1)
    assert entered.wait(30)
    second = threading.Thread(target=bench.save, args=(2,))
    second.start()
    assert len(records.events(bench.directory, "save_writing")) == 1, "the second waits for the first"
    release.set()
    second.join()
    assert bench.writer.wait() is None
    assert [(event.kind, event.step) for event in read_events(bench.directory.events)] == [
        ("save_writing", 1),
        ("save_durable", 1),
        ("save_writing", 2),
        ("save_durable", 2),
    ]
    assert records.checkpoints(bench.directory) == [1, 2]


def test_the_record_is_committed_with_the_checkpoint_and_not_before(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[int]] = []
    _before_write(monkeypatch, lambda: seen.append(records.steps(bench.directory)))
    bench.train(1)
    bench.save(2)
    bench.writer.wait()
    assert seen == [[]]
    assert records.steps(bench.directory) == [1, 2]
    assert records.strict_json(bench.directory.state) == {"step": 2}


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), OSError(5, "Input/output error"), MemoryError("none left")]
)
def test_a_failed_write_is_said_and_the_next_one_succeeds(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    bench.save(1)
    bench.writer.wait()

    def fail() -> None:
        raise error

    _before_write(monkeypatch, fail)
    bench.save(2)
    failure = bench.writer.wait()
    assert failure is not None
    assert int(failure.exit_code) == 3
    (event,) = records.events(bench.directory, "save_failed")
    assert (event.step, event.text("error")) == (2, str(failure))
    assert records.checkpoints(bench.directory) == [1]
    assert records.steps(bench.directory) == [1], "entries of weights that are nowhere are not committed"
    monkeypatch.undo()
    bench.save(3)
    assert bench.writer.wait() is None
    assert records.steps(bench.directory) == [1, 2, 3]


def test_a_checkpoint_is_durable_even_when_the_record_cannot_be_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(step: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bench.record, "commit", fail)
    bench.save(1)
    assert bench.writer.wait() is None
    (event,) = records.events(bench.directory, "error")
    assert "the loss record or the bandit state cannot be written: No space left" in event.text("error")
    assert records.events(bench.directory, "save_durable", step=1)
    monkeypatch.undo()
    bench.save(2)
    bench.writer.wait()
    assert records.steps(bench.directory) == [1, 2], "the next commit includes what waited"


@pytest.mark.parametrize("region", ["w", "m", "v"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nothing_that_is_not_finite_is_written(bench: Bench, region: str, value: float) -> None:
    bench.train(1)
    getattr(bench.flat, region)[N // 2] = value
    bench.writer.submit(1, "stop", {})
    failure = bench.writer.wait()
    assert failure is not None
    name = {"w": "weights"}.get(region, region)
    assert f"step 1 was not written: it has {name} that are not finite" in str(failure)
    assert records.checkpoints(bench.directory) == []


def test_moments_all_zero_are_a_problem_only_after_the_start(tmp_path: Path) -> None:
    numbers = np.concatenate([np.ones(N), np.zeros(2 * N)]).astype("<f4")
    for step in (0, 1):
        path = tmp_path / f"step_{step:06d}.bin"
        path.write_bytes(np.array([step, N], "<i4").tobytes() + numbers.tobytes())
    assert content_problem(tmp_path / "step_000000.bin") is None
    assert "moments that are all zero at step 1" in (content_problem(tmp_path / "step_000001.bin") or "")


@pytest.mark.parametrize("at", [0, 1, N - 1])
def test_a_poisoned_number_is_found_across_the_pieces_of_the_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setattr(checkpointing, "_SCAN", 7)
    path = tmp_path / "step_000001.bin"
    for region, name in enumerate(("weights", "m", "v")):
        numbers = np.ones((3, N), "<f4")
        path.write_bytes(np.array([1, N], "<i4").tobytes() + numbers.tobytes())
        assert content_problem(path) is None
        numbers[region, at] = np.nan
        path.write_bytes(np.array([1, N], "<i4").tobytes() + numbers.tobytes())
        assert content_problem(path) == f"has {name} that are not finite"
    numbers = np.ones((3, N), "<f4")
    numbers[2, at] = -1e-30
    path.write_bytes(np.array([1, N], "<i4").tobytes() + numbers.tobytes())
    assert "negative second moments" in (content_problem(path) or "")


def test_the_keep_rule_is_applied_after_the_new_file_is_durable(tmp_path: Path) -> None:
    bench = _bench(tmp_path, CheckpointTable(keep="rule", keep_last=2, keep_every=4))
    bench.writer.protect = lambda: {3}
    for step, reason in ((1, "operator"), (2, "cadence"), (3, "cadence"), (4, "cadence"), (5, "stop"), (6, "halt")):
        bench.save(step, reason)
        bench.writer.wait()
    bench.save(7)
    bench.save(8)
    bench.writer.wait()
    assert records.checkpoints(bench.directory) == [1, 3, 4, 6, 7, 8], "asked for, protected, multiple, halt, newest"
    assert bench.writer.pinned == {1, 6}


def test_everything_is_durable_before_the_word_saved(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journal, checkpoint, record, state; after each file its directory; and only then the event that says so."""
    real, synced = os.fsync, []

    def fsync(descriptor: int) -> None:
        real(descriptor)
        name = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
        match = TEMP_PATTERN.match(name)
        synced.append(match["name"] if match else name)

    bench.train(1)
    monkeypatch.setattr(os, "fsync", fsync)
    bench.writer._events.observer = lambda kind, facts: synced.append(kind)
    bench.writer.submit(1, "cadence", {"step": 1})
    assert bench.writer.wait() is None
    folder = bench.directory.path.name
    assert synced == [
        "save_writing",
        ".loss.journal.jsonl",
        *("step_000001.bin", folder),
        ".loss.json",
        *(".loss.journal.jsonl", folder),
        *(".state.json", folder),
        "save_durable",
    ]


def test_a_save_that_was_asked_for_stays_pinned_without_an_event_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log could not be written when it was saved; when it can again, only memory knows of the pin."""

    def fail(path: Path, line: bytes) -> None:
        raise OSError(28, "No space left on device")

    bench = _bench(tmp_path, CheckpointTable(keep="rule", keep_last=2, keep_every=0))
    with monkeypatch.context() as patch:
        patch.setattr(run_events, "append_line", fail)
        bench.save(1, "operator")
        assert bench.writer.wait() is None
    for step in (2, 3, 4, 5):
        bench.save(step)
        bench.writer.wait()
    assert records.checkpoints(bench.directory) == [1, 4, 5]


def test_nothing_is_removed_while_somebody_pins(tmp_path: Path) -> None:
    bench = _bench(tmp_path, CheckpointTable(keep="rule", keep_last=2, keep_every=0))
    for step in (1, 2):
        bench.save(step)
        bench.writer.wait()
    with guard(bench.directory):
        for step in (3, 4):
            bench.save(step)
            assert bench.writer.wait() is None
        assert records.checkpoints(bench.directory) == [1, 2, 3, 4]
    pin(bench.directory, 2, by="a test")
    bench.save(5)
    bench.writer.wait()
    assert records.checkpoints(bench.directory) == [2, 4, 5]


def test_a_failed_write_removes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = _bench(tmp_path, CheckpointTable(keep="rule", keep_last=2, keep_every=0))
    for step in (1, 2):
        bench.save(step)
        bench.writer.wait()

    def fail() -> None:
        raise OSError(28, "No space left on device")

    _before_write(monkeypatch, fail)
    for step in (3, 4, 5):
        bench.save(step)
        assert bench.writer.wait() is not None
    assert records.checkpoints(bench.directory) == [1, 2]


def _before_write(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Run `act` where the temporary file of a checkpoint is about to be written."""
    write = run_checkpoint.atomic_write

    def hooked(path: Path, *arguments: object, **options: object) -> int:
        act()
        return write(path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(run_checkpoint, "atomic_write", hooked)


def _slow_write(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """A write that says when it has begun and waits until it is released."""
    entered, release = threading.Event(), threading.Event()

    def act() -> None:
        entered.set()
        assert release.wait(30)

    _before_write(monkeypatch, act)
    return entered, release


def test_the_extremes_tell_all_that_can_be_wrong_with_numbers() -> None:
    huge = np.full(5, 3e38, dtype=np.float32)
    ones = np.ones(5, dtype=np.float32)
    assert numbers_problem([huge, -huge, huge], 1) is None
    assert numbers_problem([huge, np.float32([1, np.nan, 1, 1, 1]), ones], 1) == "has m that are not finite"
    assert numbers_problem([np.float32([1, np.inf, 1, 1, 1]), ones, ones], 1) == "has weights that are not finite"
    assert numbers_problem([ones, ones, np.float32([1, 1, -np.inf, 1, 1])], 1) == "has v that are not finite"
    assert "negative" in (numbers_problem([ones, ones, np.float32([1, 1, -1e-30, 1, 1])], 1) or "")
    assert numbers_problem([ones, ones, np.float32([0, 0, 1e-40, 0, 0])], 1) is None
    assert "all zero at step 1" in (numbers_problem([ones, ones, ones * 0], 1) or "")
