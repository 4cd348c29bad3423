"""The series that the chart can show besides the loss, made from a record's columns when they are picked."""

from __future__ import annotations

import math
from array import array

from andrea_tui.feed.axes import AxisMap
from andrea_tui.feed.minmax import MinMax
from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.record import Record
from andrea_tui.feed.smoothing import CHUNK, PIECE

ARM = "arm:"  # a series key: `arm:` and the name of a source


class Pick:
    """One fact of every entry that has it. `sync` brings it up to the record.

    Keys: `loss`, `lr`, `grad_norm`, `power_w`, `rate` (tokens a second), `arm:NAME` (losses of one source's steps).
    While every entry has the fact its x are those of the record; from the first entry without it on, `rows` remembers
    whose values these are (4 bytes more each, and 8 for their x).
    """

    def __init__(self, record: Record, key: str) -> None:
        self.record = record
        self.key = key
        self._begin()

    def _begin(self) -> None:
        self.values = self.record.loss.values if self.key == "loss" else MinMax()
        self.rows: array[int] | None = None
        self._done = 0
        self._made_for = self._state
        self._xs: array[float] = array("d")
        self._xs_of: object = None

    @property
    def _state(self) -> tuple[int, int | None]:
        return self.record.generation, self.record.tokens_per_step if self.key == "rate" else None

    def sync(self, limit: int = CHUNK) -> bool:
        """Take at most `limit` new entries in; True when all are."""
        if self._made_for != self._state:
            self._begin()
        if self.key == "loss":
            return True
        start = self._done
        end = self._done = min(len(self.record), start + limit)
        for begin in range(start, end, PIECE):
            self._add(begin, min(begin + PIECE, end))
        return end == len(self.record)

    def _add(self, start: int, end: int) -> None:
        facts = self._facts(start, end)
        known = [row for row, value in enumerate(facts, start) if not math.isnan(value)]
        if self.rows is None and len(known) < end - start:
            self.rows = array("I", range(start))
        if self.rows is not None:
            self.rows.extend(known)
            facts = [facts[row - start] for row in known]
        self.values.extend([value if value < math.inf else math.nan for value in facts])

    def over(self, axis: AxisMap) -> Series:
        """The series over an axis of the same record that is up to it."""
        if self.rows is None:
            return self.record.loss.over(axis.xs).over_values(self.values)
        made_for = (axis, axis.generation)
        if self._xs_of != made_for:
            self._xs_of = made_for
            del self._xs[:]
        xs = axis.xs
        self._xs.extend([xs[row] for row in self.rows[len(self._xs) :]])
        return self.record.loss.over(self._xs).over_values(self.values)

    def _facts(self, start: int, end: int) -> list[float]:
        """The fact of entries start..end-1: NaN unknown, inf not finite."""
        record, key = self.record, self.key
        if key == "rate":
            tokens = record.tokens_per_step or math.nan
            return [tokens / s if 0.0 < s < math.inf else math.nan for s in record.facts["seconds"][start:end]]
        if key.startswith(ARM):
            name = key.removeprefix(ARM)
            wanted = record.source_names.index(name) if name in record.source_names else -1
            losses = record.loss.values.values[start:end]
            return [
                math.nan if source != wanted else loss if math.isfinite(loss) else math.inf
                for source, loss in zip(record.sources[start:end], losses, strict=True)
            ]
        return record.facts[key][start:end].tolist()
