"""Damaged JSON, JSON lines and TOML for everything that reads them: the documented error, or none."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from andrea_engine.data.token_cache import MANIFEST, Manifest, _read_manifest
from andrea_engine.data.tokenizer import Tokenizer
from andrea_engine.run.check import check
from andrea_engine.run.condition import condition
from andrea_engine.run.config import load_config
from andrea_engine.run.directory import RECEIPT, RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import EventLog, known_digests, pinned_steps, read_events
from andrea_engine.run.heartbeat import read_heartbeat, write_heartbeat
from andrea_engine.run.intent import read_intent
from andrea_engine.run.launch import engine_status
from andrea_engine.run.lock import _holder
from andrea_engine.run.loss_entry import LossEntry
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.pivot_sequence import finish
from andrea_engine.run.policy import parse_policy
from andrea_engine.run.receipt import read_receipt, receipt_problems
from andrea_engine.run.resolved import live_tokens, read_resolved, unavailable
from andrea_engine.run.samples import read_samples
from andrea_engine.run.state import read_state
from andrea_engine.run.summary import summarise
from andrea_engine.run.summary_text import as_json, render
from andrea_tui.control import Control, Owner
from andrea_tui.feed.runs import RunsReader
from andrea_tui.feed.tailer import DirectoryReader
from andrea_tui.settings import Settings
from tests.faults.soak.mutation import mutate
from tests.faults.soak.shared import place, shared
from tests.run import pivot_support
from tests.run.helpers import beat, entry

SETTINGS = "habits.json"  # lies in the run only here
POLICY = "policy.toml"
WHOLE_SHARE = 0.15  # of the trials look at the whole run with the damaged file in it


@dataclass(frozen=True, slots=True)
class Reader:
    """`read` of the file `name` of a run; it may raise RunError where `refuses`, and nothing else."""

    name: str
    read: Callable[[RunDirectory], object]
    refuses: bool = False


def _entries(path: Path) -> list[LossEntry]:
    reader = LossReader(path)
    entries = [*reader.read(), *reader.read_all()]
    assert all(isinstance(e.step, int) and e.step >= 0 for e in entries), "an entry without a step"
    for one in entries:
        json.loads(one.to_line(), parse_constant=_refuse)
    return entries


def _refuse(word: str) -> object:
    raise AssertionError(f"{word} would be written into the record")


def _resolved(directory: RunDirectory) -> object:
    resolved = read_resolved(directory)
    return live_tokens(resolved), unavailable(resolved)


def _events(directory: RunDirectory) -> object:
    events = read_events(directory.events)
    return known_digests(events), pinned_steps(events)


def _archive(directory: RunDirectory) -> Path:
    return directory.path / "archive/pivot-0001-step-000040"


def _locked_by(directory: RunDirectory) -> object:
    """The words for who holds the lock, without holding it."""
    return _holder(directory)


READERS = (
    Reader("run.toml", load_config, refuses=True),
    Reader(POLICY, lambda d: parse_policy((d.path / POLICY).read_bytes().decode(errors="replace"), ""), refuses=True),
    Reader("run.lock.json", _resolved, refuses=True),
    Reader("harris_segments.json", lambda d: Tokenizer.load(d.tokenizer), refuses=True),
    Reader(f"tokens/{MANIFEST}", lambda d: _read_manifest(d.tokens)),
    Reader(".loss.json", lambda d: _entries(d.loss)),
    Reader(".loss.journal.jsonl", lambda d: _entries(d.journal)),
    Reader("other.loss.json", lambda d: _entries(d.path / "other.loss.json")),
    Reader(".samples.json", lambda d: read_samples(d.samples), refuses=True),
    Reader(".state.json", lambda d: read_state(d.state), refuses=True),
    Reader("events.jsonl", _events),
    Reader("engine.json", lambda d: (read_heartbeat(d.heartbeat), engine_status(d), condition(d))),
    Reader("pivot.json", read_intent, refuses=True),
    Reader(f"archive/pivot-0001-step-000040/{RECEIPT}", lambda d: read_receipt(_archive(d) / RECEIPT), refuses=True),
    Reader(f"archive/pivot-0001-step-000040/{RECEIPT}", lambda d: receipt_problems(d, _archive(d))),
    Reader("console.json", lambda d: Control(d, watch=False).read_only_reason()),
    Reader("engine.lock", _locked_by),
    Reader(SETTINGS, lambda d: Settings(d.path / SETTINGS).of(d.path)),
)


@shared
def _template(stack: contextlib.ExitStack) -> Path:
    """A run with every file there is: a finished pivot, another one asked for, a console in charge."""
    directory = pivot_support.build(place() / "json/run")
    pivot_support.pending(directory)
    finish(directory, by="a trial")
    pivot_support.pending(
        directory, generation=2, archive="archive/pivot-0002-step-000040", phase="asked", reached=None
    )
    directory.journal.write_bytes(b"".join(entry(step).to_line() + b"\n" for step in range(41, 46)))
    document = [{"step": step, "loss": 9.0 / step} for step in range(1, 20)]
    (directory.path / "other.loss.json").write_text(json.dumps(document))
    write_heartbeat(directory.heartbeat, beat(note="reading", exit_code=None))
    directory.console.write_bytes(msgspec.json.encode(Owner(1, 2, "boot")))
    directory.lock.write_text('{"pid": 1, "host": "somewhere"}\n')
    (directory.path / SETTINGS).write_text(json.dumps({"runs": {"a": {"theme": "dark", "smoothing": 0.9}}}))
    (directory.path / POLICY).write_text(pivot_support.NEW_POLICY)
    tokenizer = Tokenizer([])
    tokenizer.save(directory.tokenizer)
    arms = {"chat": {"tokens": 900, "documents": 3, "sha256": "0" * 64}}
    resolved = {"format": 1, "tokenizer_sha256": tokenizer.digest, "arms": arms, "unavailable": {"irc": "gone"}}
    directory.resolved.write_text(json.dumps(resolved))
    directory.tokens.mkdir()
    (directory.tokens / MANIFEST).write_bytes(msgspec.json.encode(Manifest(context=2, arms={}, unavailable={"a": "b"})))
    events = EventLog(directory.events, 1)
    for kind in ("sample", "removed", "pin", "unpin", "validation", "halt", "energy", "stop"):
        events.append(kind, step=40, steps=[10], total=55.5, reason="why", complete=True, exit_code=0)
    return directory.path


def trial(seed: int, scratch: Path) -> None:
    choice = random.Random(seed)
    directory = RunDirectory(scratch / "run")
    template = _template()
    reader = choice.choice(READERS)
    whole = choice.random() < WHOLE_SHARE
    if whole or "archive" in reader.name:
        shutil.copytree(template, directory.path)
    else:
        (directory.path / reader.name).parent.mkdir(parents=True)
        if reader.name != "run.toml":
            shutil.copy(template / "run.toml", directory.path)
    damaged = mutate((template / reader.name).read_bytes(), choice)
    (directory.path / reader.name).write_bytes(damaged)
    _quietly(reader.read, directory, reader.refuses, reader.name)
    if whole:
        _quietly(check, directory, False, f"check, {reader.name}")
        for what in (summarise, _printed, _polled, _listed):
            _quietly(what, directory, False, f"{what.__name__.strip('_')}, {reader.name}")


def _quietly(read: Callable[[RunDirectory], object], directory: RunDirectory, refuses: bool, what: str) -> None:
    try:
        read(directory)
    except AssertionError:
        raise
    except Exception as error:
        if refuses and isinstance(error, RunError) and str(error):
            return
        raise AssertionError(f"{what}: raised {type(error).__name__}: {str(error)[:300]}") from error


def _printed(directory: RunDirectory) -> object:
    summary = summarise(directory)
    json.loads(as_json(summary), parse_constant=_refuse)
    return render(summary).encode()


def _polled(directory: RunDirectory) -> object:
    reader = DirectoryReader(directory)
    return reader.poll(), reader.poll()


def _listed(directory: RunDirectory) -> object:
    return RunsReader(Path(os.path.dirname(directory.path))).poll()
