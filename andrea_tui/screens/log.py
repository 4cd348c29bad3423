"""The engine's log and the event log in full: follow, scroll, search, filter."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input

from andrea_engine.run.directory import RunDirectory
from andrea_tui.feed.line_file import LineFile
from andrea_tui.feed.log_feed import LogFeed, Order
from andrea_tui.feed.log_text import LEVELS, EventReading, LogReading, Wanted
from andrea_tui.feed.log_window import LogWindow, Page
from andrea_tui.feed.store import Store
from andrea_tui.widgets.key_bar import KeyLine
from andrea_tui.widgets.log_rows import TABS, LogBody, LogFoot, LogHead
from andrea_tui.widgets.status_bar import StatusBar

FRAME_SECONDS = 0.25
LONGEST_QUERY = 200
EVENT_PIECE = 32 * 1024  # events are never broken below twice that


KEYS = (
    ("Esc", "back"),
    ("/", "search"),
    ("n N", "next, previous"),
    ("l", "level"),
    ("Tab", "log or events"),
    ("G", "follow"),
    ("?", "help"),
)


class LogScreen(Screen[None]):
    """Reads through a thread of its own (`LogFeed`), which gets orders and gives pages."""

    AUTO_FOCUS = ""
    KEYS_HELP = (
        ("up down j k", "One line up or down; up ends the following of the end."),
        ("PgUp PgDn", "One page up or down."),
        ("g home", "The first line."),
        ("G end", "The end, and follow what is added."),
        ("left right", "Move long lines to the side."),
        ("/", "Search for a text, whatever its case: Enter goes to a match, Esc ends the search."),
        ("n N", "The next match below, the next one above."),
        ("l", "Show all lines, warnings and errors, or errors only. The log has no levels of its own: words decide."),
        ("Tab", "The engine's log, or the events in words."),
        ("Esc v q", "Back to the dashboard."),
    )
    BINDINGS = [
        Binding("escape", "back", "back", show=False),
        Binding("v,q", "leave", "back", show=False),
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "turn(-1)", "page up", show=False),
        Binding("pagedown,space", "turn(1)", "page down", show=False),
        Binding("home,g", "home", "first line", show=False),
        Binding("end,G,shift+g", "end", "follow the end", show=False),
        Binding("left", "pan(-1)", "left", show=False),
        Binding("right", "pan(1)", "right", show=False),
        Binding("slash", "search", "search", show=False),
        Binding("n", "next(1)", "next match", show=False),
        Binding("N,shift+n", "next(-1)", "previous match", show=False),
        Binding("l", "level", "level", show=False),
        Binding("tab", "tab", "log or events", show=False, priority=True),
    ]

    class Ready(Message):
        """The reader has a new page; an older one that still waits is dropped."""

        def __init__(self, name: str, page: Page) -> None:
            super().__init__()
            self.name, self.page = name, page

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LogScreen.Ready)

    def __init__(self, directory: RunDirectory, store: Store, *, search: bool = False, tab: str = "log") -> None:
        super().__init__()
        self._store = store
        self._run_name = directory.name
        self._tab = tab
        self._wanted = Wanted()
        self._search_first = search
        self._left_with_esc = search  # Esc on an empty search line that the dashboard opened goes back there
        self._drawn = -1
        windows = {
            "log": LogWindow(LineFile(directory.log), LogReading()),
            "events": LogWindow(LineFile(directory.events, EVENT_PIECE), EventReading()),
        }
        self._feed = LogFeed(windows, lambda name, page: self.post_message(self.Ready(name, page)), tab)

    def compose(self) -> ComposeResult:
        yield StatusBar(self._run_name)
        yield LogHead()
        yield LogBody()
        yield LogFoot()
        yield Input(placeholder="text to search for", max_length=LONGEST_QUERY, id="log-search")
        yield KeyLine(KEYS)

    def on_mount(self) -> None:
        self._feed.start()
        self.set_interval(FRAME_SECONDS, self._frame)
        if self._search_first:
            self.action_search()

    def on_unmount(self) -> None:
        self._feed.stop()

    def on_resize(self) -> None:
        self._drawn = -1
        self.call_after_refresh(self._resized)

    def _resized(self) -> None:
        height = max(1, self.query_one(LogBody).size.height)

        def resize(window: LogWindow) -> None:
            window.height = height

        for name, _ in TABS:
            if name != self._tab:
                self._feed.ask(name, resize)
        self._ask(resize)
        self._frame()

    def _frame(self) -> None:
        if self._drawn != self._store.version:
            self._drawn = self._store.version
            self.query_one(StatusBar).update_from(self._store)
            self.query_one(KeyLine).update_from(self._store)

    def on_log_screen_ready(self, message: Ready) -> None:
        if message.name != self._tab:
            return
        head = self.query_one(LogHead)
        head.tab = self._tab
        for widget in (head, self.query_one(LogBody), self.query_one(LogFoot)):
            widget.page = message.page
            widget.update_from(self._store)

    def _ask(self, order: Order) -> None:
        self._feed.ask(self._tab, order)

    # -- moving -------------------------------------------------------------------------------------------------

    def action_move(self, lines: int) -> None:
        self._ask(lambda window: window.move(lines))

    def action_turn(self, pages: int) -> None:
        self._ask(lambda window: window.move(pages * max(1, window.height - 1)))

    def action_home(self) -> None:
        self._pan_to(0)
        self._ask(LogWindow.home)

    def action_end(self) -> None:
        self._ask(LogWindow.end)

    def action_pan(self, direction: int) -> None:
        body = self.query_one(LogBody)
        longest = max((len(entry.text) for entry in body.page.entries), default=0)
        step = max(1, body.size.width // 2)
        self._pan_to(max(0, min(body.left + direction * step, longest // step * step)))

    def _pan_to(self, left: int) -> None:
        body = self.query_one(LogBody)
        body.left = left
        body.update_from(self._store)

    def on_mouse_scroll_down(self) -> None:
        self.action_move(3)

    def on_mouse_scroll_up(self) -> None:
        self.action_move(-3)

    def action_tab(self) -> None:
        """The other of the two, with the same filter and query."""
        names = [name for name, _ in TABS]
        self._tab = names[(names.index(self._tab) + 1) % len(names)]
        wanted = self._wanted
        self._pan_to(0)
        self._ask(lambda window: window.want(wanted))

    # -- searching ----------------------------------------------------------------------------------------------

    def action_search(self) -> None:
        line = self.query_one("#log-search", Input)
        line.add_class("-open")
        line.value = self._wanted.query
        line.focus()

    def on_input_changed(self, message: Input.Changed) -> None:
        self._want(Wanted(self._wanted.level, message.value))

    def on_input_submitted(self) -> None:
        self._left_with_esc = False
        self._close_search()
        if self._wanted.query:
            self._ask(LogWindow.find)

    def action_next(self, direction: int) -> None:
        if self._wanted.query:
            self._ask(lambda window: window.next(direction))
        else:
            self.action_search()

    def action_level(self) -> None:
        self._want(Wanted((self._wanted.level + 1) % len(LEVELS), self._wanted.query))

    def _want(self, wanted: Wanted) -> None:
        if wanted != self._wanted:
            self._wanted = wanted
            self._ask(lambda window: window.want(wanted))

    def _close_search(self) -> None:
        self.query_one("#log-search", Input).remove_class("-open")
        self.set_focus(None)

    def action_back(self) -> None:
        """Esc: out of the search line, out of the search, out of the screen."""
        line = self.query_one("#log-search", Input)
        searching = bool(self._wanted.query)
        leave = not searching and (not line.has_class("-open") or self._left_with_esc)
        if line.has_class("-open"):
            self._close_search()
        self._want(Wanted(self._wanted.level))
        if leave:
            self.action_leave()

    def action_leave(self) -> None:
        self.dismiss()
