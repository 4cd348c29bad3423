"""The main screen: five panels, a status line above, the last save and the keys below."""

from __future__ import annotations

import time

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen

from andrea_engine.run.errors import RunError
from andrea_tui.commands import BY_ID, COMMANDS, Situation
from andrea_tui.control import Control
from andrea_tui.feed.store import Store
from andrea_tui.screens.actions import Actions
from andrea_tui.widgets.arms_panel import ArmsPanel
from andrea_tui.widgets.events_panel import EventsPanel
from andrea_tui.widgets.key_bar import KeyBar
from andrea_tui.widgets.loss_panel import LossPanel
from andrea_tui.widgets.power_panel import PowerPanel
from andrea_tui.widgets.rows import RowsWidget
from andrea_tui.widgets.sample_panel import SamplePanel
from andrea_tui.widgets.status_bar import SaveBar, StatusBar

FRAME_SECONDS = 0.25
DEBOUNCE_SECONDS = 0.5
PANELS = ("loss", "power", "sample", "arms", "events")


def _bindings() -> list[BindingType]:
    return [
        Binding(",".join(command.keys), f"command('{command.id}')", command.help, show=False, id=command.id)
        for command in COMMANDS
    ]


class DashboardScreen(Screen[None]):
    """Draws the store and turns keys into commands. All acting goes through `control`."""

    BINDINGS = [*_bindings(), Binding("escape", "all_panels", "all panels", show=False)]
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-low"), (30, "-high")]

    def __init__(self, store: Store, control: Control, actions: Actions) -> None:
        super().__init__()
        self.store = store
        self.control = control
        self.actions = actions
        self._drawn_version = -1
        self._drawn_second = 0
        self._ended = ""
        self._last_command: dict[str, float] = {}

    def compose(self) -> ComposeResult:
        yield StatusBar(self.control.directory.name)
        with Vertical(id="panels"):
            with Horizontal(id="upper"):
                yield LossPanel()
                yield PowerPanel()
            with Horizontal(id="lower"):
                with Vertical(id="left"):
                    yield PowerPanel("power-small")
                    yield SamplePanel()
                yield ArmsPanel()
            yield EventsPanel()
        yield SaveBar()
        yield KeyBar()

    def on_mount(self) -> None:
        self.set_interval(FRAME_SECONDS, self._frame)
        self.set_interval(1.0, self._look_at_owner)

    def on_resize(self) -> None:
        self._drawn_version = -1

    def _frame(self) -> None:
        """Repaint what changed; once a second also what only ages."""
        second = int(time.monotonic())
        live = self.store.condition.alive or self.store.saves.durable_at is not None
        aged = live and second != self._drawn_second
        if self.store.version == self._drawn_version and not aged:
            return
        self._drawn_version, self._drawn_second = self.store.version, second
        self.redraw()

    def redraw(self) -> None:
        """Bring every widget up to the store."""
        keys = self.query_one(KeyBar)
        keys.read_only = self.actions.read_only
        status = self.query_one(StatusBar)
        status.watching = "watching" if self.actions.read_only else ""
        for widget in self.query(RowsWidget):
            if widget.display:
                widget.update_from(self.store)

    def _look_at_owner(self) -> None:
        reason = self.control.read_only_reason()
        if reason != self.actions.read_only:
            self.actions.read_only = reason
            self._drawn_version = -1
        self._ended = self._ended or self.control.ended()  # known before the feed has noticed
        if self._ended and not self.store.condition.alive:
            if self.store.condition.word not in ("stopped", "finished"):
                self.notify(self._ended, severity="warning", markup=False)
            self._ended = ""

    # -- commands -----------------------------------------------------------------------------------------------

    def on_key_bar_pressed(self, message: KeyBar.Pressed) -> None:
        self.action_command(message.command)

    def action_command(self, name: str) -> None:
        """Run a command, or say why it cannot be done now. Held keys count once."""
        command = BY_ID[name]
        reason = command.reason(Situation(self.store, self.actions.read_only))
        if reason:
            self.notify(f"{command.key_name}: not now, {reason}", markup=False, severity="warning")
            return
        now = time.monotonic()
        if command.group == "Control":
            before = self._last_command.get(name, float("-inf"))
            self._last_command[name] = now
            if now - before < DEBOUNCE_SECONDS:
                return
        try:
            self._run(name)
        except RunError as error:
            self.notify(str(error), severity="error", markup=False)
        self.redraw()

    def _run(self, name: str) -> None:
        if name.startswith("panel_"):
            self._toggle_panel(PANELS[int(name[-1]) - 1])
        elif hasattr(self.actions, name):
            getattr(self.actions, name)()
        else:
            getattr(self, f"_{name}")()

    def _log_scale(self) -> None:
        self.query_one(LossPanel).toggle_log()

    def _policy_view(self) -> None:
        self.query_one(LossPanel).next_policy()

    def _older(self) -> None:
        self.query_one(SamplePanel).walk(1)

    def _newer(self) -> None:
        self.query_one(SamplePanel).walk(-1)

    def _palette(self) -> None:
        self.app.action_command_palette()

    # -- panels -------------------------------------------------------------------------------------------------

    def _toggle_panel(self, name: str) -> None:
        alone = self.has_class(f"-only-{name}")
        self.action_all_panels()
        if not alone:
            self.add_class("-only", f"-only-{name}")
        self.call_after_refresh(self.redraw)

    def action_all_panels(self) -> None:
        """Show every panel again."""
        self.remove_class("-only", *(f"-only-{panel}" for panel in PANELS))
        self.call_after_refresh(self.redraw)
