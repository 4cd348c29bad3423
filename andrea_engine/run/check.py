"""Validate a run directory: every file against its format, its digest and the others."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from andrea_engine.run.check_files import check_files
from andrea_engine.run.check_record import check_events, check_record
from andrea_engine.run.checkpoint import (
    Deep,
    checkpoint_name,
    file_digest,
    full_problem,
    is_of_another_model,
    list_checkpoints,
    parse_name,
)
from andrea_engine.run.config import RunConfig, load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ExitCode, RunError
from andrea_engine.run.events import Event, known_digests, pinned_steps
from andrea_engine.run.findings import Report, opening_problem
from andrea_engine.run.heartbeat import read_heartbeat
from andrea_engine.run.intent import read_intent
from andrea_engine.run.io import read_optional
from andrea_engine.run.lock import is_locked
from andrea_engine.run.loss_entry import loads_bounded
from andrea_engine.run.receipt import receipt_problems
from andrea_engine.run.resolved import read_resolved
from andrea_engine.run.samples import Sample, read_samples
from andrea_engine.run.state import read_state

_TOKENIZER_LIMIT = 64 * 1024 * 1024
CONSOLE_LIMIT = 4096
_ARM = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_INVALID = "`andrea-engine repair` moves it aside; a start passes it over"
_OTHER_MODEL = "check that run.toml and the directory belong together; a start is refused until then"
_ONLY_ONES = "restore it, or another one, from a copy"
_RANGES = (("bigram", 35.0), ("trigram", 35.0), ("english", 20.0), ("character", 10.0), ("total", 100.0))


def check(directory: RunDirectory, deep: Deep | None = None) -> Report:
    """Check everything. Never raises for content.

    Of a checkpoint header, size and name are checked. With `deep` all of its bytes are read as well: its digest is
    compared with the one in the event log, and `deep(path)` finds a problem in its numbers.
    """
    report = Report()
    config = _check_config(directory, report)
    running = is_locked(directory)
    if running:
        report.add("note", "engine.lock", "an engine is running; its newest steps are still in the journal")
    events = check_events(directory, running, report)
    newest = _check_checkpoints(directory, config, events, report, deep)
    committed, covered = check_record(directory, newest, running, config is not None, report)
    if newest is None:
        _explain_no_checkpoint(directory, committed, report)
    _check_sidecars(directory, newest, covered, running, report)
    _check_resolved(directory, config, deep is not None, report)
    _check_pivots(directory, report)
    _check_presence(directory, running, report)
    check_files(directory, running, report)
    return report


def _check_config(directory: RunDirectory, report: Report) -> RunConfig | None:
    try:
        config = load_config(directory)
    except RunError as error:
        report.add("problem", "run.toml", str(error), "correct it, or restore it from a copy", ExitCode.USAGE)
        return None
    report.add("ok", "run.toml", f"{config.n_params:,} parameters, {config.schedule.steps:,} steps planned")
    return config


def _check_checkpoints(
    directory: RunDirectory, config: RunConfig | None, events: list[Event], report: Report, deep: Deep | None
) -> int | None:
    """Check each checkpoint, the pins and what was saved; returns the newest valid step."""
    digests = known_digests(events)
    files = list_checkpoints(directory.path, config.n_params if config else None)
    problems = {file.step: full_problem(file, digests.get(file.step), deep) for file in files}
    valid = [step for step, problem in problems.items() if problem is None]
    for file in files:
        problem = problems[file.step]
        if problem is None:
            known = file.step in digests
            report.add("ok", file.path.name, "valid" if known else "valid, unverified: no digest of it was recorded")
        else:
            other = _OTHER_MODEL if is_of_another_model(file) else _ONLY_ONES
            report.add("problem", file.path.name, problem, _INVALID if valid and other is _ONLY_ONES else other)
    there = {file.step for file in files} | set(_set_aside(directory))
    for step in sorted(pinned_steps(events) - there):
        report.add(
            "warning", checkpoint_name(step), "is pinned, but it is not there any more", "unpin it, or restore it"
        )
    gone = sorted(set(digests) - _removed(events) - there - pinned_steps(events))
    if gone:
        steps = ", ".join(f"{step:,}" for step in gone[:5]) + (", ..." if len(gone) > 5 else "")
        report.add("note", "events.jsonl", f"{len(gone):,} saved checkpoint(s) were removed by hand: step {steps}")
    return max(valid, default=None)


def _explain_no_checkpoint(directory: RunDirectory, committed: int, report: Report) -> None:
    """A run without a checkpoint is a new run, or one that cannot be resumed."""
    if not committed and not list_checkpoints(directory.path):
        report.add("note", "checkpoints", "none that is valid")
        return
    report.add(
        "problem",
        "checkpoints",
        "none that is valid, so the run cannot be resumed",
        "restore one from a copy, or begin a new run elsewhere: random weights would not continue the record",
        ExitCode.NO_CHECKPOINT,
    )


def _removed(events: Iterable[Event]) -> set[int]:
    """Steps whose checkpoints the keep rule removed, by its own word. A later save brings a step back."""
    removed: set[int] = set()
    for event in events:
        steps = event.facts.get("steps")
        if event.kind == "removed" and isinstance(steps, list):
            removed.update(step for step in steps if isinstance(step, int))
        elif event.kind == "save_durable" and event.step is not None:
            removed.discard(event.step)
    return removed


def _set_aside(directory: RunDirectory) -> list[int]:
    """Steps of the checkpoints that roll-backs and repairs have moved to the archive."""
    if directory.archive.is_symlink():
        return []
    names = (path.name for path in directory.archive.glob("*/step_*.bin"))
    return [step for step in map(parse_name, names) if step is not None]


def _check_sidecars(directory: RunDirectory, newest: int | None, covered: int, running: bool, report: Report) -> None:
    record = directory.sample_record()
    try:
        samples = read_samples(record)
    except RunError as error:
        report.add(
            "problem",
            record.name,
            str(error),
            "`andrea-engine repair` moves it aside; the texts are nowhere else, their scores are in events.jsonl",
        )
    else:
        report.add("ok", record.name, f"{len(samples):,} samples")
        text = _sample_contradiction(samples, covered)
        if text and not running:
            report.add("warning", record.name, text, "look where it came from: the engine writes none such")
    try:
        state = read_state(directory.state)
    except RunError as error:
        advice = "`andrea-engine repair` moves it aside and rebuilds it from the loss record"
        report.add("problem", directory.state.name, str(error), advice)
        return
    if state is None:
        report.add("note", directory.state.name, "not there yet")
        return
    report.add("ok", directory.state.name, "readable")
    step = state.get("step")
    if newest is not None and isinstance(step, int) and step != newest and not running:
        report.add(
            "note",
            directory.state.name,
            f"is of step {step:,}, the newest valid checkpoint of step {newest:,}",
            "nothing: the bandit is rebuilt from the loss record at each start",
        )


def _sample_contradiction(samples: list[Sample], covered: int) -> str:
    steps = [sample.step for sample in samples]
    if steps != sorted(steps) or len(set(steps)) != len(steps):
        return "its samples are not in the order of their steps, each once"
    if steps and covered and steps[-1] > covered:
        return f"its newest sample is of step {steps[-1]:,}, after the last recorded step {covered:,}"
    for sample in samples:
        for name, most in _RANGES:
            if sample.scores is not None and not 0.0 <= getattr(sample.scores, name) <= most:
                return f"the {name} score of step {sample.step:,} is out of its range of 0 to {most:.0f}"
    return ""


def _check_resolved(directory: RunDirectory, config: RunConfig | None, deep: bool, report: Report) -> None:
    """What the last start resolved, against run.toml, tokenizer and tokens."""
    name = directory.resolved.name
    try:
        resolved = read_resolved(directory)
    except RunError as error:
        report.add("problem", name, str(error), "`andrea-engine repair` moves it aside; the next start writes it anew")
        return
    count = resolved.get("n_params")
    if config is not None and isinstance(count, int) and count != config.n_params:
        report.add(
            "problem",
            name,
            f"this run was started with {count:,} parameters, but run.toml now asks for {config.n_params:,}",
            "give run.toml the model back that the run was started with",
        )
    _check_tokenizer(directory, resolved.get("tokenizer_sha256"), report)
    arms = resolved.get("arms")
    if deep and isinstance(arms, dict):
        for arm, facts in arms.items():
            known = facts.get("sha256") if isinstance(facts, dict) else None
            if _ARM.fullmatch(str(arm)) and isinstance(known, str):
                _check_tokens(directory, f"{arm}.u16", known, report)


def _check_tokenizer(directory: RunDirectory, known: object, report: Report) -> None:
    path, advice = directory.tokenizer, "restore it from a copy: with another one the weights mean other tokens"
    try:
        data = read_optional(path, _TOKENIZER_LIMIT)
        content = loads_bounded(data) if data is not None else None
    except (OSError, ValueError) as error:
        report.add("problem", path.name, f"cannot be read: {error}", advice)
        return
    if data is None:
        if isinstance(known, str):
            report.add("problem", path.name, "is missing, though this run was started with one", advice)
    elif not isinstance(content, dict):
        report.add("problem", path.name, "is not a JSON object", advice)
    elif isinstance(known, str) and content.get("digest") != known:
        report.add("problem", path.name, "is not the tokenizer that this run was started with", advice)


def _check_tokens(directory: RunDirectory, name: str, known: str, report: Report) -> None:
    path = directory.tokens / name
    try:
        problem = "" if file_digest(path) == known else "its bytes differ from the digest of the last start"
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    if problem:
        advice = "restore it from a copy: the next start encodes the source again, which may give other data"
        report.add("warning", f"{directory.tokens.name}/{name}", problem, advice)


def _check_pivots(directory: RunDirectory, report: Report) -> None:
    for archive in directory.archives():
        problems = receipt_problems(directory, archive)
        for problem in problems:
            report.add("problem", f"archive/{archive.name}", problem, "restore what the receipt names from a copy")
        if not problems:
            report.add("ok", f"archive/{archive.name}", "the receipt agrees with archive, record and checkpoint")
    name, half_done = directory.pivot_intent.name, directory.half_done_archives()
    try:
        intent = read_intent(directory)
    except RunError as error:
        advice = (
            "restore it from a copy, or restart with the files of the half-done archive put back by hand"
            if half_done
            else "`andrea-engine repair` moves it aside: nothing was archived, so the pivot has not begun"
        )
        report.add("problem", name, str(error), advice)
        return
    if intent is not None:
        done = "ahead" if intent.phase == "asked" else "half done: any start completes it"
        advice = "nothing; `andrea-engine pivot RUN` sees it through now"
        report.add("note", name, f"a pivot at step {intent.step:,} is {done}", advice)
    for archive in half_done:
        if intent is None or directory.path / intent.archive != archive:
            text, advice = "has no receipt, so it counts for nothing", "look at it, then remove it"
            report.add("note", f"archive/{archive.name}", text, advice)


def _check_presence(directory: RunDirectory, running: bool, report: Report) -> None:
    """The files that say who is there: heartbeat, lock, log and the console in charge."""
    for path in (directory.lock, directory.log):
        problem = opening_problem(path)
        if problem:
            report.add("problem", path.name, problem, "remove it by hand: the engine makes a file of its own there")
    beat = directory.heartbeat
    if os.path.lexists(beat) and read_heartbeat(beat) is None and not running:
        advice = "nothing, or `andrea-engine repair`: the next start replaces it"
        report.add("warning", beat.name, "is no heartbeat, so how the last engine ended is unknown", advice)
    if not names_console(directory):
        advice = "nothing, or `andrea-engine repair`: the next console takes over"
        report.add("warning", directory.console.name, "does not tell which console is in charge", advice)


def names_console(directory: RunDirectory) -> bool:
    """Whether the note of the console in charge can be read, or there is none."""
    try:
        data = read_optional(directory.console, CONSOLE_LIMIT)
        return not data or isinstance(loads_bounded(data), dict)
    except (OSError, ValueError):
        return False
