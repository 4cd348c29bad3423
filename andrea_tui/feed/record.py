"""The loss record of one run in memory: a few numbers for each entry of its current branch, in columns.

About 53 bytes an entry: 8 for the step, 9.6 each for loss and recorded EMA with their pyramids, 26 for the facts that
other axes and curves are made from. What is shown besides (another x, a smoothing, another series) is built when it
is picked, and only that: 8 to 21 bytes an entry each. Measured, the whole console: 88 MB with 200,000 entries; with
2,000,000 227 MB, and 286 MB with a series, a smoothing and an axis of its own choice. Keeping the facts is 52 MB of
that, and spares reading 380 MB again, several seconds, for each choice.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from andrea_engine.run.loss_entry import LossEntry
from andrea_tui.feed.clock import WallClock
from andrea_tui.feed.minmax import MinMax
from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.update import EntryBatch

NO_SOURCE = 0xFFFF
SOURCES_KEPT = 1000  # names; steps of further sources have none here

_COLUMNS = {"seconds": "f", "power_w": "f", "energy_j": "d", "lr": "f", "grad_norm": "f"}


class Record:
    """Columns of equal length. In `facts` NaN is unknown, +inf is not finite; `known` counts what is known.

    `facts`: seconds, power_w (watts), energy_j (joules, cumulative), lr, grad_norm. `sources[i]` is an index of
    `source_names`. `generation` grows when entries are taken back. `tokens_per_step` is None while it is unknown.
    """

    def __init__(self) -> None:
        self.loss = Series()
        self._ema = MinMax()
        self.ema = self.loss.over_values(self._ema)
        self.facts: dict[str, array[float]] = {name: array(code) for name, code in _COLUMNS.items()}
        self.sources: array[int] = array("H")
        self.source_names: list[str] = []
        self._source_ids: dict[str | None, int] = {None: NO_SOURCE}
        self.known: dict[str, int] = dict.fromkeys([*_COLUMNS, "ema"], 0)
        self.nonfinite_steps: array[int] = array("q")  # loss or gradient not finite
        self.clock = WallClock()
        self.tokens_per_step: int | None = None

    def __len__(self) -> int:
        return len(self.loss)

    @property
    def steps(self) -> array[float]:
        return self.loss.xs

    @property
    def generation(self) -> int:
        return self.loss.version[0]

    def index_of(self, step: float) -> int | None:
        """Index of the entry of `step`, else of the last one before it, else of the first; None without entries."""
        if not len(self):
            return None
        index = bisect_left(self.steps, step)
        if index == len(self) or self.steps[index] > step:
            index -= 1
        return max(index, 0)

    def source(self, index: int) -> str:
        """The arm that an entry's batch came from; '' when unknown."""
        number = self.sources[index] if index < len(self.sources) else NO_SOURCE
        return self.source_names[number] if number != NO_SOURCE else ""

    def take(self, batch: EntryBatch) -> Series | None:
        """Add new entries. Returns the losses of those that they replace, if there are any."""
        dropped = self._drop(batch.drop_from) if batch.drop_from is not None and len(self) else None
        if batch.entries:
            self._add(batch.entries)
        return dropped

    def _drop(self, step: int) -> Series | None:
        keep = bisect_left(self.steps, step)
        dropped = self.loss.truncate_from(step)
        if not len(dropped):
            return None
        self.known["ema"] -= _count_known(self._ema.truncate(keep))
        for name, column in self.facts.items():
            self.known[name] -= _count_known(column[keep:])
            del column[keep:]
        del self.sources[keep:]
        del self.nonfinite_steps[bisect_left(self.nonfinite_steps, step) :]
        return dropped

    def _add(self, entries: Sequence[LossEntry]) -> None:
        base = len(self)
        self.loss.extend([e.step for e in entries], [math.nan if e.loss is None else e.loss for e in entries])
        for name, values in _fields(entries).items():
            column = self.facts.get(name)
            numbers, known = _numbers(values, "d" if column is None else column.typecode)
            self.known[name] += known
            if column is None:
                self._ema.extend(numbers)
            else:
                column.extend(numbers)
        self._add_sources([e.source for e in entries])
        marked = [e.nonfinite for e in entries]
        if marked.count(msgspec.UNSET) < len(marked):
            for index in [index for index, names in enumerate(marked) if names]:
                self._note_nonfinite(base + index, entries[index])

    def _add_sources(self, names: Sequence[str | None]) -> None:
        ids = self._source_ids
        for name in dict.fromkeys(names):
            if name is not None and name not in ids and len(self.source_names) < SOURCES_KEPT:
                ids[name] = len(self.source_names)
                self.source_names.append(name)
        if len(self.source_names) < SOURCES_KEPT:
            self.sources.extend(map(ids.__getitem__, names))
        else:
            self.sources.extend([ids.get(name, NO_SOURCE) for name in names])

    def _note_nonfinite(self, index: int, entry: LossEntry) -> None:
        self.nonfinite_steps.append(entry.step)
        for name in entry.nonfinite or ():
            if name in self.facts and math.isnan(self.facts[name][index]):
                self.facts[name][index] = math.inf
                self.known[name] += 1


def _fields(entries: Sequence[LossEntry]) -> dict[str, list[float | None]]:
    """Spelt out, because it runs for every entry: by name it would take twice as long."""
    return {
        "ema": [e.ema for e in entries],
        "seconds": [e.seconds for e in entries],
        "power_w": [e.power_w for e in entries],
        "energy_j": [e.energy_j for e in entries],
        "lr": [e.lr for e in entries],
        "grad_norm": [e.grad_norm for e in entries],
    }


def _numbers(values: Sequence[float | None], code: str) -> tuple[array[float], int]:
    """As an array, NaN where a value is unknown, and how many are known."""
    try:
        return array(code, values), len(values)  # type: ignore[arg-type]
    except TypeError:  # None among them
        numbers = array(code, [math.nan if value is None else value for value in values])
        return numbers, _count_known(numbers)


def _count_known(values: array[float]) -> int:
    return len(values) - sum(map(math.isnan, values))
