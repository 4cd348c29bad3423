"""Validate a run directory: every file against its format, its digest and the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

from andrea_engine.run.checkpoint import digest_problem, list_checkpoints
from andrea_engine.run.config import RunConfig, load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import known_digests, read_events
from andrea_engine.run.intent import read_intent
from andrea_engine.run.io import TEMP_PATTERN
from andrea_engine.run.lock import is_locked
from andrea_engine.run.loss_entry import current_branch
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.plain import clean
from andrea_engine.run.receipt import receipt_problems
from andrea_engine.run.samples import read_samples
from andrea_engine.run.state import read_state


@dataclass(frozen=True, slots=True)
class Finding:
    """`level`: ok, note or problem. `what`: the file or the subject."""

    level: str
    what: str
    text: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


@dataclass(slots=True)
class Report:
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(finding.level != "problem" for finding in self.findings)

    def add(self, level: str, what: str, text: str) -> None:
        self.findings.append(Finding(level, clean(what), clean(text)))


def check(directory: RunDirectory, deep: Callable[[Path], str | None] | None = None) -> Report:
    """Check everything; `deep(path)` finds a problem in the numbers of a checkpoint. Never raises for content."""
    report = Report()
    config = _check_config(directory, report)
    running = is_locked(directory)
    if running:
        report.add("note", "engine.lock", "an engine is running; its newest steps are still in the journal")
    newest = _check_checkpoints(directory, config, report, deep)
    _check_record(directory, newest, running, report)
    _check_sidecars(directory, report)
    _check_pivots(directory, report)
    _check_leftovers(directory, running, report)
    return report


def _check_config(directory: RunDirectory, report: Report) -> RunConfig | None:
    try:
        config = load_config(directory)
    except RunError as error:
        report.add("problem", "run.toml", str(error))
        return None
    report.add("ok", "run.toml", f"{config.n_params:,} parameters, {config.schedule.steps:,} steps planned")
    return config


def _check_checkpoints(
    directory: RunDirectory, config: RunConfig | None, report: Report, deep: Callable[[Path], str | None] | None
) -> int | None:
    digests = known_digests(read_events(directory.events))
    newest = None
    for file in list_checkpoints(directory.path, config.n_params if config else None):
        known = digests.get(file.step)
        note = "valid, unverified: no digest of it was recorded" if known is None else "valid"
        problem = file.problem or digest_problem(file.path, known)
        if problem is None and deep is not None:
            problem = deep(file.path)
        if problem is None:
            newest = max(newest or 0, file.step)
        report.add("problem" if problem else "ok", file.path.name, problem or note)
    if newest is None:
        report.add("note", "checkpoints", "none that is valid")
    return newest


def _check_record(directory: RunDirectory, newest: int | None, running: bool, report: Report) -> None:
    path = directory.loss_record()
    reader = LossReader(path)
    entries = reader.read_all()
    damage = reader.damage
    if damage.lines:
        where = f", the first at line {damage.first_line}" if damage.first_line else ""
        report.add("problem", path.name, f"{damage.lines:,} unreadable line(s){where}")
    if reader.unparseable:
        report.add("problem", path.name, f"not JSON: {reader.unparseable}")
    if reader.torn and not running:
        report.add(
            "note", path.name, f"ends in a half-written entry of {reader.torn:,} bytes; the next start cuts it off"
        )
    branch = current_branch(entries)
    steps = [entry.step for entry in branch]
    journal = LossReader(directory.journal).read_all()
    covered = max((entry.step for entry in (*branch, *journal)), default=0)
    if newest is not None and covered < newest:
        report.add("problem", path.name, f"ends at step {covered:,}, before the newest checkpoint of step {newest:,}")
    if journal and not running:
        report.add(
            "note", directory.journal.name, f"{len(journal):,} entries after the last commit; a start settles them"
        )
    if not steps:
        report.add("note", path.name, "no entries yet")
        return
    gaps = sum(1 for a, b in pairwise(steps) if b != a + 1)
    if gaps:
        report.add("problem", path.name, f"{gaps:,} gap(s) between step {steps[0]:,} and {steps[-1]:,}")
    if not damage.lines and not gaps:
        again = len(entries) - len(branch)
        extra = f", {again:,} of an abandoned branch" if again else ""
        report.add("ok", path.name, f"{len(branch):,} entries, steps {steps[0]:,} to {steps[-1]:,}{extra}")


def _check_sidecars(directory: RunDirectory, report: Report) -> None:
    try:
        samples = read_samples(directory.sample_record())
        report.add("ok", ".samples.json", f"{len(samples):,} samples")
    except RunError as error:
        report.add("problem", ".samples.json", str(error))
    try:
        state = read_state(directory.state)
        report.add("ok" if state else "note", ".state.json", "readable" if state else "not there yet")
    except RunError as error:
        report.add("problem", ".state.json", str(error))


def _check_pivots(directory: RunDirectory, report: Report) -> None:
    for archive in directory.archives():
        problems = receipt_problems(directory, archive)
        for problem in problems:
            report.add("problem", f"archive/{archive.name}", problem)
        if not problems:
            report.add("ok", f"archive/{archive.name}", "the receipt agrees with archive, record and checkpoint")
    try:
        intent = read_intent(directory)
    except RunError as error:
        report.add("problem", directory.pivot_intent.name, str(error))
        return
    if intent is not None:
        done = "half done: any start completes it" if intent.phase == "applying" else "ahead"
        report.add("note", directory.pivot_intent.name, f"a pivot at step {intent.step:,} is {done}")
    for archive in directory.half_done_archives():
        if intent is None or directory.path / intent.archive != archive:
            report.add("note", f"archive/{archive.name}", "has no receipt, so it counts for nothing")


def _check_leftovers(directory: RunDirectory, running: bool, report: Report) -> None:
    for path in sorted(directory.path.iterdir()) if directory.path.is_dir() else ():
        if TEMP_PATTERN.match(path.name) and not running:
            report.add("note", path.name, "half-written file of an earlier process; the next start removes it")
