"""Which process does what, and which one holds the others back? The table of a run on several processes."""

from __future__ import annotations

from andrea_engine.run.rank_facts import Rank, straggler
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import fixed, human_count, percent
from andrea_tui.widgets.rows import Row
from andrea_tui.widgets.table import TablePanel

WIDEST_HOST = 24


class RanksTable(TablePanel):
    """The ranks as the engine last told of them; nothing of an engine that has ended."""

    def __init__(self) -> None:
        super().__init__(id="ranks")

    @property
    def _ranks(self) -> list[Rank]:
        return living_ranks(self.store) if self.store is not None else []

    @property
    def count(self) -> int:
        return len(self._ranks)

    @property
    def _host_width(self) -> int:
        return min(WIDEST_HOST, max((len(rank.host) for rank in self._ranks), default=4) + 1)

    def title(self, store: Store, room: int) -> Row:
        hosts = len({rank.host for rank in self._ranks})
        row: Row = [("ranks  ", "title"), (f"{self.count:,}", "bright")]
        return [*row, (f" on {hosts:,} machines", "")] if hosts > 1 else row

    def above(self, store: Store, width: int) -> list[Row]:
        slow = straggler(self._ranks)
        if slow is not None:
            return [[(slow.sentence, "warn")]]
        told = [rank for rank in self._ranks if rank.step_seconds is not None]
        return [[("all are about as fast" if len(told) == self.count else "not all have told their times yet", "dim")]]

    def heading(self, width: int) -> Row:
        return [
            (f"{'rank':>4}  {'host':<{self._host_width}} {'pid':>8}  {'own work':>9}  {'of step':>7}", "dim"),
            (f"  {'tokens/s':>9}  device", "dim"),
        ]

    def nothing(self) -> Row:
        return [("no rank has told of itself yet", "message")]

    def line(self, index: int, width: int) -> Row:
        rank = self._ranks[index]
        beat = self.store.heartbeat if self.store is not None else None
        step = beat.step_seconds if beat is not None else None
        own = rank.step_seconds
        slow = straggler(self._ranks)
        style = "warn" if slow is not None and slow.rank.rank == rank.rank else ""
        share = percent(min(1.0, own / step)) if own is not None and step else "–"
        host = rank.host if len(rank.host) < self._host_width else rank.host[: self._host_width - 1] + "…"
        return [
            (f"{rank.rank:>4}  ", style or "bright"),
            (f"{host:<{self._host_width}} {rank.pid:>8}  ", style or "dim"),
            (f"{fixed(own, 3, 7) if own is not None else '–':>7} s  {share:>7}", style),
            (f"  {human_count(rank.tokens_per_second) if rank.tokens_per_second else '–':>9}", style),
            (f"  {rank.device}", "dim"),
        ]


def living_ranks(store: Store) -> list[Rank]:
    """The processes of a living run that has several."""
    beat = store.heartbeat
    return list(beat.ranks) if beat is not None and store.condition.alive else []
