"""Reading what an engine left in a run directory, strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import Event, read_events
from andrea_engine.run.loss_entry import LossEntry
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.samples import read_samples


def strict_json(path: Path) -> object:
    """Parse as the standard demands: NaN and Infinity are errors."""
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def refuse(word: str) -> NoReturn:
    """`parse_constant` of a strict parser."""
    raise AssertionError(f"{word} is not JSON")


def entries(directory: RunDirectory) -> list[LossEntry]:
    """The committed loss record."""
    reader = LossReader(directory.loss)
    found = reader.read_all()
    assert not reader.damage.lines
    return found


def steps(directory: RunDirectory) -> list[int]:
    return [entry.step for entry in entries(directory)]


def checkpoints(directory: RunDirectory) -> list[int]:
    """Steps of the files named like checkpoints, in order."""
    return sorted(int(path.stem.removeprefix("step_")) for path in directory.path.glob("step_*.bin"))


def checkpoint(directory: RunDirectory, step: int) -> Path:
    return directory.path / f"step_{step:06d}.bin"


def events(directory: RunDirectory, kind: str, **facts: object) -> list[Event]:
    """Events of a kind whose facts include `facts`."""
    return [e for e in read_events(directory.events) if e.kind == kind and facts.items() <= e.facts.items()]


def notices(directory: RunDirectory) -> str:
    return "\n".join(event.text("text") for event in events(directory, "notice"))


def sample_steps(directory: RunDirectory) -> list[int]:
    return [sample.step for sample in read_samples(directory.samples)]


def trained(directory: RunDirectory) -> list[tuple[object, ...]]:
    """What training determines of each sample; times and the session are measurements."""
    return [(s.step, s.text, s.scores, s.source, s.loss, s.seed) for s in read_samples(directory.samples)]


def assert_same_run(one: RunDirectory, other: RunDirectory, step: int) -> None:
    """Both hold the same weights, moments, loss record and samples at `step`."""
    assert checkpoint(one, step).read_bytes() == checkpoint(other, step).read_bytes()
    first, second = entries(one), entries(other)
    assert [e.step for e in first] == [e.step for e in second]
    different = [a.step for a, b in zip(first, second, strict=True) if not a.same_training(b)]
    assert different == []
    assert trained(one) == trained(other)
