"""The list of runs: which one lives, which one needs a look. Enter opens one."""

from __future__ import annotations

import time
from pathlib import Path

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input

from andrea_tui.feed.runs import RunRow, RunsListing, RunsReader
from andrea_tui.feed.runs_text import gate_text
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import duration, fixed, human_count, percent, points, short_count, size_bytes
from andrea_tui.plotting.strips import sparkline
from andrea_tui.screens.table_screen import TableScreen
from andrea_tui.widgets.key_bar import KeyLine
from andrea_tui.widgets.rows import Row, RowsWidget
from andrea_tui.widgets.status_bar import WORDS
from andrea_tui.widgets.table import TABLE_BINDINGS, TablePanel

LOOK_SECONDS = 2.0
KEYS = (("Enter", "open"), ("/", "filter"), ("n", "by name"), ("s", "by state"), ("t", "newest"), ("q", "close"))
ORDERS = {"name": "by name", "state": "by state", "newest": "newest first"}
# What a person should look at comes first: the living, then what went wrong, then what rests.
_BAD = ("stalled", "suspended", "crashed", "failed", "halted")
WIDE = 100  # cells from which on the table has all its columns
FACTS = 85  # cells of all columns but the name and the curve
NARROW = {"state": "<12", "step": ">13", "EMA": ">8", "score": ">7", "last": ">12"}
LEAST_NAME, MOST_NAME, LEAST_CURVE = 10, 33, 4  # cells, with the blank behind a name


def in_order(rows: tuple[RunRow, ...], order: str, words: str) -> list[RunRow]:
    """Rows whose name or state contains all of the `words`, sorted; of equals the name decides."""
    wanted = words.lower().split()
    shown = [row for row in rows if all(word in f"{row.name} {row.word}".lower() for word in wanted)]
    if order == "newest":
        return sorted(shown, key=lambda row: (-row.changed, row.name))
    if order == "state":
        return sorted(shown, key=lambda row: (not row.alive, row.word not in _BAD, row.word, row.name))
    return sorted(shown, key=lambda row: row.name)


class RunsTable(TablePanel):
    def __init__(self, root: Path, chosen: Path | None = None) -> None:
        super().__init__(id="runs")
        self._root = root
        self._wanted = chosen  # where the cursor goes as soon as that run is listed, or listed again
        self.listing: RunsListing | None = None
        self.order = "name"
        self.words = ""
        self.shown: list[RunRow] = []

    def take(self, listing: RunsListing) -> None:
        self.listing = listing
        self.sort_rows()

    def sort_rows(self) -> None:
        """Sort and filter anew; the cursor stays on its run. From one that is not shown any more it goes to the nearest
        that still is."""
        before, at = [row.path for row in self.shown], min(self.cursor, self.count - 1)
        if self.chosen is not None:
            self._wanted = self.chosen.path
        self.shown = in_order(self.listing.rows if self.listing else (), self.order, self.words)
        paths = {row.path: index for index, row in enumerate(self.shown)}
        still = [(abs(index - at), index < at, path) for index, path in enumerate(before) if path in paths]
        if self._wanted in paths:
            self.cursor = paths[self._wanted]
        elif still:
            self.cursor = paths[min(still)[2]]

    @property
    def count(self) -> int:
        return len(self.shown)

    @property
    def chosen(self) -> RunRow | None:
        """The run under the cursor."""
        return self.shown[min(self.cursor, self.count - 1)] if self.shown else None

    def title(self, store: Store, room: int) -> Row:
        row: Row = [("runs  ", "title")]
        if self.listing is None:
            return row
        total = len(self.listing.rows)
        row.append((f"{self.count:,}" if self.count == total else f"{self.count:,} of {total:,}", "bright"))
        if self.listing.left_off:
            row.append((", more than are shown", "warn"))
        row.append((f"  {ORDERS[self.order]}", "dim"))
        return [*row, (f"  with '{self.words}'", "warn")] if self.words else row

    def nothing(self) -> Row:
        if self.listing is None:
            return [(f"reading {self._root}", "message")]
        if self.listing.problem:
            return [(self.listing.problem, "bad")]
        if self.words:
            return [("no run's name or state contains these words; Esc shows all", "message")]
        return [(f"there is no run in {self._root}; make one with: andrea-tui {self._root / 'NEW'}", "message")]

    def heading(self, width: int) -> Row:
        name = f"{'run':<{self._name_width(width)}}"
        if width < WIDE:
            titles = "".join(f"{title:{NARROW[title]}}" for title in self._narrow(width))
            return [(name + titles, "dim")]
        facts = f"{'state':<13}{'step':>21}{'':>6}{'EMA':>8}{'score':>7}{'low':>6}{'last step':>13}{'size':>9}  "
        return [(name + facts, "dim"), ("EMA", "dim")]

    def _name_width(self, width: int) -> int:
        """Names come before curves: forks of one run differ in the last characters only."""
        if width < WIDE:
            return max(LEAST_NAME, width - sum(_cells(title) for title in self._narrow(width)))
        room = width - FACTS
        name = max(min(self._longest, MOST_NAME), room // 2)
        return name if room - name >= LEAST_CURVE else room

    def _narrow(self, width: int) -> list[str]:
        """Columns of a narrow table: those that matter least give way to the names."""
        titles = list(NARROW)
        needed = max(LEAST_NAME, min(self._longest, 17))
        for least in ("last", "EMA", "step", "score"):
            if width - sum(_cells(title) for title in titles) < needed:
                titles.remove(least)
        return titles

    @property
    def _longest(self) -> int:
        """Cells of the longest name and a blank."""
        return 1 + max((len(row.name) for row in self.shown), default=0)

    def line(self, index: int, width: int) -> Row:
        row, name_width = self.shown[index], self._name_width(width)
        sign, meaning = WORDS.get(row.word, ("•", ""))
        age = "" if row.last_step is None else duration(max(0.0, time.time() - row.last_step))
        cells: Row = [(_shortened(self.plain([(row.name, "")])[0][0], name_width - 1), ""), (f"{sign} ", meaning)]
        low = "warn" if row.gate_low else "dim"
        if width < WIDE:
            step = f"{short_count(row.step)}/{short_count(row.total_steps)}"
            facts = {
                "state": (f"{row.word:<10}", meaning),
                "step": (f"{step:>13}", ""),
                "EMA": (f"{fixed(row.ema, 3):>8}", ""),
                "score": (points(row.score, 7), low),
                "last": (f"{age:>12}", "dim"),
            }
            return [*cells, *(facts[title] for title in self._narrow(width))]
        step = f"{human_count(row.step)}/{human_count(row.total_steps)}"
        share = percent(row.step / row.total_steps) if row.total_steps else ""
        return [
            *cells,
            (f"{row.word:<11}", meaning),
            (f"{step:>21}", ""),
            (f"{share:>6}", "dim"),
            (f"{fixed(row.ema, 3):>8}{points(row.score, 7)}", ""),
            (f"{gate_text(row):>6}", low),
            (f"{age:>13}{size_bytes(row.bytes):>9}  ", "dim"),
            (sparkline(row.curve, width - name_width - FACTS, self.kind), "line"),
        ]


def _cells(title: str) -> int:
    return int(NARROW[title][1:])


def _shortened(name: str, width: int) -> str:
    return f"{name:<{width + 1}}" if len(name) <= width else f"{name[: width - 1]}… "


class RunsHead(RowsWidget):
    def __init__(self, root: Path) -> None:
        super().__init__(id="status")
        self._root = root

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        return [[(" ANDREA ", "accent-bold"), (f" {self._root}", "bright")]]


class RunsFoot(RowsWidget):
    """The sentence of the run under the cursor."""

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        screen = self.screen
        row = screen.table.chosen if isinstance(screen, RunsScreen) else None
        if row is None:
            return []
        return [[(f" {row.name}: ", "dim"), (row.sentence, WORDS.get(row.word, ("", ""))[1])]]


class RunsScreen(TableScreen[RunsListing]):
    """Reads in a thread. No run is touched, nor taken charge of, before it is opened."""

    table: RunsTable

    AUTO_FOCUS = ""

    BINDINGS = [
        *TABLE_BINDINGS,
        Binding("enter", "open", "open", show=False),
        Binding("slash", "filter", "filter", show=False),
        Binding("escape", "back", "all runs, then back to the run", show=False),
        Binding("n", "order('name')", "by name", show=False),
        Binding("s", "order('state')", "by state", show=False),
        Binding("t", "order('newest')", "newest first", show=False),
        Binding("q,d", "leave", "close the console", show=False),
        Binding("ctrl+p,colon", "app.command_palette", "palette", show=False),
    ]

    class Chosen(Message):
        """A run is to be opened."""

        def __init__(self, path: Path) -> None:
            super().__init__()
            self.path = path

    def __init__(self, root: Path, chosen: Path | None = None) -> None:
        super().__init__(RunsReader(root).poll, LOOK_SECONDS)
        self.table = RunsTable(root, chosen)
        self.root = root
        self._came_from = chosen  # the run that the list was opened from
        self._store = Store()  # the list shows no run in particular

    def compose(self) -> ComposeResult:
        yield RunsHead(self.root)
        yield self.table
        yield Input(placeholder="words in the name or the state; Enter keeps them, Esc shows all", id="filter")
        yield RunsFoot(id="savebar")
        yield KeyLine(self._keys)

    def on_mount(self) -> None:
        self.query_one(Input).display = False
        self.set_focus(None)
        self.set_interval(1.0, self.redraw)
        self.call_after_refresh(self.redraw)

    def on_screen_resume(self) -> None:
        self._poller.look_now()

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self.redraw)

    def take(self, listing: RunsListing) -> None:
        self.table.take(listing)

    def redraw(self) -> None:
        if self.is_current:
            for widget in self.query(RowsWidget):
                widget.update_from(self._store)

    # -- keys ---------------------------------------------------------------------------------------------------

    def action_order(self, order: str) -> None:
        self.table.order = order
        self.table.sort_rows()
        self.redraw()

    def action_filter(self) -> None:
        box = self.query_one(Input)
        box.display = True
        box.value = self.table.words
        box.focus()

    def on_input_changed(self, message: Input.Changed) -> None:
        self.table.words = message.value.strip()
        self.table.sort_rows()
        self.redraw()

    def on_input_submitted(self) -> None:
        self._close_filter()

    def action_unfilter(self) -> None:
        self.query_one(Input).value = self.table.words = ""
        self.table.sort_rows()
        self._close_filter()

    @property
    def _keys(self) -> tuple[tuple[str, str], ...]:
        return KEYS if self._came_from is None else (*KEYS, ("Esc", "back"))

    def lead_back_to(self, path: Path) -> None:
        """The list was opened from this run."""
        self._came_from = path
        self.query_one(KeyLine).show(self._keys)

    def action_back(self) -> None:
        """First to the list of all, then to the run that it was opened from."""
        if self.table.words or self.query_one(Input).display or self._came_from is None:
            self.action_unfilter()
        else:
            self.post_message(self.Chosen(self._came_from))

    def _close_filter(self) -> None:
        self.query_one(Input).display = False
        self.set_focus(None)
        self.call_after_refresh(self.redraw)

    def on_table_panel_chosen(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        row = self.table.chosen
        if row is not None:
            self.post_message(self.Chosen(row.path))

    async def action_leave(self) -> None:
        await self.app.action_quit()
