"""The console application: theme, feed, screens, and how it is left."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.filter import LineFilter
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.screen import Screen

from andrea_engine.run.condition import condition
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_tui.commands import COMMANDS
from andrea_tui.control import Control
from andrea_tui.feed.store import Store
from andrea_tui.feed.tailer import Tailer
from andrea_tui.feed.update import Update
from andrea_tui.guard import ControlGuard
from andrea_tui.hangup import watch_terminal
from andrea_tui.plotting.raster import Kind
from andrea_tui.screens.actions import Actions
from andrea_tui.screens.dashboard import DashboardScreen
from andrea_tui.screens.new_run import NewRunScreen
from andrea_tui.themes import THEMES
from andrea_tui.widgets.rows import LONGEST, visible


@dataclass(frozen=True, slots=True)
class ExitState:
    """Why the console was left: `left`, `detached`, `stopped`, or `signal` with its number."""

    reason: str
    signal: int = 0


class FeedUpdate(Message):
    """The tailer has something new."""

    def __init__(self, update: Update) -> None:
        super().__init__()
        self.update = update


class AndreaApp(App[ExitState]):
    """Console of one run. Ends with an ExitState; never touches the engine except through `Control`."""

    CSS_PATH = Path(__file__).with_name("app.tcss")
    TITLE = "ANDREA"
    BINDINGS = [Binding("ctrl+q,ctrl+c", "leave_console", "close the console", show=False, priority=True)]
    COMMAND_PALETTE_BINDING = "f24"  # ours is bound through the registry

    def __init__(
        self, directory: RunDirectory, *, watch: bool = False, start: bool = False, plot_kind: Kind = "braille"
    ) -> None:
        super().__init__()
        self.directory = directory
        self.plot_kind: Kind = plot_kind
        self.store = Store()
        self.control = Control(directory, watch=watch)
        self._start_at_once = start
        self._tailer: Tailer | None = None
        self._following_stop = False
        self._halt_shown = False
        self._guard = ControlGuard()
        self._rung_for = ""
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = "andrea-dark"

    async def on_mount(self) -> None:
        # After the driver has set up its own handlers, or ours would be lost; without them a TERM or a hang-up
        # leaves the terminal raw.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.leave, "signal", number)
        if not self.is_headless and sys.__stdin__ is not None:
            watch_terminal(sys.__stdin__.fileno(), lambda: self._terminal_gone(loop))
        if self.directory.exists() or self.directory.is_foreign_run():
            self._open_dashboard()
        elif self._start_at_once:
            self._create_and_start()
        else:
            # Only asked where it writes nothing: a console that leaves again must leave no trace.
            self.push_screen(
                NewRunScreen(self.directory, self.control.read_only_reason() if self.control.watch else "")
            )

    def _create_and_start(self) -> None:
        from andrea_engine.run.config import create_run, suggest_preset

        try:
            create_run(self.directory, suggest_preset(self.directory.path), {}, None)
        except RunError as error:
            self.exit(return_code=int(error.exit_code), message=str(error))
            return
        self._open_dashboard()

    def on_new_run_screen_created(self) -> None:
        self.pop_screen()
        self._start_at_once = True
        self._open_dashboard()

    def _open_dashboard(self) -> None:
        self.actions = Actions(self, self.store, self.control)
        self.push_screen(DashboardScreen(self.store, self.control, self.actions))
        if self._start_at_once:
            self._start_engine()
        self._tailer = Tailer(self.directory, self._deliver)
        self._tailer.start()

    def _start_engine(self) -> None:
        """`--start`: only where nothing stands against it; a halted run waits for a decision."""
        now = condition(self.directory)
        if now.alive or now.word in ("halted", "finished", "recorded", "elsewhere"):
            return
        try:
            self.control.start()
        except RunError as error:
            self.notify(str(error), severity="error", markup=False)

    def _deliver(self, update: Update) -> None:
        """Called by the tailer's thread: posting never blocks."""
        self.post_message(FeedUpdate(update))

    def on_feed_update(self, message: FeedUpdate) -> None:
        first = self.store.version == 0
        self.store.apply(message.update)
        if self._tailer is not None:
            self._tailer.taken()
        if not self.screen_stack:  # the app is shutting down
            return
        screen = self.screen
        if first and isinstance(screen, DashboardScreen):
            screen.redraw()
        if not self._halt_shown and self.store.condition.word == "halted" and isinstance(screen, DashboardScreen):
            self._halt_shown = True
            self.bell()
            self.actions.samples()
        if self.store.condition.alive:
            self._halt_shown = False
        self._ring_for_alarm()
        if self._following_stop and not self.store.condition.alive:
            self.leave("stopped")

    def _ring_for_alarm(self) -> None:
        """The terminal's bell, once for each alarm."""
        if self.store.alarm and self.store.alarm != self._rung_for:
            self.bell()
        self._rung_for = self.store.alarm

    def run_command(self, name: str) -> None:
        """Run a command of the registry on the dashboard."""
        for screen in self.screen_stack:
            if isinstance(screen, DashboardScreen):
                screen.action_command(name)

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._guard]

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """A short message; content is never parsed as markup, nor obeyed."""
        super().notify(visible(message[:LONGEST]), title=title, severity=severity, timeout=timeout, markup=False)

    def tell(self, text: str, severity: str = "information") -> None:
        """`notify` for those who do not know Textual's types."""
        level: SeverityLevel = "error" if severity == "error" else "warning" if severity == "warning" else "information"
        self.notify(text, severity=level)

    # -- leaving ------------------------------------------------------------------------------------------------

    def follow_stop(self) -> None:
        """The stop was asked: stay until the engine has saved and ended, then close."""
        self._following_stop = True
        self.store.saves.ask(self.store.step, "checkpoint and exit")
        self.notify("stopping: the console closes when everything is saved; d closes it at once", markup=False)

    def leave(self, reason: str, number: int = 0) -> None:
        """Close the console. The engine is not touched."""
        self.control.release()
        self.exit(ExitState(reason, number), return_code=128 + number if number else 0)

    def _terminal_gone(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called by a thread; the loop may have ended before."""
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self.leave, "signal", signal.SIGHUP)

    def action_leave_console(self) -> None:
        self.leave("left")

    async def action_quit(self) -> None:
        self.leave("left")

    def on_unmount(self) -> None:
        if self._tailer is not None:
            self._tailer.stop()

    # -- palette ------------------------------------------------------------------------------------------------

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette lists our commands with their keys, and the few of Textual's that make sense here."""
        if isinstance(screen, DashboardScreen):
            for command in COMMANDS:
                if command.id == "palette":
                    continue

                def run(name: str = command.id) -> None:
                    screen.action_command(name)

                yield SystemCommand(f"{command.help.rstrip('.')} ({command.key_name})", "", run)
        yield SystemCommand("Theme", "Change the colours", self.action_change_theme)
        yield SystemCommand("Screenshot", "Save an SVG picture of the screen here", self._take_screenshot)
        yield SystemCommand("Close the console", "The engine goes on", self.action_leave_console)

    def _take_screenshot(self) -> None:
        path = Path(self.save_screenshot(path=str(Path.cwd())))
        self.notify(f"saved {path}", markup=False)
