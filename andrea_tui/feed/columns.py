"""Loss entries in columns: what the console keeps of them, and how one process hands them to another."""

from __future__ import annotations

import math
import struct
from array import array
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import IO

import msgspec

from andrea_engine.run.energy_facts import EnergySpan, energy_span
from andrea_engine.run.loss_entry import LossEntry
from andrea_engine.run.loss_reader import ReaderState

FACTS = {"seconds": "f", "power_w": "f", "energy_j": "d", "lr": "f", "grad_norm": "f"}
"""Facts of an entry and the type of their column: seconds, watts, joules (cumulative), and the last two."""

_TYPES = {"steps": "d", "loss": "d", "ema": "d", **FACTS, "source_ids": "I"}
_SIZES = struct.Struct("<II")  # bytes of a frame's header and of its columns
_LARGEST_HEADER = 1 << 28


class Columns(msgspec.Struct, frozen=True):
    """One or more entries of strictly increasing steps. In the columns NaN is unknown, in `facts` +inf is not finite.

    `known` counts what is known of `ema` and of each fact. `source_ids` are indices of `source_names`. `nonfinite`:
    index of each entry that names numbers that were not finite. `energy` is that of these entries.
    """

    steps: array[float]
    loss: array[float]
    ema: array[float]
    facts: dict[str, array[float]]
    known: dict[str, int]
    source_ids: array[int]
    source_names: list[str | None]
    nonfinite: list[int]
    last: LossEntry
    energy: EnergySpan | None

    def __len__(self) -> int:
        return len(self.steps)


def columns_of(entries: Sequence[LossEntry]) -> Columns:
    """The columns of one or more entries."""
    known: dict[str, int] = {}
    columns: dict[str, array[float]] = {}
    for name, values in _fields(entries).items():
        columns[name], known[name] = _numbers(values, _TYPES[name])
    facts = {name: columns[name] for name in FACTS}
    del known["loss"]
    marked = [entry.nonfinite for entry in entries]
    nonfinite: list[int] = []
    if marked.count(msgspec.UNSET) < len(marked):
        nonfinite = [index for index, names in enumerate(marked) if names]
    for index in nonfinite:
        for name in entries[index].nonfinite or ():
            if name in facts and math.isnan(facts[name][index]):
                facts[name][index] = math.inf
                known[name] += 1
    ids: defaultdict[str | None, int] = defaultdict(count().__next__)
    source_ids = array("I", [ids[entry.source] for entry in entries])
    return Columns(
        steps=array("d", [entry.step for entry in entries]),
        loss=columns["loss"],
        ema=columns["ema"],
        facts=facts,
        known=known,
        source_ids=source_ids,
        source_names=list(ids),
        nonfinite=nonfinite,
        last=entries[-1],
        energy=energy_span(entries),
    )


def _fields(entries: Sequence[LossEntry]) -> dict[str, list[float | None]]:
    """Spelt out, because it runs for every entry: by name it would take twice as long."""
    return {
        "loss": [e.loss for e in entries],
        "ema": [e.ema for e in entries],
        "seconds": [e.seconds for e in entries],
        "power_w": [e.power_w for e in entries],
        "energy_j": [e.energy_j for e in entries],
        "lr": [e.lr for e in entries],
        "grad_norm": [e.grad_norm for e in entries],
    }


def _numbers(values: Sequence[float | None], code: str) -> tuple[array[float], int]:
    """As an array, NaN where a value is unknown, and how many are known."""
    numbers: array[float] = array(code)
    try:
        numbers.frombytes(struct.pack(f"{len(values)}{code}", *values))  # in two thirds of the time of `array`
    except (struct.error, OverflowError):  # None among them, or more than 32 bits can hold
        numbers.extend([math.nan if value is None else value for value in values])
        return numbers, count_known(numbers)
    return numbers, len(values)


def count_known(values: array[float]) -> int:
    """How many are not NaN."""
    return len(values) - sum(map(math.isnan, values))


# -- between processes ------------------------------------------------------------------------------------------------


class Header(msgspec.Struct, kw_only=True):
    """What goes before the columns of a frame. `state`: of the reader behind these entries; `done`: they were the last.

    `drop_from`: the step from which earlier entries are replaced by these, None where none are. Without entries there
    is no `last`.
    """

    state: ReaderState
    done: bool = False
    drop_from: int | None = None
    count: int = 0
    known: dict[str, int] = {}
    source_names: list[str | None] = []
    nonfinite: list[int] = []
    last: LossEntry | None = None
    energy: EnergySpan | None = None


def write_frame(file: IO[bytes], header: Header, columns: Columns | None) -> None:
    """One frame; the header gets what it has to tell of the columns."""
    body = b""
    if columns is not None:
        header.count, header.known = len(columns), columns.known
        header.source_names, header.nonfinite = columns.source_names, columns.nonfinite
        header.last, header.energy = columns.last, columns.energy
        numbers = [columns.steps, columns.loss, columns.ema, *columns.facts.values()]
        body = b"".join([*(memoryview(column) for column in numbers), memoryview(columns.source_ids)])
    head = msgspec.json.encode(header)
    file.write(_SIZES.pack(len(head), len(body)))
    file.write(head)
    file.write(body)


def read_frame(file: IO[bytes]) -> tuple[Header, Columns | None] | None:
    """The next frame; None where the writer has ended, in the middle of one or not."""
    sizes = file.read(_SIZES.size)
    if len(sizes) < _SIZES.size:
        return None
    head_size, body_size = _SIZES.unpack(sizes)
    if head_size > _LARGEST_HEADER:
        return None
    head, body = file.read(head_size), file.read(body_size)
    if len(head) < head_size or len(body) < body_size:
        return None
    header = msgspec.json.decode(head, type=Header)
    return header, None if header.last is None else _columns(header, memoryview(body), header.last)


def _columns(header: Header, body: memoryview, last: LossEntry) -> Columns:
    columns: dict[str, array[float]] = {}
    start = 0
    for name, code in _TYPES.items():
        column: array[float] = array(code)
        stop = start + header.count * column.itemsize
        column.frombytes(body[start:stop])
        columns[name] = column
        start = stop
    return Columns(
        steps=columns["steps"],
        loss=columns["loss"],
        ema=columns["ema"],
        facts={name: columns[name] for name in FACTS},
        known=header.known,
        source_ids=columns["source_ids"],  # type: ignore[arg-type]
        source_names=header.source_names,
        nonfinite=header.nonfinite,
        last=last,
        energy=header.energy,
    )
