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

from andrea_engine.run.loss_entry import LossEntry
from andrea_tui.feed.clock import WallClock
from andrea_tui.feed.columns import FACTS, Columns, count_known
from andrea_tui.feed.minmax import MinMax
from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.update import EntryBatch

NO_SOURCE = 0xFFFF
SOURCES_KEPT = 1000  # names; steps of further sources have none here


class Record:
    """Columns of equal length. In `facts` NaN is unknown, +inf is not finite; `known` counts what is known.

    `facts`: seconds, power_w (watts), energy_j (joules, cumulative), lr, grad_norm. `sources[i]` is an index of
    `source_names`. `generation` grows when entries are taken back. `tokens_per_step` is None while it is unknown.
    """

    def __init__(self) -> None:
        self.loss = Series()
        self._ema = MinMax()
        self.ema = self.loss.over_values(self._ema)
        self.facts: dict[str, array[float]] = {name: array(code) for name, code in FACTS.items()}
        self.sources: array[int] = array("H")
        self.source_names: list[str] = []
        self._source_ids: dict[str | None, int] = {None: NO_SOURCE}
        self.known: dict[str, int] = dict.fromkeys([*FACTS, "ema"], 0)
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

    def entry(self, index: int) -> LossEntry:
        """What is kept of an entry, as one."""
        fact = {name: _number(column[index]) for name, column in self.facts.items()}
        return LossEntry(
            step=int(self.steps[index]),
            loss=_number(self.loss.values.values[index]),
            ema=_number(self._ema.values[index]),
            source=self.source(index) or None,
            lr=fact["lr"],
            grad_norm=fact["grad_norm"],
            seconds=fact["seconds"],
            power_w=fact["power_w"],
            energy_j=fact["energy_j"],
        )

    def take(self, batch: EntryBatch) -> Series | None:
        """Add new entries. Returns the losses of those that they replace, if there are any."""
        return self.add(batch.as_columns(), batch.drop_from)

    def add(self, columns: Columns | None, drop_from: int | None) -> Series | None:
        """`take` for entries in columns."""
        dropped = self._drop(drop_from) if drop_from is not None and len(self) else None
        if columns is not None:
            self._add(columns)
        return dropped

    def _drop(self, step: int) -> Series | None:
        keep = bisect_left(self.steps, step)
        dropped = self.loss.truncate_from(step)
        if not len(dropped):
            return None
        self.known["ema"] -= count_known(self._ema.truncate(keep))
        for name, column in self.facts.items():
            self.known[name] -= count_known(column[keep:])
            del column[keep:]
        del self.sources[keep:]
        del self.nonfinite_steps[bisect_left(self.nonfinite_steps, step) :]
        return dropped

    def _add(self, columns: Columns) -> None:
        self.loss.extend(columns.steps, columns.loss)
        self._ema.extend(columns.ema)
        for name, column in columns.facts.items():
            self.facts[name].extend(column)
        for name, count in columns.known.items():
            self.known[name] += count
        self._add_sources(columns)
        self.nonfinite_steps.extend([int(columns.steps[index]) for index in columns.nonfinite])

    def _add_sources(self, columns: Columns) -> None:
        ids = self._source_ids
        for name in columns.source_names:
            if name not in ids and len(self.source_names) < SOURCES_KEPT:
                ids[name] = len(self.source_names)
                self.source_names.append(name or "")
        numbers = [ids.get(name, NO_SOURCE) for name in columns.source_names]
        self.sources.extend([numbers[number] for number in columns.source_ids])


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
