"""What an entry of the loss record costs when the record is long: it must not depend on the length."""

from __future__ import annotations

from itertools import count
from time import perf_counter

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.loss_entry import LossEntry, make_entry
from andrea_engine.run.loss_record import LossRecord
from benchmarks.measure import Case, interleave, summarise
from benchmarks.report import Outcome, Scale, Target

TARGETS = {"append_200k_vs_100": Target("<=", 1.3)}
LENGTHS = {"100": 100, "200k": 200_000}
QUICK_LENGTHS = {"100": 10, "200k": 1000}
STEPS_PER_COMMIT = 100  # the cadence of checkpoints
REPEATS = 10
DISK_QUIET = 0.6  # fsync is the kernel's work, which counts as foreign CPU


def measure(scale: Scale) -> Outcome:
    """The steps of one checkpoint, appended and committed, per entry."""
    lengths = QUICK_LENGTHS if scale.quick else LENGTHS
    records = {name: _opened(RunDirectory(scale.scratch / name), length) for name, length in lengths.items()}
    cases = {name: _case(record, lengths[name], scale) for name, record in records.items()}
    taken = interleave(cases, *scale.rounds(15, 40), limit=DISK_QUIET)
    for record in records.values():
        record.close()
    summaries = {name: summarise(samples, DISK_QUIET) for name, samples in taken.items()}
    outcome = Outcome(
        details={
            "entry": {name: summary.facts() for name, summary in summaries.items()},
            "steps_per_commit": STEPS_PER_COMMIT,
            "entries_on_record": lengths,
        }
    )
    outcome.compare("append_200k_vs_100", summaries["200k"], summaries["100"])
    return outcome


def _opened(directory: RunDirectory, length: int) -> LossRecord:
    """A record with entries of the steps 1 to `length`, recovered as an engine does at its start."""
    directory.path.mkdir()
    lines = b",\n".join(_entry(step).to_line() for step in range(1, length + 1))
    directory.loss.write_bytes(b"[\n" + lines + b"\n]\n")
    record = LossRecord(directory)
    record.recover(length)
    return record


def _case(record: LossRecord, length: int, scale: Scale) -> Case:
    steps = count(length + 1)

    def run() -> None:
        for _ in range(STEPS_PER_COMMIT):
            entry = _entry(next(steps))
            record.append(entry)
        record.commit(entry.step)

    def per_entry() -> float:
        started = perf_counter()
        run()
        return (perf_counter() - started) / STEPS_PER_COMMIT

    return Case(per_entry, repeats=1 if scale.quick else REPEATS)


def _entry(step: int) -> LossEntry:
    return make_entry(
        step=step,
        loss=3.0 + 1.0 / step,
        ema=3.1 + 1.0 / step,
        source="python-topics",
        lr=3e-4,
        grad_norm=1.25,
        seconds=1.104321,
        power_w=129.5,
        energy_j=143.0 * step,
        policy=0,
        session=1,
    )
