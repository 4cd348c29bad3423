"""`b`: every checkpoint of the run, what it is worth, and what can be done with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_tui.commands import BY_ID, Situation
from andrea_tui.feed.checkpoints import CheckpointListing, CheckpointReader, CheckpointRow
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import human_count, size_bytes
from andrea_tui.screens.ask import AnswerScreen
from andrea_tui.screens.checkpoint_tools import check_digest, inspect_file, toggle_pin
from andrea_tui.screens.table_screen import TableScreen
from andrea_tui.widgets.checkpoint_table import STATES, CheckpointTable, Verdict
from andrea_tui.widgets.key_bar import key_and_label, whole_keys
from andrea_tui.widgets.rows import Row, RowsWidget, shortened
from andrea_tui.widgets.status_bar import StatusBar
from andrea_tui.widgets.table import TABLE_BINDINGS

if TYPE_CHECKING:
    from andrea_tui.screens.actions import Actions

LOOK_SECONDS = 1.0
KEYS = (
    ("p", "pin", "pin"),
    ("i", "inspect", "inspect"),
    ("l", "roll back…", "rollback"),
    ("f", "fork…", "fork"),
    ("d", "digest", "digest"),
)


class CheckpointFacts(RowsWidget):
    """All about the checkpoint under the cursor, in words."""

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        screen = self.screen
        row = screen.table.chosen if isinstance(screen, CheckpointsScreen) else None
        if row is None or not isinstance(screen, CheckpointsScreen):
            return []
        saved = "" if row.time is None else time.strftime("  %Y-%m-%d %H:%M:%S", time.localtime(row.time))
        first: Row = [(f" {row.file}  ", "bright"), (screen.sentence(row), STATES[screen.table.state(row)][1])]
        more = [text for text in (_score_text(row), _pin_text(row)) if text]
        lines = more if len(more) < height else ["; ".join(more)]
        return [shortened(line, width) for line in ([*first, (saved, "dim")], *([(f" {t}", "dim")] for t in lines))]


def _score_text(row: CheckpointRow) -> str:
    """Begins with the sign of the table where the score is that of another step: here is the legend."""
    if row.score is None:
        return ""
    step, points = row.score
    if step == row.step:
        return f"score {points:.1f} is that of this step"
    return f"≤: score {points:.1f} is that of step {human_count(step)}, the last before"


def _pin_text(row: CheckpointRow) -> str:
    if row.pin is None:
        return ""
    by = f" by {row.pin.by}" if row.pin.by else ""
    return f"pinned{by} at {time.strftime('%Y-%m-%d %H:%M', time.localtime(row.pin.time))}: {row.pin.why}"


class CheckpointKeys(RowsWidget):
    """What can be done with the checkpoint under the cursor; dim what cannot."""

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        screen = self.screen
        if not isinstance(screen, CheckpointsScreen):
            return []
        keys = [("Esc", key_and_label("Esc", "back"))]
        for key, label, act in KEYS:
            text = "unpin…" if act == "pin" and screen.table.chosen and screen.table.chosen.pin else label
            keys.append((key, key_and_label(key, text, possible=not screen.reason(act))))
        return [whole_keys(keys, width)]


class CheckpointsScreen(TableScreen[CheckpointListing]):
    """The list is read by a thread; what is done goes through `actions` and threads as well."""

    table: CheckpointTable

    BINDINGS = [
        *TABLE_BINDINGS,
        Binding("escape,b,q", "back", "back", show=False),
        Binding("p", "act('pin')", "pin or unpin", show=False),
        Binding("l", "act('rollback')", "roll back", show=False),
        Binding("f", "act('fork')", "fork", show=False),
        Binding("i,enter", "act('inspect')", "inspect", show=False),
        Binding("d", "act('digest')", "check the digest", show=False),
    ]

    def __init__(self, store: Store, directory: RunDirectory, actions: Actions) -> None:
        super().__init__(self._look, LOOK_SECONDS)
        self._store = store
        self._directory = directory
        self._actions = actions
        self.table = CheckpointTable()
        self._reader = CheckpointReader(directory)
        self._drawn = (-1, 0)

    def compose(self) -> ComposeResult:
        yield StatusBar(self._directory.name)
        yield self.table
        yield CheckpointFacts(id="facts")
        yield CheckpointKeys(id="keys")

    def on_mount(self) -> None:
        self.set_interval(0.25, self._frame)

    def on_resize(self) -> None:
        self._drawn = (-1, 0)
        roomy = self.size.height >= 16  # for a line of their own for the score and for the pin
        self.query_one(CheckpointFacts).styles.height = 3 if roomy and self.size.width < 120 else 2

    def _look(self) -> CheckpointListing | None:
        config = self._store.config
        self._reader.n_params = config.n_params if config is not None else None
        return self._reader.poll()

    def take(self, listing: CheckpointListing) -> None:
        self.table.take(listing)

    def _frame(self) -> None:
        now = (self._store.version, int(time.monotonic()))
        if now != self._drawn:
            self._drawn = now
            self.redraw()

    def redraw(self) -> None:
        for status in self.query(StatusBar):
            status.watching = self._actions.watching
        for widget in self.query(RowsWidget):
            widget.update_from(self._store)

    def sentence(self, row: CheckpointRow) -> str:
        """What is known of the file, for people."""
        verdict = self.table.verdicts.get(row.stamp)
        if verdict is not None and (row.valid or verdict.state == "reading"):
            return verdict.words
        if not row.valid:
            return f"cannot be used: {row.problem}"
        return f"size and header agree; {'digest not checked' if row.sha256 else 'no digest recorded'}"

    # -- keys ---------------------------------------------------------------------------------------------------

    def on_table_panel_chosen(self) -> None:
        self.action_act("inspect")

    def action_back(self) -> None:
        self.dismiss()

    def reason(self, act: str) -> str:
        """Why something cannot be done with the checkpoint under the cursor; '' when it can."""
        row = self.table.chosen
        if row is None:
            return "there is no checkpoint"
        if act in ("rollback", "fork"):
            stands_against = BY_ID[act].reason(Situation(self._store, self._actions.read_only))
            if stands_against:
                return stands_against
        if act == "pin" and self._actions.read_only:
            return self._actions.read_only
        if act != "inspect" and not row.valid and not (act == "pin" and row.pin):
            return f"{row.file} is not valid: {row.problem}"
        return ""

    def action_act(self, act: str) -> None:
        reason = self.reason(act)
        row = self.table.chosen
        if reason or row is None:
            self.notify(f"not now, {reason}", severity="warning", markup=False)
            return
        try:
            getattr(self, f"_{act}")(row)
        except RunError as error:
            self.notify(str(error), severity="error", markup=False)
        self.redraw()

    def _pin(self, row: CheckpointRow) -> None:
        def work() -> str:
            try:
                return toggle_pin(self._directory, row)
            finally:
                self._poller.look_now()

        if row.pin is None:
            self._actions.in_background(work)
            return
        self._actions.confirm(
            f"Unpin step {human_count(row.step)}?",
            [f"pinned: {row.pin.why}", "The keep rule may then remove it with the next save."],
            "unpin",
            lambda: self._actions.in_background(work),
        )

    def _rollback(self, row: CheckpointRow) -> None:
        newer = [other for other in self.table.listing.rows if other.step > row.step] if self.table.listing else []
        self._actions.rollback_to(row.step, newer)

    def _fork(self, row: CheckpointRow) -> None:
        self._actions.fork_from(row.step)

    def _inspect(self, row: CheckpointRow) -> None:
        self._read_all(row, inspect_file)

    def _digest(self, row: CheckpointRow) -> None:
        self._read_all(row, lambda directory, row: (check_digest(directory, row), ""))

    def _read_all(self, row: CheckpointRow, read: Callable[[RunDirectory, CheckpointRow], tuple[Verdict, str]]) -> None:
        """Read a file in a thread. The list says so meanwhile, and then what came of it, whichever key asked."""
        before = self.table.verdicts.get(row.stamp)
        if before is not None and before.state == "reading":
            return
        self.table.verdicts[row.stamp] = Verdict("reading", f"reading all {size_bytes(row.bytes)}")
        app = self.app

        def work() -> str:
            verdict, text = before, ""
            try:
                verdict, text = read(self._directory, row)
            finally:
                app.call_later(self._was_read, row, verdict, text)
            return ""

        self._actions.in_background(work)

    def _was_read(self, row: CheckpointRow, verdict: Verdict | None, text: str) -> None:
        """`verdict`: None where the file could not be read and nothing was known before."""
        self.table.verdicts.pop(row.stamp, None)
        if verdict is not None:
            self.table.verdicts[row.stamp] = verdict
        self.redraw()
        if text and self.is_attached:
            self.app.push_screen(AnswerScreen(row.file, text))
