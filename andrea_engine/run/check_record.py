"""Check what a run has written down: loss record, journal and event log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import Event, parse_event
from andrea_engine.run.findings import Report, opening_problem
from andrea_engine.run.io import open_regular
from andrea_engine.run.loss_entry import LossEntry, current_branch
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.loss_record import is_closed
from andrea_engine.run.tailing import LineTail

_LOST = "nothing can bring them back; training goes on from the newest checkpoint all the same"
_COPY = "restore the file from a copy of the run, if there is one"


@dataclass(frozen=True, slots=True)
class EventScan:
    """An event log, read whole. `damaged` lines, the first at `first_line`; `torn`: bytes behind the last newline."""

    events: list[Event]
    damaged: int
    first_line: int
    torn: bytes


def scan_events(path: Path) -> EventScan:
    """Read an event log; one that is missing or cannot be opened is empty."""
    tail = LineTail(path)
    events: list[Event] = []
    damaged = first = number = 0
    while lines := tail.read():
        for line in lines:
            number += 1
            event = parse_event(line)
            if event is not None:
                events.append(event)
            elif line.strip():
                damaged += 1
                first = first or number
    return EventScan(events, damaged, first, _behind(path, tail.offset))


def _behind(path: Path, offset: int) -> bytes:
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            file.seek(offset)
            return file.read()
    except OSError:
        return b""


def check_events(directory: RunDirectory, running: bool, report: Report) -> list[Event]:
    """Check the event log; returns what can be read of it."""
    name = directory.events.name
    problem = opening_problem(directory.events)
    if problem:
        report.add("problem", name, problem, "`andrea-engine repair` moves it aside, so that there is a log again")
        return []
    scan = scan_events(directory.events)
    if scan.damaged:
        report.add(
            "warning",
            name,
            f"{scan.damaged:,} unreadable line(s), the first at line {scan.first_line}; the others are read",
            "look at the disk; a checkpoint whose digest stood there counts as unverified",
        )
    if scan.torn and not running:
        report.add(
            "note",
            name,
            f"ends in {len(scan.torn):,} bytes without a newline, of a writer that was killed",
            "nothing, or `andrea-engine repair`: the next event begins a new line",
        )
    return scan.events


def check_record(
    directory: RunDirectory, newest: int | None, running: bool, trainable: bool, report: Report
) -> tuple[int, int]:
    """Check record and journal against each other and the newest valid checkpoint.

    Returns the last step that is committed, and the last one with those of the journal; 0 where there is none.
    """
    # The journal first: an entry that is committed in between is then seen twice and not missed.
    journal = _journal(directory, running, report)
    entries = _record(directory, running, trainable, report)
    branch = current_branch(entries)
    path = directory.loss_record()
    covered = max((entry.step for entry in (*branch, *journal)), default=0)
    if newest is not None and covered < newest:
        report.add(
            "problem",
            path.name,
            f"ends at step {covered:,}, before the newest checkpoint of step {newest:,}",
            f"{_COPY}; without it the steps between are missing for ever",
        )
    if journal and not running:
        report.add(
            "note",
            directory.journal.name,
            f"{len(journal):,} entries after the last commit; a start settles them",
            "nothing: those up to the newest checkpoint are committed, the later steps are trained again",
        )
    first = journal[0].step if journal else 0
    if branch and not running and first > branch[-1].step + 1:
        report.add(
            "problem",
            directory.journal.name,
            f"begins at step {first:,}, but the record ends at step {branch[-1].step:,}",
            f"the steps between are lost; {_LOST}",
        )
    if newest is not None and not running and branch and branch[-1].step > newest:
        report.add(
            "note",
            path.name,
            f"ends at step {branch[-1].step:,}, after the newest valid checkpoint of step {newest:,}",
            "nothing: the next start trains those steps again and the record keeps both",
        )
    return branch[-1].step if branch else 0, covered


def _journal(directory: RunDirectory, running: bool, report: Report) -> list[LossEntry]:
    name = directory.journal.name
    problem = opening_problem(directory.journal)
    if problem:
        report.add("problem", name, problem, "`andrea-engine repair` moves it aside; the next start writes a new one")
        return []
    reader = LossReader(directory.journal, lines=True)
    entries = reader.read_all()
    lines, torn = reader.damage.lines, reader.torn
    if (lines or torn or (reader.size and not entries)) and not running:
        what = [f"{lines:,} unreadable line(s)"] if lines else []
        what += [f"a half-written entry of {torn:,} bytes"] if torn else []
        what = what or ["no entry at all"]
        report.add(
            "note",
            name,
            f"holds {' and '.join(what)}, of an engine that was killed",
            "nothing, or `andrea-engine repair`: a start drops them and trains those steps again",
        )
    return entries


def _record(directory: RunDirectory, running: bool, trainable: bool, report: Report) -> list[LossEntry]:
    path = directory.loss_record()
    problem = opening_problem(path)
    if problem:
        report.add("problem", path.name, problem, f"it has to be a file of its own; {_COPY}")
        return []
    reader = LossReader(path)
    entries = reader.read_all()
    whole = _form(reader, running, trainable, report)
    if not entries:
        report.add("note", path.name, "no entries yet")
        return entries
    branch = current_branch(entries)
    found = _contradictions(entries, branch, trainable)
    for text in found:
        report.add("problem", path.name, text, f"{_COPY}; the engine itself never writes such a record")
    if whole and not found:
        again = len(entries) - len(branch)
        extra = f", {again:,} of an abandoned branch" if again else ""
        steps = f"steps {branch[0].step:,} to {branch[-1].step:,}"
        report.add("ok", path.name, f"{len(branch):,} entries, {steps}{extra}")
    return entries


def _form(reader: LossReader, running: bool, trainable: bool, report: Report) -> bool:
    """Whether the file is well-formed; what is not is reported."""
    name, damage = reader.path.name, reader.damage
    if damage.lines:
        report.add(
            "problem",
            name,
            damage.sentence,
            f"{_COPY}; else look at it, and train with --accept-damaged-record: no crash leaves such lines",
        )
    if reader.unparseable:
        report.add("problem", name, f"not JSON: {reader.unparseable}", _COPY)
    elif trainable and reader.size and not (reader.lines_format and reader.array):
        report.add("problem", name, "is not a JSON array with one entry a line; it is never appended to", _COPY)
    elif trainable and reader.size and not running and not reader.torn and not is_closed(reader):
        report.add(
            "note",
            name,
            "its array is not closed, as a kill during a commit leaves it",
            "nothing, or `andrea-engine repair`: the next start closes it",
        )
    if reader.torn and not running:
        report.add(
            "note",
            name,
            f"ends in a half-written entry of {reader.torn:,} bytes; the next start cuts it off",
            "nothing, or `andrea-engine repair`: what is cut off is kept in archive/",
        )
    return not damage.lines and not reader.unparseable


def _contradictions(entries: Sequence[LossEntry], branch: Sequence[LossEntry], trainable: bool) -> list[str]:
    """What one entry a step, in order, from the first step on, is broken by."""
    found = []
    gaps = sum(1 for a, b in pairwise(branch) if b.step != a.step + 1)
    if gaps:
        found.append(f"{gaps:,} gap(s) between step {branch[0].step:,} and {branch[-1].step:,}")
    if trainable and branch[0].step != 1:
        found.append(f"begins at step {branch[0].step:,} and not at step 1")
    # A fall-back begins a new session: within one, no step can come again.
    again = [b.step for a, b in pairwise(entries) if b.step <= a.step and a.session == b.session is not None]
    if again:
        found.append(f"{len(again):,} step(s) recorded twice in one session, the first is {again[0]:,}")
    policies = [(entry.policy, entry.step) for entry in branch if entry.policy is not None]
    back = [step for (before, _), (after, step) in pairwise(policies) if after < before]
    if back:
        found.append(f"goes back to an earlier policy at step {back[0]:,}")
    return found
