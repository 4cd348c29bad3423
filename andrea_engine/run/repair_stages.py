"""What there is to repair in a run, stage by stage, in the order in which it is done."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from andrea_engine.run.check import names_console
from andrea_engine.run.check_record import scan_events
from andrea_engine.run.checkpoint import (
    choose_checkpoint,
    full_problem,
    is_of_another_model,
    list_checkpoints,
)
from andrea_engine.run.config import RunConfig, load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import known_digests, parse_event, read_events
from andrea_engine.run.findings import opening_problem
from andrea_engine.run.heartbeat import read_heartbeat
from andrea_engine.run.intent import PivotIntent, agreed_step, guard, read_intent
from andrea_engine.run.io import TEMP_PATTERN, atomic_write, open_regular, read_regular
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.loss_record import close_array, is_closed
from andrea_engine.run.pivot_sequence import finish_locked
from andrea_engine.run.plain import size
from andrea_engine.run.process import is_alive
from andrea_engine.run.resolved import read_resolved
from andrea_engine.run.samples import read_samples, write_samples
from andrea_engine.run.state import read_state, write_state
from andrea_engine.run.workshop import Repair, Workshop


def _temporaries(workshop: Workshop) -> Iterator[Repair]:
    """Half-written files of dead processes, wherever one may write."""
    directory = workshop.directory
    archives = [directory.archive / name for name in _names(directory.archive)]
    for folder in (directory.path, directory.tokens, directory.archive, *archives):
        for name in _names(folder) if folder == directory.path or not folder.is_symlink() else ():
            match = TEMP_PATTERN.match(name)
            # This process has none: it is not in the middle of a write.
            if match is not None and (int(match["pid"]) == os.getpid() or not is_alive(int(match["pid"]))):
                what = f"half-written file of an earlier process, {size(_bytes(folder / name))}"
                yield workshop.moving(folder / name, what, solves=False)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _bytes(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _events(workshop: Workshop) -> Iterator[Repair]:
    """The torn end of the event log. The file is never replaced: locks are on it, and readers follow it."""
    path = workshop.directory.events
    problem = opening_problem(path)
    if problem:
        yield workshop.moving(path, problem)
        return
    torn = scan_events(path).torn
    if torn and parse_event(torn) is not None:
        sentence = "its last event lacks its newline, which is added"
        yield Repair(path.name, sentence, partial(_complete_line, path), solves=False)
    elif torn:
        sentence = f"ends in {len(torn):,} bytes of a half-written event; they are cut off and kept in {workshop.place}"
        yield Repair(path.name, sentence, partial(_cut_event, workshop, path), solves=False)


def _complete_line(path: Path) -> None:
    descriptor = open_regular(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cut_event(workshop: Workshop, path: Path) -> None:
    torn = scan_events(path).torn
    workshop.keep(path, torn)
    with guard(workshop.directory, what="events"):
        descriptor = open_regular(path, os.O_RDWR)
        try:
            end = os.fstat(descriptor).st_size - len(torn)
            # A console may have added an event behind the torn one meanwhile: then there is nothing to cut any more.
            if end >= 0 and os.pread(descriptor, len(torn) + 1, end) == torn:
                os.ftruncate(descriptor, end)
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _checkpoints(workshop: Workshop) -> Iterator[Repair]:
    """Invalid checkpoints, unless none is valid: then all stay where they are, for whoever has to look at them."""
    directory = workshop.directory
    config = _config(directory)
    files = list_checkpoints(directory.path, config.n_params if config else None)
    digests = known_digests(read_events(directory.events))
    problems = [full_problem(file, digests.get(file.step), workshop.deep) for file in files]
    if None not in problems:
        return
    for file, problem in zip(files, problems, strict=True):
        if problem is not None and not is_of_another_model(file):
            yield workshop.moving(file.path, problem)


def _pivot(workshop: Workshop) -> Iterator[Repair]:
    directory = workshop.directory
    path = directory.pivot_intent
    try:
        intent = read_intent(directory)
    except RunError as error:
        if not directory.half_done_archives():
            yield workshop.moving(path, f"{error}; nothing was archived, so that pivot has not begun")
        return
    if intent is None or intent.phase == "asked":
        return
    if intent.phase == "applying" or _is_due(workshop, intent):
        sentence = f"the pivot at step {intent.step:,} to policy {intent.generation} is half done; it is completed"
        finish = partial(finish_locked, directory, by="andrea-engine repair", deep=workshop.deep)
        yield Repair(path.name, sentence, finish, solves=False)


def _is_due(workshop: Workshop, intent: PivotIntent) -> bool:
    """Whether the newest checkpoint is that of the agreed step, so that the pivot can be carried out now."""
    directory = workshop.directory
    config = _config(directory)
    if config is None:
        return False
    digests = known_digests(read_events(directory.events))
    try:
        chosen = choose_checkpoint(directory.path, config.n_params, digests, workshop.deep or (lambda path: None))
    except RunError:
        return False
    step = chosen.file.step if chosen else 0
    due = agreed_step(intent, step, config.checkpoint.every, config.schedule.steps)
    return chosen is not None and due == step


def _record(workshop: Workshop) -> Iterator[Repair]:
    """The end of the loss record. Nothing before its last complete entry is ever touched."""
    directory = workshop.directory
    path = directory.loss
    if opening_problem(path) or not path.exists():
        return
    reader = LossReader(path)
    reader.read_all()
    if not reader.size or not (reader.lines_format and reader.array) or is_closed(reader):
        return
    sentence = "its array is not closed; it is closed"
    if reader.torn:
        sentence = f"ends in a half-written entry of {reader.torn:,} bytes; it is cut off and kept in archive/"
    yield Repair(path.name, sentence, partial(_close, directory), solves=False)


def _close(directory: RunDirectory) -> None:
    reader = LossReader(directory.loss)
    reader.read_all()
    close_array(directory, reader)


def _journal(workshop: Workshop) -> Iterator[Repair]:
    path = workshop.directory.journal
    problem = opening_problem(path)
    if problem:
        yield workshop.moving(path, problem)
        return
    reader = LossReader(path, lines=True)
    entries = reader.read_all()
    if reader.torn or reader.damage.lines or (reader.size and not entries):
        sentence = f"holds lines that cannot be read; the others stay, the original is kept in {workshop.place}"
        yield Repair(path.name, sentence, partial(_rewrite_journal, workshop, path), solves=False)


def _rewrite_journal(workshop: Workshop, path: Path) -> None:
    entries = LossReader(path, lines=True).read_all()
    workshop.keep(path, read_regular(path))
    atomic_write(path, b"".join(entry.to_line() + b"\n" for entry in entries))


def _samples(workshop: Workshop) -> Iterator[Repair]:
    path = workshop.directory.samples
    try:
        read_samples(path)
    except RunError as error:
        sentence = f"{error}; it moves to {workshop.place}, and the list begins anew: the texts are nowhere else"
        yield Repair(path.name, sentence, partial(_restart_samples, workshop, path))


def _restart_samples(workshop: Workshop, path: Path) -> None:
    workshop.move(path)
    write_samples(path, [])


def _state(workshop: Workshop) -> Iterator[Repair]:
    """The snapshot of the bandit, which is a fold over the loss record."""
    path = workshop.directory.state
    try:
        if read_state(path) is not None:
            return
        reason, unreadable = "is missing", False
    except RunError as error:
        reason, unreadable = str(error), True
    state = _rebuilt(workshop)
    if state is not None:
        moved = f"it moves to {workshop.place} and " if unreadable else ""
        sentence = f"{reason}; {moved}is rebuilt from the loss record"
        yield Repair(path.name, sentence, partial(_write_state, workshop, path, state), solves=unreadable)
    elif unreadable:
        yield workshop.moving(path, f"{reason}; the next start rebuilds it")


def _write_state(workshop: Workshop, path: Path, state: dict[str, object]) -> None:
    if os.path.lexists(path):
        workshop.move(path)
    write_state(path, state)


def _rebuilt(workshop: Workshop) -> dict[str, object] | None:
    directory = workshop.directory
    config = _config(directory)
    files = list_checkpoints(directory.path, config.n_params if config else None)
    newest = next((file.step for file in files if file.valid), None)
    if workshop.rebuild is None or config is None or newest is None:
        return None
    try:
        state = workshop.rebuild(directory, newest)
    except RunError:
        return None
    return state if state.get("step") == newest else None  # where the record is short, it is that of an earlier step


def _resolved(workshop: Workshop) -> Iterator[Repair]:
    try:
        read_resolved(workshop.directory)
    except RunError as error:
        yield workshop.moving(workshop.directory.resolved, f"{error}; the next start writes it anew")


def _heartbeat(workshop: Workshop) -> Iterator[Repair]:
    path = workshop.directory.heartbeat
    if os.path.lexists(path) and read_heartbeat(path) is None:
        yield workshop.moving(path, "is no heartbeat; the next start writes one", solves=False)


def _console(workshop: Workshop) -> Iterator[Repair]:
    if not names_console(workshop.directory):
        what = "does not tell which console is in charge; the next one takes over"
        yield workshop.moving(workshop.directory.console, what, solves=False)


def _config(directory: RunDirectory) -> RunConfig | None:
    try:
        return load_config(directory)
    except RunError:
        return None


STAGES: tuple[Callable[[Workshop], Iterator[Repair]], ...] = (
    _events,  # first: each repair is put down there
    _temporaries,
    _checkpoints,
    _pivot,
    _record,
    _journal,
    _samples,
    _state,
    _resolved,
    _heartbeat,
    _console,
)
