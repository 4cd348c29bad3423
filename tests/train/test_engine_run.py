"""A run from nothing to its last step, as a process: what it leaves behind."""

from __future__ import annotations

import gc
import hashlib
import math
from pathlib import Path

from andrea_engine.coherence.metrics import score
from andrea_engine.run.check import check
from andrea_engine.run.condition import condition
from andrea_engine.run.heartbeat import read_heartbeat
from andrea_engine.run.samples import read_samples
from andrea_engine.train.checkpointing import content_problem
from tests.conftest import TrainedRun
from tests.support import records
from tests.support.inprocess import andrea_engine
from tests.support.tiny import CHECKPOINT_BYTES, N_PARAMS, VOCAB, make_run


def test_exits_with_0_and_says_what_it_did(trained: TrainedRun) -> None:
    assert trained.code == 0, trained.output
    assert f"stopped at step {trained.steps}, saved" in trained.output


def test_checkpoints_have_exactly_the_bytes_of_the_format(trained: TrainedRun) -> None:
    assert records.checkpoints(trained.directory) == [10, 20, 30, 40]
    for step in (10, 20, 30, 40):
        data = records.checkpoint(trained.directory, step).read_bytes()
        assert len(data) == CHECKPOINT_BYTES == 8 + 12 * N_PARAMS
        assert data[:8] == step.to_bytes(4, "little") + N_PARAMS.to_bytes(4, "little")
        assert content_problem(records.checkpoint(trained.directory, step)) is None


def test_the_loss_record_is_strict_json_with_one_entry_a_step(trained: TrainedRun) -> None:
    record = records.strict_json(trained.directory.loss)
    assert isinstance(record, list)
    assert [entry["step"] for entry in record] == list(range(1, trained.steps + 1))
    keys = {"step", "loss", "ema", "source", "lr", "grad_norm", "seconds", "power_w", "energy_j", "policy", "session"}
    assert all(set(entry) == keys for entry in record)
    assert {entry["source"] for entry in record} == {"harbour", "garden"}
    assert all(entry["seconds"] > 0 and entry["grad_norm"] > 0 for entry in record)
    assert trained.directory.journal.read_bytes() == b"", "everything is committed"


def test_the_loss_starts_at_chance_and_its_average_falls(trained: TrainedRun) -> None:
    entries = records.entries(trained.directory)
    first, last = entries[0], entries[-1]
    assert first.loss is not None
    assert first.ema is not None
    assert last.ema is not None
    assert abs(first.loss - math.log(VOCAB)) < 0.3, "chance for an untrained model is ln(vocabulary)"
    assert math.isclose(first.ema, first.loss, rel_tol=1e-12), "the average is debiased"
    assert last.ema < first.loss - 0.7


def test_the_learning_rate_warms_up_and_then_stays_near_the_peak(trained: TrainedRun) -> None:
    rates = [entry.lr or 0.0 for entry in records.entries(trained.directory)]
    assert [round(rate, 9) for rate in rates[:5]] == [round(3e-3 * n / 5, 9) for n in (1, 2, 3, 4, 5)]
    assert all(math.isclose(rate, 3e-3, rel_tol=1e-6) for rate in rates[4:]), "the planned total is far away"


def test_every_checkpoint_has_a_sample_scored_by_the_metrics(trained: TrainedRun) -> None:
    samples = read_samples(trained.directory.samples)
    assert [sample.step for sample in samples] == records.checkpoints(trained.directory)
    records.strict_json(trained.directory.samples)
    for sample in samples:
        again = score(sample.text)
        assert sample.scores is not None
        assert sample.scores.total == again.total
        assert sample.scores.bigram == again.bigram
        assert (sample.tokens, sample.temperature) == (24, 1.0)
        assert records.events(trained.directory, "sample", step=sample.step, total=again.total)


def test_events_hold_the_digest_of_each_checkpoint(trained: TrainedRun) -> None:
    durable = records.events(trained.directory, "save_durable")
    assert [event.step for event in durable] == [10, 20, 30, 40]
    assert [event.text("reason") for event in durable] == ["cadence", "cadence", "cadence", "final"]
    for event in durable:
        assert event.step is not None
        data = records.checkpoint(trained.directory, event.step).read_bytes()
        assert event.text("sha256") == hashlib.sha256(data).hexdigest()
        assert event.integer("bytes") == CHECKPOINT_BYTES


def test_sidecars_are_readable_and_nothing_is_left_over(trained: TrainedRun) -> None:
    state = records.strict_json(trained.directory.state)
    assert isinstance(state, dict)
    assert sum(arm["pulls"] for arm in state["arms"].values()) == trained.steps
    lock = records.strict_json(trained.directory.resolved)
    assert isinstance(lock, dict)
    assert (lock["n_params"], lock["checkpoint_bytes"], lock["vocab"]) == (N_PARAMS, CHECKPOINT_BYTES, VOCAB)
    assert list(trained.directory.path.glob(".*.tmp")) == []


def test_the_last_heartbeat_tells_how_it_ended(trained: TrainedRun) -> None:
    beat = read_heartbeat(trained.directory.heartbeat)
    assert beat is not None
    assert (beat.phase, beat.exit_code, beat.step, beat.session) == ("stopped", 0, trained.steps, 1)
    assert beat.armed
    state = condition(trained.directory)
    assert (state.word, state.alive) == ("stopped", False)


def test_the_run_passes_its_own_check(trained: TrainedRun) -> None:
    report = check(trained.directory, content_problem)
    assert report.ok, [finding for finding in report.findings if finding.severity == "problem"]


def test_a_run_that_reaches_its_planned_total_is_finished(tmp_path) -> None:
    directory = make_run(tmp_path / "run", {"schedule": {"steps": 12}})
    assert andrea_engine("train", directory.path).code == 0
    assert condition(directory).word == "finished"
    assert records.checkpoints(directory) == [10, 12]
    before = records.checkpoint(directory, 12).read_bytes()
    assert andrea_engine("train", directory.path).code == 0, "once more: there is nothing left to do"
    assert records.checkpoint(directory, 12).read_bytes() == before
    assert records.steps(directory) == list(range(1, 13))


def test_an_engine_in_a_process_of_its_host_gives_the_collector_back(tmp_path: Path) -> None:
    """The imports and the preparation run without it, also when they lead to nothing."""
    directory = make_run(tmp_path / "run")
    assert andrea_engine("train", directory.path, "--steps", 2).code == 0
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, 0)
    gone = make_run(
        tmp_path / "gone", {"sources": [{"name": "gone", "kind": "text", "path": str(tmp_path / "none.txt")}]}
    )
    assert andrea_engine("train", gone.path).code == 2
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, 0)
