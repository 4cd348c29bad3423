"""When the saver saves: requests, cadence, retries and the last save, on a clock of the test's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.shape import ModelShape
from andrea_engine.run import checkpoint as run_checkpoint
from andrea_engine.run.config import CheckpointTable, ModelTable, RunConfig, TokenizerTable
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog, pinned_steps, read_events
from andrea_engine.run.loss_record import LossRecord
from andrea_engine.train import saving
from andrea_engine.train.engine import EngineContext, TrainOptions
from andrea_engine.train.pivoting import PivotWatch
from andrea_engine.train.saving import Saver
from tests.support import records
from tests.support.inprocess import Bell


@dataclass
class Clock:
    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@dataclass
class Bench:
    """A saver with real files; `full` makes every write fail."""

    saver: Saver
    bell: Bell
    clock: Clock
    directory: RunDirectory
    full: list[bool] = field(default_factory=list)

    def step_end(self, step: int, *, final: bool = False) -> None:
        self.saver.at_step_end(step, final=final)
        self.saver.wait()

    def kinds(self) -> list[str]:
        return [event.kind.removeprefix("save_") for event in read_events(self.directory.events)]


def _bench(path: Path, monkeypatch: pytest.MonkeyPatch, table: CheckpointTable) -> Bench:
    directory = RunDirectory(path)
    shape = ModelTable(d_model=8, layers=1, heads=2, context=4)
    config = RunConfig(model=shape, tokenizer=TokenizerTable(segments=3), checkpoint=table)
    flat = FlatParameters(ModelShape(d_model=8, layers=1, heads=2, context=4, vocab=config.vocab))
    for buffer in (flat.w, flat.m, flat.v):
        buffer.copy_(torch.ones_like(buffer))
    record = LossRecord(directory)
    record.recover(0)
    bell, clock = Bell(), Clock()
    context = EngineContext(
        directory,
        config,
        TrainOptions(),
        bell,
        EventLog(directory.events, 1),
        read_events(directory.events),
        SimpleNamespace(),  # type: ignore[arg-type]  (without a pivot the saver never talks to the reporter)
    )
    monkeypatch.setattr(saving, "time", clock)
    bench = Bench(Saver(context, flat, record, dict, PivotWatch(context, 2**31 - 1)), bell, clock, directory)
    write = run_checkpoint.atomic_write

    def maybe(*arguments: object, **options: object) -> int:
        if bench.full:
            raise OSError(28, "No space left on device")
        return write(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(run_checkpoint, "atomic_write", maybe)
    return bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return _bench(tmp_path, monkeypatch, CheckpointTable(every=10, keep="all"))


def test_the_cadence_saves_at_multiples_only(bench: Bench) -> None:
    for step in range(1, 31):
        bench.step_end(step)
    assert records.checkpoints(bench.directory) == [10, 20, 30]
    assert {event.text("reason") for event in records.events(bench.directory, "save_durable")} == {"cadence"}


def test_the_last_step_is_left_to_the_final_save(bench: Bench) -> None:
    bench.step_end(10, final=True)
    assert records.checkpoints(bench.directory) == []
    assert bench.saver.final_save(10, None) is None
    assert [e.text("reason") for e in records.events(bench.directory, "save_durable")] == ["final"]


def test_min_seconds_thins_the_cadence_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = _bench(tmp_path, monkeypatch, CheckpointTable(every=10, min_seconds=25.0, keep="all"))
    for step in range(1, 101):
        bench.clock.now += 1.0
        bench.step_end(step)
    assert records.checkpoints(bench.directory) == [10, 40, 70, 100], "the first multiple after 25 seconds"


def test_a_request_is_served_at_any_step_and_only_once(bench: Bench) -> None:
    bench.bell.save_asked = bench.clock.now - 2.0
    bench.step_end(7)
    bench.step_end(8)
    assert records.checkpoints(bench.directory) == [7]
    assert bench.kinds() == ["asked", "seen", "writing", "durable"]
    asked, seen = read_events(bench.directory.events)[:2]
    assert asked.time == bench.clock.now - 2.0, "the time of the signal, not of its handling"
    assert (seen.step, seen.number("after")) == (7, 2.0)
    assert bench.saver.pinned == pinned_steps(read_events(bench.directory.events)) == {7}


def test_a_request_at_a_cadence_step_is_one_save(bench: Bench) -> None:
    bench.bell.save_asked = bench.clock.now
    bench.step_end(10)
    assert bench.kinds() == ["asked", "seen", "writing", "durable"]
    assert bench.saver.pinned == {10}


def test_a_request_for_a_step_that_is_durable_is_answered_without_writing(bench: Bench) -> None:
    bench.step_end(10)
    bench.bell.save_asked = bench.clock.now
    assert bench.saver.serve_request(10) is True
    assert bench.kinds() == ["writing", "durable", "asked", "seen", "durable"]
    first, second = records.events(bench.directory, "save_durable")
    assert second.facts["already_saved"] is True
    assert second.facts["pinned"] is True
    assert second.text("sha256") == first.text("sha256") != ""
    assert second.integer("bytes") == first.integer("bytes")


def test_a_request_after_a_failed_write_of_the_same_step_writes_again(bench: Bench) -> None:
    bench.full.append(True)
    bench.step_end(10)
    bench.full.clear()
    bench.bell.save_asked = bench.clock.now
    bench.saver.serve_request(10)
    bench.saver.wait()
    assert bench.kinds() == ["writing", "failed", "asked", "seen", "writing", "durable"]


def test_without_a_request_there_is_nothing_to_serve(bench: Bench) -> None:
    assert bench.saver.serve_request(5) is False
    assert bench.kinds() == []


def test_a_failed_save_is_retried_with_pauses_that_double_up_to_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = _bench(tmp_path, monkeypatch, CheckpointTable(every=1_000_000, keep="all"))
    bench.full.append(True)
    bench.step_end(1_000_000)
    start, retried = bench.clock.now, []
    for step in range(1_000_001, 1_000_301):
        failures = len(records.events(bench.directory, "save_failed"))
        bench.step_end(step)
        if len(records.events(bench.directory, "save_failed")) > failures:
            retried.append(bench.clock.now - start)
        bench.clock.now += 1.0
    pauses = [round(b - a) for a, b in zip([0.0, *retried], retried, strict=False)]
    assert pauses[0] == 5
    assert all(abs(pause - expected) <= 1 for pause, expected in zip(pauses, [5, 10, 20, 40, 60, 60], strict=False))
    assert len(pauses) >= 6

    bench.full.clear()
    for step in range(1_000_301, 1_000_400):
        bench.step_end(step)
        bench.clock.now += 1.0
    (durable,) = records.events(bench.directory, "save_durable")
    assert durable.text("reason") == "retry", "one success ends the retries"


def test_the_pauses_start_anew_after_a_success(bench: Bench) -> None:
    for first in (10, 20):
        bench.full.append(True)
        bench.step_end(first)
        bench.full.clear()
        bench.step_end(first + 1)
        bench.clock.now += 4.0
        bench.step_end(first + 2)
        assert not records.events(bench.directory, "save_durable", step=first + 2)
        bench.clock.now += 1.5
        bench.step_end(first + 3)
        assert records.events(bench.directory, "save_durable", step=first + 3, reason="retry")
        bench.step_end(first + 4)


def test_a_stop_saves_its_step_and_pins_nothing(bench: Bench) -> None:
    assert bench.saver.final_save(13, bench.clock.now) is None
    assert bench.kinds() == ["asked", "seen", "writing", "durable"]
    (durable,) = records.events(bench.directory, "save_durable")
    assert (durable.text("reason"), durable.facts["pinned"]) == ("stop", False)
    assert bench.saver.pinned == set()


def test_a_stop_at_a_step_that_is_being_saved_writes_no_second_time(bench: Bench) -> None:
    bench.saver.at_step_end(10, final=False)
    assert bench.saver.final_save(10, bench.clock.now) is None
    assert bench.kinds().count("writing") == 1
    last = records.events(bench.directory, "save_durable")[-1]
    assert (last.step, last.text("reason"), last.facts["pinned"]) == (10, "stop", False)
    assert bench.saver.pinned == set()


def test_a_stop_before_the_first_step_has_nothing_to_save(bench: Bench) -> None:
    bench.bell.save_asked = bench.clock.now
    assert bench.saver.final_save(0, bench.clock.now) is None
    assert records.checkpoints(bench.directory) == []


def test_a_stop_at_the_step_resumed_from_has_nothing_to_save(bench: Bench) -> None:
    bench.saver.resumed_at(40)
    assert bench.saver.final_save(40, bench.clock.now) is None
    assert "writing" not in bench.kinds()
    assert bench.kinds()[-1] == "durable"


def test_a_request_that_came_with_the_stop_is_answered_too(bench: Bench) -> None:
    bench.bell.save_asked = bench.clock.now
    assert bench.saver.final_save(13, bench.clock.now) is None
    assert sorted(bench.kinds()) == ["asked", "asked", "durable", "durable", "seen", "seen", "writing"]
    assert [e.text("by") for e in records.events(bench.directory, "save_asked")] == ["SIGUSR1", "stop"]
    assert bench.saver.pinned == {13}, "what the operator asked for is pinned, however the run went on"


def test_a_stop_that_cannot_be_saved_is_an_error(bench: Bench) -> None:
    bench.full.append(True)
    error = bench.saver.final_save(13, bench.clock.now)
    assert error is not None
    assert "disk full" in str(error)
    assert bench.kinds() == ["asked", "seen", "writing", "failed"]


def test_a_halt_is_saved_pinned_even_when_its_step_is_on_disk(bench: Bench) -> None:
    bench.step_end(50)
    assert bench.saver.final_save(50, None, reason="halt") is None
    assert bench.saver.pinned == {50}
    assert records.events(bench.directory, "save_durable", step=50, reason="halt", pinned=True)


def test_the_last_good_checkpoint_is_the_newest_valid_one_up_to_the_step(bench: Bench) -> None:
    for step in (10, 20, 30, 40):
        bench.step_end(step)
    records.checkpoint(bench.directory, 30).write_bytes(b"short")
    assert bench.saver.pin_last_good(35) == 20
    assert bench.saver.pinned == pinned_steps(read_events(bench.directory.events)) == {20}
    assert bench.saver.pin_last_good(9) is None
    assert bench.saver.pin_last_good(None) is None
    assert bench.saver.pinned == {20}


def test_pins_of_earlier_sessions_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    EventLog(tmp_path / "events.jsonl", 1).append("pin", step=70, reason="test")
    assert _bench(tmp_path, monkeypatch, CheckpointTable()).saver.pinned == {70}
