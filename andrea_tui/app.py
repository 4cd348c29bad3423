"""The console application: theme, feed, screens, and how it is left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events
from textual.app import SystemCommand
from textual.binding import Binding
from textual.message import Message
from textual.screen import Screen

from andrea_engine.run.condition import condition
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_tui.bell import Bell
from andrea_tui.control import Control
from andrea_tui.feed.saves import SaveFollower
from andrea_tui.feed.store import Store
from andrea_tui.feed.tailer import Tailer
from andrea_tui.feed.update import Update
from andrea_tui.hangup import watch_terminal
from andrea_tui.leaving import ExitState, leave_on_signals
from andrea_tui.plotting.raster import Kind
from andrea_tui.restart import Watchdog
from andrea_tui.screens.actions import Actions
from andrea_tui.screens.dashboard import DashboardScreen
from andrea_tui.screens.help import HelpScreen, screen_keys
from andrea_tui.settings import Habits, Settings
from andrea_tui.terminal_app import TerminalApp
from andrea_tui.view import ViewState

if TYPE_CHECKING:
    from andrea_tui.feed.read_ahead import ReadAhead
    from andrea_tui.feed.replay import Replay
    from andrea_tui.screens.runs import RunsScreen


def _collect_from_now() -> None:
    """The command line imported everything without the collector, which shall not look at all that again either."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


class FeedUpdate(Message):
    """The tailer has something new."""

    def __init__(self, update: Update, store: Store) -> None:
        super().__init__()
        self.update = update
        self.store = store  # the run it is about: another one may be open by now


class AndreaApp(TerminalApp):
    """Console of one run at a time. Ends with an ExitState; never touches the engine except through `Control`.

    A directory that holds runs, and is none itself, opens as the list of them. `restart`: how often an hour a crashed
    engine is started again. `compare`: a second run to draw beside it. `replay`: play the recorded run so many
    times as fast as it was. `ahead`: a process that reads the run's long record already.
    """

    CSS_PATH = Path(__file__).with_name("app.tcss")
    TITLE = "ANDREA"
    BINDINGS = [
        Binding("ctrl+q,ctrl+c", "leave_console", "close the console", show=False, priority=True),
        Binding("question_mark,f1", "help", "help", show=False),
        Binding("colon,ctrl+p", "command_palette", "all commands", show=False),
    ]
    COMMAND_PALETTE_BINDING = "f24"  # ours is bound through the registry

    def __init__(
        self,
        directory: RunDirectory,
        *,
        watch: bool = False,
        start: bool = False,
        plot_kind: Kind = "braille",
        restart: int = 0,
        compare: RunDirectory | None = None,
        replay: float | None = None,
        ahead: ReadAhead | None = None,
    ) -> None:
        super().__init__(plot_kind)
        self.directory = directory
        self.compare = compare
        self.replay = replay
        self.view = ViewState()
        self.settings = Settings()
        self._habits: Habits = {}
        self.store = self._new_store()
        self.control = Control(directory, watch=watch, replay=replay is not None)
        self.restart_limit = restart
        self.watchdog: Watchdog | None = None
        self._start_at_once = start
        self._tailer: Tailer | Replay | None = None
        self._ahead = ahead
        self._following_stop = False
        self._halt_shown = False
        self._bell = Bell()

    async def on_mount(self) -> None:
        leave_on_signals(self.leave)
        loop = asyncio.get_running_loop()
        if not self.is_headless and sys.__stdin__ is not None:
            watch_terminal(sys.__stdin__.fileno(), lambda: self._terminal_gone(loop))
        if isinstance(self.screen, DashboardScreen):
            self._begin_run()
        else:
            self._open_other()
        self.call_after_refresh(_collect_from_now)

    def get_default_screen(self) -> Screen[None]:
        """A run's dashboard from the start: another screen below it would be laid out and painted for nothing."""
        if not (self.directory.exists() or self.directory.is_foreign_run()):
            return super().get_default_screen()
        screen = self._new_dashboard()
        screen._push_result_callback(self, None)  # or Textual could not put another screen in its place
        return screen

    def _open_other(self) -> None:
        """The list of runs, or a new run."""
        from andrea_tui.feed.runs import holds_runs
        from andrea_tui.screens.new_run import NewRunScreen
        from andrea_tui.screens.runs import RunsScreen

        if holds_runs(self.directory.path):
            self.push_screen(RunsScreen(self.directory.path))
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
        self._show(self._new_dashboard())
        self._begin_run()

    def _show(self, screen: Screen[None]) -> None:
        """On top, or in the place of a dashboard: what that shows is over."""
        if isinstance(self.screen, DashboardScreen):
            self.switch_screen(screen)
        else:
            self.push_screen(screen)

    def _new_dashboard(self) -> DashboardScreen:
        self.actions = Actions(self, self.store, self.control)
        self.view.leave_run()
        screen = DashboardScreen(self.store, self.control, self.actions, self.view)
        screen.expect_size(self.size)
        self._recall(screen)
        return screen

    def _begin_run(self) -> None:
        """Start what looks at the run that is on the screen."""
        if self._start_at_once:
            self._start_engine()
        deliver = partial(self._deliver, self.store)
        if self.replay is None:
            self._tailer = Tailer(self.directory, deliver, self.compare, self._ahead)
            self._ahead = None
        else:
            from andrea_tui.feed.replay import Replay

            self._tailer = Replay(self.directory, self.replay, deliver)
        # Only one thread of Python runs at a time: reading would only delay the first frame.
        self.call_after_refresh(self._begin_reading, self._tailer)
        self.watchdog = Watchdog(self.control, self.restart_limit, partial(self.call_later, self.tell))
        if not self.control.watch:
            self.watchdog.start()

    def _begin_reading(self, tailer: Tailer | Replay) -> None:
        if self._tailer is tailer:  # the console was not told to leave meanwhile
            tailer.start()

    def _new_store(self) -> Store:
        """In a replay nobody waits for an engine, so that no patience ends."""
        return Store() if self.replay is None else Store(saves=SaveFollower(timer=lambda: 0.0))

    def pause_replay(self) -> None:
        """Pause the replay, or let it go on; at its end play it again."""
        from andrea_tui.feed.replay import Replay

        if not isinstance(self._tailer, Replay):
            return
        if not self._tailer.ended:
            self._tailer.toggle()
            return
        self._close_run()
        self.store = self._new_store()
        self.control = Control(self.directory, watch=True, replay=True)
        self._open_dashboard()

    def on_runs_screen_chosen(self, message: RunsScreen.Chosen) -> None:
        self._following_stop = self._halt_shown = self._start_at_once = False
        self._bell = Bell()
        self.directory = RunDirectory(message.path)
        self.store = self._new_store()
        self.control = Control(self.directory, watch=self.control.watch)
        self._open_dashboard()

    def show_runs(self) -> None:
        """Leave this run as it is and go (back) to the list of all."""
        from andrea_tui.screens.runs import RunsScreen

        path = self.directory.path
        self._close_run()
        while len(self.screen_stack) > 1 and not isinstance(self.screen, RunsScreen):
            self.pop_screen()
        if isinstance(self.screen, RunsScreen):
            self.screen.lead_back_to(path)
        else:
            self._show(RunsScreen(path.absolute().parent, path))

    def _recall(self, screen: DashboardScreen) -> None:
        """Show the run as this user left it."""
        habits = self.settings.of(self.directory.path)
        self.view.restore(habits)
        screen.show_only(str(habits.get("panel", "")))
        theme = habits.get("theme")
        if isinstance(theme, str) and theme in self.available_themes and not self.no_color:
            self.theme = theme
        self._habits = self._habits_of(screen)

    def _habits_of(self, screen: DashboardScreen) -> Habits:
        theme: Habits = {} if self.no_color else {"theme": self.theme}
        return {**self.view.settings(), **theme, "panel": screen.alone}

    def remember(self) -> None:
        """Note how the run is looked at, where that has changed."""
        for screen in self.screen_stack:
            if isinstance(screen, DashboardScreen):
                habits = self._habits_of(screen)
                if habits != self._habits:
                    self._habits = habits
                    self.settings.remember(screen.control.directory.path, habits)

    def watch_theme(self) -> None:
        self.remember()

    def _close_run(self) -> None:
        """Give up control of the run and stop everything that looks at it."""
        self.remember()
        if self.watchdog is not None:
            self.watchdog.stop()
            self.watchdog = None
        if self._tailer is not None:
            self._tailer.stop()
            self._tailer = None
        self.control.release()
        self.forget_drawn()

    def _start_engine(self) -> None:
        """`--start`: only where nothing stands against it; a halted run waits for a decision."""
        now = condition(self.directory)
        if now.alive or now.word in ("halted", "finished", "recorded", "elsewhere"):
            return
        try:
            self.control.start()
        except RunError as error:
            self.notify(str(error), severity="error", markup=False)

    def _deliver(self, store: Store, update: Update) -> None:
        """Called by the tailer's thread: posting never blocks."""
        self.post_message(FeedUpdate(update, store))

    def on_feed_update(self, message: FeedUpdate) -> None:
        if message.store is not self.store or self._tailer is None:
            return
        first, was_complete = self.store.version == 0, self.store.complete
        self.store.apply(message.update)
        taken = self._tailer.taken
        if not self.screen_stack:  # the app is shutting down
            return
        screen = self.screen
        if first and isinstance(screen, DashboardScreen):
            screen.redraw()
            screen.call_after_refresh(taken)  # only then is a long record read on
        else:
            taken()
            self._draw_soon(at_once=self.store.complete and not was_complete)
        if not self._halt_shown and self.store.condition.word == "halted" and isinstance(screen, DashboardScreen):
            self._halt_shown = True
            self.bell()
            self.actions.samples()
        if self.store.condition.alive:
            self._halt_shown = False
        if self.store.complete and self._bell.rings(self.store.condition, self.store.alarm):
            self.bell()
        if self._following_stop and not self.store.condition.alive:
            self.leave("stopped")

    def _draw_soon(self, *, at_once: bool = False) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, DashboardScreen):
                screen.draw_soon(at_once=at_once)

    def look_now(self) -> None:
        """The run directory is looked at without waiting for the next turn."""
        if self._tailer is not None:
            self._tailer.look_now()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent | events.AppFocus) and self._tailer is not None:
            self._tailer.attended()
        await super().on_event(event)

    def run_command(self, name: str) -> None:
        """Run a command of the registry on the dashboard."""
        for screen in self.screen_stack:
            if isinstance(screen, DashboardScreen):
                screen.action_command(name)

    # -- leaving ------------------------------------------------------------------------------------------------

    def follow_stop(self) -> None:
        """The stop was asked: stay until the engine has saved and ended, then close."""
        self._following_stop = True
        self.store.saves.ask(self.store.step, "checkpoint and exit")
        self.notify("stopping: the console closes when everything is saved; d closes it at once", markup=False)

    def leave(self, reason: str, number: int = 0) -> None:
        """Close the console. The engine is not touched."""
        from andrea_tui.screens.runs import RunsScreen

        lists = [screen.root for screen in self.screen_stack if isinstance(screen, RunsScreen)]
        listing = lists[0] if lists and self._tailer is None else None
        self._close_run()
        self.exit(ExitState(reason, number, listing), return_code=128 + number if number else 0)

    def _terminal_gone(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called by a thread; the loop may have ended before."""
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self.leave, "signal", signal.SIGHUP)

    def action_leave_console(self) -> None:
        self.leave("left")

    async def action_quit(self) -> None:
        self.leave("left")

    def on_unmount(self) -> None:
        self._close_run()

    # -- help and palette: on screens that have no keys of their own for them ------------------------------------

    def action_help(self) -> None:
        """The keys of the screen on top."""
        screen = self.screen
        if isinstance(screen, DashboardScreen):
            screen.action_command("help")
        elif not isinstance(screen, HelpScreen):
            self.push_screen(HelpScreen(screen_keys(screen)))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        from andrea_tui.palette import system_commands

        return system_commands(self, screen)
