"""What the tests of the loss record share: directories as an earlier process left them, and strict reading."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.loss_entry import LossEntry
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.loss_record import LossRecord, Recovery

from .helpers import array_text, entry, strict


def recorded(run: RunDirectory) -> list[LossEntry]:
    """The entries of `.loss.json`, which must be strict JSON; read with `json` and compared with our reader."""
    items = strict(run.loss.read_bytes())
    assert isinstance(items, list)
    entries = LossReader(run.loss).read_all()
    assert [json.loads(e.to_line()) for e in entries] == items
    return entries


def journal(run: RunDirectory) -> list[LossEntry]:
    return LossReader(run.journal).read_all()


def put(run: RunDirectory, record: Iterable[LossEntry], waiting: Iterable[LossEntry] = ()) -> None:
    """A directory as an earlier process left it."""
    run.loss.write_bytes(array_text(record))
    run.journal.write_bytes(b"".join(e.to_line() + b"\n" for e in waiting))


@contextmanager
def opened(run: RunDirectory, step: int, **options: bool) -> Iterator[tuple[LossRecord, Recovery]]:
    record = LossRecord(run)
    recovery = record.recover(step, **options)
    yield record, recovery
    record.close()


def recover(run: RunDirectory, step: int, **options: bool) -> Recovery:
    with opened(run, step, **options) as (_, recovery):
        return recovery


def span(first: int, last: int, **fields: int) -> list[LossEntry]:
    return [entry(step, **fields) for step in range(first, last + 1)]  # type: ignore[arg-type]
