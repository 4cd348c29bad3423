"""The main screen: five panels, a status line above, the last save and the keys below."""

from __future__ import annotations

import time

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.screen import Screen
from textual.timer import Timer

from andrea_engine.run.errors import RunError
from andrea_tui.commands import BY_ID, COMMANDS, Situation
from andrea_tui.control import Control
from andrea_tui.feed.store import Store
from andrea_tui.feed.trouble import OwnEnd, trouble
from andrea_tui.screens.actions import Actions
from andrea_tui.sparing import SparingCompositor
from andrea_tui.view import ViewState
from andrea_tui.widgets.arms_panel import ArmsPanel
from andrea_tui.widgets.events_panel import EventsPanel
from andrea_tui.widgets.key_bar import KeyBar
from andrea_tui.widgets.loss.keys import ChartKeys
from andrea_tui.widgets.loss.series import chosen, offers
from andrea_tui.widgets.loss_panel import LossPanel
from andrea_tui.widgets.power_panel import PowerPanel
from andrea_tui.widgets.rows import RowsWidget
from andrea_tui.widgets.sample_panel import SamplePanel
from andrea_tui.widgets.status_bar import SaveBar, StatusBar
from andrea_tui.widgets.trouble_panel import TroublePanel

FRAME_SECONDS = 0.5  # two frames a second: with a step in each, a frame is what a console costs
DEBOUNCE_SECONDS = 0.5
PANELS = ("loss", "power", "sample", "arms", "events")


def _bindings() -> list[BindingType]:
    return [
        Binding(",".join(command.keys), f"command('{command.id}')", command.help, show=False, id=command.id)
        for command in COMMANDS
        if command.keys
    ]


class DashboardScreen(Screen[None]):
    """Draws the store and turns keys into commands. All acting goes through `control`."""

    BINDINGS = [*_bindings(), Binding("escape", "all_panels", "all panels", show=False)]
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-low"), (30, "-high"), (60, "-tall")]

    def __init__(self, store: Store, control: Control, actions: Actions, view: ViewState | None = None) -> None:
        super().__init__()
        self._compositor = SparingCompositor()
        self.view = view if view is not None else ViewState()
        self.store = store
        self.control = control
        self.actions = actions
        self._drawn_at = float("-inf")
        self._next_frame: Timer | None = None
        self._live: list[RowsWidget] = []
        self._put_away: object = None  # key of the trouble that Esc has closed
        self._last_command: dict[str, float] = {}

    def expect_size(self, size: Size) -> None:
        """Have the classes of a size before the first layout, which would otherwise be made twice."""
        for breakpoints, length in (
            (self.HORIZONTAL_BREAKPOINTS, size.width),
            (self.VERTICAL_BREAKPOINTS, size.height),
        ):
            self.add_class([name for least, name in breakpoints if least <= length][-1])

    def compose(self) -> ComposeResult:
        yield StatusBar(self.control.directory.name)
        with Vertical(id="panels"):
            yield TroublePanel()
            with Horizontal(id="upper"):
                yield LossPanel(self.view)
                yield PowerPanel(view=self.view)
            with Horizontal(id="lower"):
                with Vertical(id="left"):
                    yield PowerPanel("power-small", self.view)
                    yield SamplePanel(self.view)
                yield ArmsPanel(self.view)
            yield EventsPanel(self.view)
        yield SaveBar()
        yield KeyBar()

    def on_mount(self) -> None:
        # Once: none comes or goes, a query looks through all, and one that is taken away while we leave is harmless.
        self._live = list(self.query(RowsWidget))
        self._status, self._keys = self.query_one(StatusBar), self.query_one(KeyBar)
        self._loss, self._trouble = self.query_one(LossPanel), self.query_one(TroublePanel)
        self.set_interval(1.0, self._look_at_owner)

    def on_unmount(self) -> None:
        self._live = []

    def on_resize(self) -> None:
        """Panels that the new size brings in are drawn once they have theirs."""
        self._drawn_at = time.monotonic()
        self.draw_soon()

    def draw_soon(self, *, at_once: bool = False) -> None:
        """Draw the store now, or when the last frame is `FRAME_SECONDS` old: no timer runs while nothing happens."""
        if self._next_frame is not None:
            if not at_once:
                return
            self._next_frame.stop()
        wait = self._drawn_at + FRAME_SECONDS - time.monotonic()
        if wait > 0 and not at_once:
            self._next_frame = self.set_timer(wait, self._frame)
        else:
            self._frame()

    def _frame(self) -> None:
        self._next_frame = None
        self._drawn_at = time.monotonic()
        self.redraw()

    def redraw(self) -> None:
        """Bring every widget up to the store."""
        if not self._live:  # not composed yet, or leaving
            return
        self._keys.read_only = self.actions.read_only
        status = self._status
        status.watching = self.actions.watching
        status.restart = self.actions.restart_text
        status.alone = self.has_class("-tiny") or self.has_class("-flat")
        self._look_for_trouble()
        for widget in self._live:
            if widget.display:
                widget.update_from(self.store)
        if self._loss.unfinished:
            self.draw_soon()

    def _look_for_trouble(self) -> None:
        """Show how the engine ended, or that it gets nowhere, unless that was put away or one panel is alone."""
        found = trouble(self.store, OwnEnd(self.control.exit_code, self.control.killed_pid))
        panel = self._trouble
        if found != panel.trouble:
            panel.trouble, panel.store = found, self.store
            panel.refresh(layout=True)
        panel.read_only = self.actions.read_only
        shown = found if found is not None and found.key != self._put_away and not self.has_class("-only") else None
        before = self.has_class("-trouble"), self.has_class("-trouble-log")
        after = shown is not None, shown is not None and bool(shown.log_lines)
        if before != after:
            self.set_class(after[0], "-trouble")
            self.set_class(after[1], "-trouble-log")  # its lines need the room of other panels
            self.call_after_refresh(self.redraw)  # panels that come or go have their size only then

    def _look_at_owner(self) -> None:
        reason = self.control.read_only_reason()
        changed, self.actions.read_only = reason != self.actions.read_only, reason
        status = self._status
        if changed or (status.watching, status.restart) != (self.actions.watching, self.actions.restart_text):
            self.draw_soon()
        if self.control.child is not None and not self.store.condition.alive:
            self.actions.look_now()
        if self.control.ended():
            self.draw_soon()

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
        self.actions.remember()

    def _run(self, name: str) -> None:
        if name.startswith("panel_"):
            self._toggle_panel(PANELS[int(name[-1]) - 1])
        elif hasattr(self.actions, name):
            getattr(self.actions, name)()
        elif hasattr(ChartKeys, name):
            text = getattr(ChartKeys(self.query_one(LossPanel)), name)()
            if text:
                self.notify(text, markup=False)
        else:
            getattr(self, f"_{name}")()

    def _pick_series(self) -> None:
        from andrea_tui.screens.series_picker import SeriesPicker

        def picked(key: str | None) -> None:
            if key:
                self.view.series = key
                self.redraw()

        present = chosen(self.store, self.view.series).key
        self.app.push_screen(SeriesPicker(offers(self.store), present), picked)

    def on_loss_panel_moved(self) -> None:
        self.redraw()

    def _older(self) -> None:
        self.query_one(SamplePanel).walk(1)

    def _newer(self) -> None:
        self.query_one(SamplePanel).walk(-1)

    def _palette(self) -> None:
        self.app.action_command_palette()

    # -- panels -------------------------------------------------------------------------------------------------

    @property
    def alone(self) -> str:
        """Name of the panel that is shown alone, '' when all are."""
        return next((name for name in PANELS if self.has_class(f"-only-{name}")), "")

    def show_only(self, name: str) -> None:
        """One panel alone; for a name that no panel has, all of them."""
        self.remove_class("-only", *(f"-only-{panel}" for panel in PANELS))
        if name in PANELS:
            self.add_class("-only", f"-only-{name}")

    def _toggle_panel(self, name: str) -> None:
        self.show_only("" if self.alone == name else name)
        self.call_after_refresh(self.redraw)

    def action_all_panels(self) -> None:
        """End the time cursor; without one, show every panel again; if all are shown, put the trouble away."""
        if self.view.cursor is not None:
            self.view.cursor = None
            self.redraw()
            return
        if not self.has_class("-only"):
            shown = self.query_one(TroublePanel).trouble
            self._put_away = shown.key if shown is not None else None
        self._show_all()

    def _show_all(self) -> None:
        self.show_only("")
        self.actions.remember()
        self.call_after_refresh(self.redraw)
