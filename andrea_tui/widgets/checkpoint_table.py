"""Which checkpoints are there, and what is each of them worth? The table of the checkpoint browser."""

from __future__ import annotations

import time

import msgspec

from andrea_tui.feed.checkpoints import CheckpointListing, CheckpointRow
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import duration, fixed, human_count, points, size_bytes
from andrea_tui.widgets.rows import Row, row_width, shortened
from andrea_tui.widgets.status_bar import disk_runs
from andrea_tui.widgets.table import TablePanel

SIZE_FROM, AGE_FROM, STATE_FROM = 71, 62, 44  # cells of the table from which on it has these columns
STATES = {
    "valid": ("✓", ""),
    "verified": ("✓", "good"),
    "no digest": ("?", "warn"),
    "reading": ("◐", "warn"),
    "differs": ("✕", "bad"),
    "invalid": ("✕", "bad"),
}


class Verdict(msgspec.Struct, frozen=True):
    """What is known of a file whose bytes were all read, or are being read: one of `STATES`, and a clause."""

    state: str
    words: str


class CheckpointTable(TablePanel):
    """`verdicts`: by the very file that was read."""

    def __init__(self) -> None:
        super().__init__(id="checkpoints")
        self.listing: CheckpointListing | None = None
        self.verdicts: dict[tuple[int, int, int], Verdict] = {}
        self._on: int | None = None  # step of the cursor's checkpoint, remembered while nothing is listed

    @property
    def count(self) -> int:
        return len(self.listing.rows) if self.listing else 0

    @property
    def chosen(self) -> CheckpointRow | None:
        """The checkpoint under the cursor."""
        return self.listing.rows[min(self.cursor, self.count - 1)] if self.listing and self.count else None

    def take(self, listing: CheckpointListing) -> None:
        """A new list; the cursor stays on its checkpoint, the newest one too: what a key does must not change under the
        hand. Only from one that is gone it goes to the nearest."""
        on = self._on = self.chosen.step if self.chosen is not None else self._on
        self.listing = listing
        if on is not None and listing.rows:
            self.cursor = min(range(self.count), key=lambda i: (abs(listing.rows[i].step - on), listing.rows[i].step))

    def state(self, row: CheckpointRow) -> str:
        if not row.valid:
            return "invalid"
        verdict = self.verdicts.get(row.stamp)
        return "valid" if verdict is None else verdict.state

    def title(self, store: Store, room: int) -> Row:
        if self.listing is None:
            return [("checkpoints", "title")]
        bad = self.count - self.listing.valid
        row: Row = [
            ("checkpoints  ", "title"),
            (f"{self.count:,}", "bright"),
            (f", {size_bytes(self.listing.bytes)}", ""),
        ]
        return [*row, (f", {bad:,} not valid", "bad")] if bad else row

    def above(self, store: Store, width: int) -> list[Row]:
        rule, disk = keep_rule(store), disk_runs(store)
        if row_width([(rule, ""), *disk]) <= width:
            return [[(rule, "dim"), *disk]]
        return [[(rule, "dim")], [(text.removeprefix("; "), meaning) for text, meaning in disk]]

    def heading(self, width: int) -> Row:
        state = f"{'':<12}" if width >= STATE_FROM else "  "
        return [(f"{'step':>9}  {state}{self._facts(width, 'size', 'age')}{'EMA':>7}  {'score':>5}  pinned", "dim")]

    @staticmethod
    def _facts(width: int, size: str, age: str) -> str:
        """What is left out first where the score and the pin need the room."""
        return (f"{size:>8} " if width >= SIZE_FROM else "") + (f"{age:>11}  " if width >= AGE_FROM else "")

    def nothing(self) -> Row:
        if self.listing is None:
            return [("reading", "message")]
        return [(self.listing.problem or "there is no checkpoint yet; c saves one while the engine runs", "message")]

    def line(self, index: int, width: int) -> Row:
        assert self.listing is not None  # noqa: S101  (there are rows)
        row, store = self.listing.rows[index], self.store
        state = self.state(row)
        sign, meaning = STATES[state]
        age = "" if row.time is None else duration(max(0.0, time.time() - row.time))
        runs: Row = [(f"{human_count(row.step):>9}  ", "")]
        runs.append((f"{sign} {state:<9} " if width >= STATE_FROM else f"{sign} ", meaning))
        runs.append((self._facts(width, size_bytes(row.bytes), age), "dim"))
        if not row.valid:
            return [*runs, *shortened([(row.problem or "", "bad")], width - row_width(runs))]
        ema = None if store is None else ema_at(store, row.step)
        runs.append((f"{fixed(ema, 3):>7}  ", ""))
        runs.append((points(row.score[1] if row.score else None, 5), ""))
        runs.append(("≤ " if row.score and row.score[0] < row.step else "  ", "dim"))
        return [*runs, *shortened([(row.pin.why, "accent")], width - row_width(runs))] if row.pin else runs


def ema_at(store: Store, step: int) -> float | None:
    """The loss EMA of exactly this step; None when the record does not have it."""
    found = store.ema.value_at(step)
    return found[1] if found is not None and found[0] == step else None


def keep_rule(store: Store) -> str:
    """The keep rule in words."""
    if store.config is None:
        return "keep rule unknown"
    table = store.config.checkpoint
    if table.keep == "all":
        return "every checkpoint is kept"
    multiples = f", each {human_count(table.keep_every)}th" if table.keep_every else ""
    return f"kept: the last {table.keep_last}{multiples}, and pinned ones"
