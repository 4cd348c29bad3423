"""kill -9 of a real engine at any moment of its life, or of two in a row: promises P1 to P4 and a bit-equal record.

The truth is an unbroken run of the same seed: every checkpoint and every training field of every entry has to equal it.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from andrea_engine.run.check import check
from andrea_engine.run.checkpoint import file_digest, list_checkpoints
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.lock import is_locked
from andrea_engine.run.loss_entry import LossEntry, current_branch
from andrea_engine.run.loss_reader import LossReader
from tests.faults.soak.shared import place, shared
from tests.faults.soak.victims import Acknowledged, Victim, command_line, nursery, temporaries
from tests.support import records
from tests.support.tiny import N_PARAMS, make_run

LAST = 120  # steps of the unbroken run
EVERY = 5
BEGUN = 20  # steps of the run that most trials go on with
MOST_OPERATIONS = 700  # on files, of a start and the steps up to LAST
REAL_SHARE = 0.04
MOMENTS = ("operation", "operation", "delay", "temporary", "stopping")
TABLES: dict[str, object] = {"checkpoint": {"every": EVERY}, "sample": {"every": 20, "tokens": 12}}


@dataclass(frozen=True, slots=True)
class Reference:
    """The unbroken run: digests of its checkpoints by step, its entries, its samples; and runs to begin with."""

    digests: dict[int, str]
    entries: list[LossEntry]
    samples: list[tuple[object, ...]]
    fresh: Path
    prepared: Path
    begun: Path


@shared
def reference(stack: contextlib.ExitStack) -> Reference:
    home = place() / "reference"
    fresh = make_run(home / "fresh", TABLES)
    begun = make_run(home / "begun", TABLES)
    whole = make_run(home / "whole", {**TABLES, "checkpoint": {"every": 1}})
    for directory, until in ((begun, BEGUN), (whole, LAST)):
        victim = nursery().engine(directory, home / "log", home / "acknowledged", "--steps", until)
        assert victim.wait() == 0, victim.output
    digests = {step: file_digest(records.checkpoint(whole, step)) for step in records.checkpoints(whole)}
    assert list(digests) == list(range(1, LAST + 1))
    found = Reference(
        digests, records.entries(whole), records.trained(whole), fresh.path, _prepared(begun, home), begun.path
    )
    shutil.rmtree(whole.path)
    return found


def _prepared(begun: RunDirectory, home: Path) -> Path:
    """A run whose texts are encoded, and nothing more."""
    path = home / "prepared"
    path.mkdir()
    for name in (begun.config, begun.tokenizer):
        shutil.copy(name, path)
    shutil.copytree(begun.tokens, path / begun.tokens.name)
    return path


def trial(seed: int, scratch: Path) -> None:
    """A life that is killed, or two, and one that goes on to the end."""
    choice = random.Random(seed)
    truth = reference()
    start = choice.choices((truth.fresh, truth.prepared, truth.begun), (1, 1, 3))[0]
    directory = RunDirectory(scratch / "run")
    shutil.copytree(start, directory.path)
    heard = Acknowledged(scratch / "acknowledged")
    heard.hear(directory)
    for _ in range(choice.choice((1, 1, 1, 2))):
        before = directory.loss.read_bytes() if directory.loss.exists() else b"["
        _live_and_die(directory, scratch, heard, choice)
        assert_nothing_lost(directory, heard, truth, before)
    newest = max(heard.saved, default=0)
    _go_on(directory, scratch, heard, truth, min(LAST, (newest // EVERY + 1) * EVERY))


def _live_and_die(directory: RunDirectory, scratch: Path, heard: Acknowledged, choice: random.Random) -> None:
    log = scratch / "log"
    if choice.random() < REAL_SHARE:
        victim = command_line(directory, log, "--steps", LAST)
        victim.ended_within(choice.uniform(0.0, 4.0))
    else:
        moment = choice.choice(MOMENTS)
        # small numbers more often: they are the start, which every life goes through
        kill_at = int(MOST_OPERATIONS ** choice.random()) if moment == "operation" else 0
        known = temporaries(directory)
        victim = nursery().engine(directory, log, heard.file, "--steps", LAST, kill_at=kill_at)
        _until(moment, victim, directory, known, choice)
    code = victim.kill()
    assert code in (0, -signal.SIGKILL), f"the engine failed by itself ({code})\n{victim.output}"
    heard.hear(directory)


def _until(moment: str, victim: Victim, directory: RunDirectory, known: set[str], choice: random.Random) -> None:
    if moment == "operation":
        victim.ended_within(1.5)
    elif moment == "delay":
        victim.ended_within(choice.uniform(0.0, 1.0))
    elif moment == "temporary":
        for _ in range(choice.randint(1, 12)):  # the first are of preparing and of the heartbeat
            if not victim.until(lambda: temporaries(directory) - known, 0.5):
                return
            known.update(temporaries(directory))
    else:
        size = directory.journal.stat().st_size if directory.journal.exists() else 0
        victim.until(lambda: directory.journal.exists() and directory.journal.stat().st_size != size, 3.0)
        victim.ended_within(choice.uniform(0.0, 0.05))
        victim.send(choice.choice((signal.SIGTERM, signal.SIGINT)))
        victim.ended_within(choice.uniform(0.0, 0.06))


def assert_nothing_lost(directory: RunDirectory, heard: Acknowledged, truth: Reference, before: bytes) -> None:
    """What a dead engine leaves behind: every acknowledged checkpoint, whole; the record; no lock; a happy `check`."""
    files = list_checkpoints(directory.path, N_PARAMS)
    problems = [f"{file.path.name} {file.problem}" for file in files if file.problem is not None]
    assert problems == [], f"a checkpoint is not whole: {problems}"
    for file in files:
        assert file_digest(file.path) == truth.digests[file.step], f"step {file.step} is not that of the unbroken run"
    there = {file.step for file in files}
    for step, digest in heard.saved.items():
        assert step in there, f"step {step} was called saved and is not there"
        assert digest == truth.digests[step], f"the digest that was told of step {step} is not that of its bytes"
    record = directory.loss.read_bytes() if directory.loss.exists() else before
    assert record.startswith(before.removesuffix(b"\n]\n")), "earlier bytes of the loss record changed"
    found = [entry for path in (directory.loss, directory.journal) for entry in LossReader(path).read_all()]
    branch = current_branch(found)
    assert_equal_entries(branch, truth)
    newest = max(there, default=0)
    assert len(branch) >= newest, f"the record ends at step {len(branch)}, before the checkpoint of step {newest}"
    assert not is_locked(directory), "the lock outlived its engine"
    report = check(directory)
    assert report.ok, f"check finds {[f.as_dict() for f in report.findings if f.severity == 'problem']}"


def assert_equal_entries(entries: list[LossEntry], truth: Reference) -> None:
    """Steps 1 to n, each once, with the training fields of the unbroken run."""
    assert [entry.step for entry in entries] == list(range(1, len(entries) + 1)), "a step is missing or there twice"
    different = [e.step for e, right in zip(entries, truth.entries, strict=False) if not e.same_training(right)]
    assert different == [], f"steps {different} differ from the unbroken run"


def _go_on(directory: RunDirectory, scratch: Path, heard: Acknowledged, truth: Reference, until: int) -> None:
    """The next start trains on as if nothing had happened."""
    from andrea_engine.train.checkpointing import content_problem

    victim = nursery().engine(directory, scratch / "log", heard.file, "--steps", until)
    code = victim.wait()
    assert code == 0, f"the start after the crash ended with {code}\n{victim.output}"
    assert temporaries(directory) == set(), "half-written files were left"
    assert isinstance(records.strict_json(directory.loss), list)
    entries = records.entries(directory)
    assert len(entries) >= until, f"the record ends at step {len(entries)} and not at {until}"
    assert_equal_entries(entries, truth)
    # A checkpoint may be durable that nobody was told of yet: then the start has nothing to train.
    wanted = [sample for sample in truth.samples if int(str(sample[0])) <= len(entries)]
    found = records.trained(directory)
    steps = [[sample[0] for sample in samples] for samples in (found, wanted)]
    assert found == wanted, f"the samples, at steps {steps[0]}, are not those of the unbroken run, at {steps[1]}"
    assert_nothing_lost(directory, heard, truth, b"[")
    report = check(directory, content_problem)
    assert report.ok, f"check --deep finds {[f.as_dict() for f in report.findings if f.severity == 'problem']}"
