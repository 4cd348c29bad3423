"""Follow a pivot from asked to its receipt. The work is done by a process of its own: leaving changes nothing."""

from __future__ import annotations

import os
import subprocess

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.intent import PivotIntent
from andrea_engine.run.io import open_regular
from andrea_engine.run.module_command import module_command
from andrea_engine.run.pivot import Progress, cancel, progress
from andrea_engine.run.receipt import receipt_lines
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import human_count
from andrea_tui.widgets.rows import Row, RowsWidget

STAGES = ("waiting", "leaving", "applying", "done")
_WORDS = {
    "waiting": "the engine trains to the agreed step and saves it",
    "leaving": "the engine leaves",
    "applying": "samples and state are archived, the new policy is written",
    "done": "the receipt",
}


def see_through(directory: RunDirectory) -> None:
    """Start the process that carries the pivot out and restarts the engine, whatever becomes of this console.

    Raises RunError when it cannot be started.
    """
    command = module_command("andrea_engine", "pivot", directory.path)
    try:
        log = open_regular(directory.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        finally:
            os.close(log)
    except OSError as error:
        raise RunError(
            f"the pivot could not be started: {error.strerror}; run: andrea-engine pivot {directory.path}"
        ) from error


class _Stages(RowsWidget):
    def build(self, store: Store, width: int, height: int) -> list[Row]:
        screen = self.screen
        return screen.rows(height) if isinstance(screen, PivotFollow) else []


class PivotFollow(ModalScreen[None]):
    """Esc closes it; `c` takes the pivot back while its step is not reached."""

    BINDINGS = [
        Binding("escape,enter,q", "close", "close", show=False),
        Binding("c", "cancel", "cancel the pivot", show=False),
    ]

    def __init__(self, directory: RunDirectory, store: Store, intent: PivotIntent) -> None:
        super().__init__()
        self._directory = directory
        self._store = store
        self._intent = intent
        self._now: Progress | None = None
        self._problem = ""

    def compose(self) -> ComposeResult:
        yield _Stages(id="follow")

    def on_mount(self) -> None:
        self.set_interval(0.25, self._look)
        self.call_after_refresh(self._look)

    def _look(self) -> None:
        if self._now is None or self._now.stage not in ("done", "cancelled"):
            try:
                self._now = progress(self._directory, self._intent)
                self._problem = ""
            except RunError as error:
                self._problem = str(error)
        for stages in self.query(_Stages):  # none any more while the screen is being taken away
            stages.update_from(self._store)

    def rows(self, height: int) -> list[Row]:
        """Stages with their signs, then the receipt."""
        now = self._now
        rows: list[Row] = [[(f" Pivot to policy {self._intent.generation}", "accent-bold")], []]
        if self._problem:
            rows.append([(f" {self._problem}", "bad")])
        if now is None:
            return [*rows, [(" looking", "message")]]
        if now.stage == "cancelled":
            return [*rows, [(f" {now.sentence}", "warn")], [], [(" Esc closes", "dim")]]
        stage = "applying" if now.stage == "ready" else now.stage
        place = STAGES.index(stage)
        for index, name in enumerate(STAGES):
            done = index < place or stage == "done"
            sign, style = ("✓", "good") if done else ("◐", "warn") if index == place else ("·", "dim")
            rows.append([(f" {sign} ", style), (_WORDS[name], "" if done or index == place else "dim")])
        rows += [[], [(f" {now.sentence}", "")]]
        if now.receipt is not None:
            archive = self._directory.path / self._intent.archive
            rows += [[], [(" Receipt", "title")]]
            rows += [[(f" {line}", "")] for line in receipt_lines(now.receipt, archive)]
            running = "the engine goes on" if self._store.condition.alive else "the engine is not running; r starts it"
            rows += [[], [(f" {running}", "good" if self._store.condition.alive else "warn")]]
        keys = " Esc closes, the pivot goes on by itself"
        if now.stage == "waiting":
            keys += f"   c cancels it before step {human_count(now.step)}"
        return [*rows, [], [(keys, "dim")]]

    def action_cancel(self) -> None:
        try:
            cancel(self._directory, by="andrea-tui")
        except RunError as error:
            self.notify(str(error), severity="error", markup=False)

    def action_close(self) -> None:
        self.dismiss()
