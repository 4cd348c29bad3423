"""What the tailer tells the store: immutable, and only what is new."""

from __future__ import annotations

import msgspec

from andrea_engine.run.condition import Condition
from andrea_engine.run.config import RunConfig
from andrea_engine.run.events import Event
from andrea_engine.run.heartbeat import Heartbeat
from andrea_engine.run.loss_entry import LossEntry
from andrea_engine.run.samples import Sample
from andrea_tui.feed.columns import Columns, columns_of
from andrea_tui.feed.last_words import LogTail


class EntryBatch(msgspec.Struct, frozen=True):
    """New loss entries in step order; before them, everything from step `drop_from` on is abandoned (None: nothing).

    Without entries `left` is the last one that stays. Of a long record that another process reads there are only the
    `columns`.
    """

    entries: tuple[LossEntry, ...]
    drop_from: int | None = None
    left: LossEntry | None = None
    columns: Columns | None = None

    def as_columns(self) -> Columns | None:
        """The entries in columns; None without entries."""
        return self.columns or (columns_of(self.entries) if self.entries else None)


class OtherUpdate(msgspec.Struct, frozen=True):
    """What is new of the run that is drawn beside this one. `anchors`: (step, seconds since the epoch) of its clock."""

    name: str
    batches: tuple[EntryBatch, ...] = ()
    anchors: tuple[tuple[int, float], ...] = ()
    tokens_per_step: int | None = None
    complete: bool = True


class Update(msgspec.Struct, frozen=True):
    """One look at the run directory. None means: unchanged since the last look.

    `complete` is False while an older record is still being read; `read_share` tells how far. `pause`: seconds until
    the next look beside a living engine. `past_samples`: of earlier policies.
    """

    time: float
    condition: Condition
    heartbeat: Heartbeat | None
    batches: tuple[EntryBatch, ...] = ()
    events: tuple[Event, ...] = ()
    samples: tuple[Sample, ...] | None = None
    past_samples: tuple[Sample, ...] | None = None
    snapshot: dict[str, object] | None = None
    config: RunConfig | None = None
    disk_free: int | None = None
    newest_checkpoint: int | None = None
    checkpoints: int | None = None
    log_tail: LogTail | None = None
    problems: tuple[str, ...] = ()
    complete: bool = True
    read_share: float = 1.0
    other: OtherUpdate | None = None
    pause: float | None = None

    @property
    def quiet(self) -> bool:
        """True when nothing was added to any file."""
        checkpoints = (self.newest_checkpoint, self.checkpoints)
        nothing = (self.other, self.samples, self.past_samples, self.snapshot, self.config, self.log_tail, *checkpoints)
        return not self.batches and not self.events and all(item is None for item in nothing)
