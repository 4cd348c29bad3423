"""Which process does what, and which one holds the others back? The table of a run on several processes."""

from __future__ import annotations

from andrea_engine.run.rank_facts import Rank, Straggler, straggler
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import fixed, human_count, percent
from andrea_tui.widgets.rows import Row
from andrea_tui.widgets.table import TablePanel

WIDEST_HOST = 24


class RanksTable(TablePanel):
    """The ranks as the engine last told of them; nothing of an engine that has ended."""

    def __init__(self) -> None:
        super().__init__(id="ranks")
        self._ranks: list[Rank] = []
        self._slow: Straggler | None = None
        self._step: float | None = None  # seconds of a whole step
        self._host_width = 0

    @property
    def count(self) -> int:
        return len(self._ranks)

    def content(self, store: Store, width: int, height: int) -> list[Row]:
        self._ranks = store.ranks
        self._slow = straggler(self._ranks)
        self._step = store.heartbeat.step_seconds if store.heartbeat is not None else None
        self._host_width = min(WIDEST_HOST, max((len(rank.host) for rank in self._ranks), default=4) + 1)
        return super().content(store, width, height)

    def title(self, store: Store, room: int) -> Row:
        hosts = len({rank.host for rank in store.ranks})
        row: Row = [("ranks  ", "title"), (f"{len(store.ranks):,}", "bright")]
        return [*row, (f" on {hosts:,} machines", "")] if hosts > 1 else row

    def above(self, store: Store, width: int) -> list[Row]:
        if self._slow is not None:
            return [[(self._slow.sentence, "warn")]]
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
        own = rank.step_seconds
        style = "warn" if self._slow is not None and self._slow.rank is rank else ""
        share = percent(min(1.0, own / self._step)) if own is not None and self._step else "–"
        host = rank.host if len(rank.host) < self._host_width else rank.host[: self._host_width - 1] + "…"
        return [
            (f"{rank.rank:>4}  ", style or "bright"),
            (f"{host:<{self._host_width}} {rank.pid:>8}  ", style or "dim"),
            (f"{fixed(own, 3, 7) if own is not None else '–':>7} s  {share:>7}", style),
            (f"  {human_count(rank.tokens_per_second) if rank.tokens_per_second else '–':>9}", style),
            (f"  {rank.device}", "dim"),
        ]
