"""The rows of the log screen: the lines with their signs, what is shown of the file, and where a search is."""

from __future__ import annotations

from rich.cells import cell_len

from andrea_tui.feed.log_text import ERROR, LEVELS, WARNING, Entry, folded
from andrea_tui.feed.log_window import Page
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import human_count, percent, size_bytes
from andrea_tui.widgets.rows import Row, RowsWidget, cut, row_width, spread, visible

TABS = (("log", "engine log"), ("events", "events"))
_LEVEL_SIGNS = {WARNING: ("▲", "warn"), ERROR: ("✕", "bad")}


class LogHead(RowsWidget):
    """Which of the two it is, which lines are shown, and whether the end is followed."""

    def __init__(self) -> None:
        super().__init__(id="log-head")
        self.tab = "log"
        self.page = Page()

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        page = self.page
        left: Row = [(" ", "")]
        for name, label in TABS:
            left += [(f"[{label}]", "accent-bold") if name == self.tab else (f" {label} ", "dim"), (" ", "")]
        left.append((f" {LEVELS[page.wanted.level]}", "warn" if page.wanted.level else "dim"))
        if page.problem:
            return [left]
        place = "following the end" if page.follow else f"{percent(page.share)}, not following: G follows"
        right: Row = [(f"{size_bytes(page.size)}  ", "dim"), (f"{place} ", "good" if page.follow else "warn")]
        if row_width(left) + row_width(right) > width:
            right = right[1:]
        return [spread(left, right, width)]


class LogBody(RowsWidget):
    """The lines. `left`: characters by which they are moved to the left."""

    def __init__(self) -> None:
        super().__init__(id="log-body")
        self.page = Page()
        self.left = 0

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        page = self.page
        if page.problem:
            return [[], [(f"  {page.problem}", "message")]]
        if not page.entries:
            if page.searched is not None:
                return [
                    [(f"  looking for {LEVELS[page.wanted.level]}, {percent(page.searched)} of the file", "message")]
                ]
            if page.wanted.level:
                return [[(f"  no {LEVELS[page.wanted.level]} here; l shows more", "message")]]
            return [[("  nothing here yet", "message")]]
        return [self._row(entry, width) for entry in page.entries]

    def _row(self, entry: Entry, width: int) -> Row:
        query = self.page.wanted.query
        hit = bool(query) and folded(query) in folded(entry.text)
        sign = ("▶", "match") if entry.offset == self.page.current else ("◆", "warn") if hit else (" ", "")
        if entry.continued and not hit:
            sign = ("┆", "faint")
        room = width - 3
        text = visible(entry.text)
        shown = text[self.left : self.left + room + 1]
        if cell_len(shown) > room:
            shown = cut(shown, max(0, room - 1)).rstrip() + "…"
        return [_LEVEL_SIGNS.get(entry.level, (" ", "")), sign, (" ", ""), *marked(shown, query, entry.meaning)]


def marked(text: str, query: str, meaning: str) -> Row:
    """The text with every occurrence of the query marked, whatever its case."""
    if not query:
        return [(text, meaning)]
    row: Row = []
    lower, needle = folded(text), folded(visible(query))
    start = 0
    while needle and (place := lower.find(needle, start)) >= 0:
        row += [(text[start:place], meaning), (text[place : place + len(needle)], "match")]
        start = place + len(needle)
    return [*row, (text[start:], meaning)]


class LogFoot(RowsWidget):
    """Where the search is, or what just happened."""

    def __init__(self) -> None:
        super().__init__(id="log-foot")
        self.page = Page()

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        page = self.page
        row: Row = [(f" {page.note}  ", "warn")] if page.note else [(" ", "")]
        if page.wanted.query:
            row.append((f" /{page.wanted.query}  ", "bright"))
        if page.wanted.query or page.searched is not None:
            row.append((search_text(page), ""))
        return [row]


def search_text(page: Page) -> str:
    """`3 of 17`; while the file is still being counted, that too."""
    if page.searched is not None:
        return f"searching, {percent(page.searched)} of the file"
    counting = f" so far, counted {percent(page.counted)} of the file" if page.counted < 1 else ""
    matches = human_count(page.matches)
    if page.current is not None:
        return f"{'…' if page.number is None else human_count(page.number)} of {matches}{counting}"
    if not page.matches:
        return f"not found{counting}"
    lines = "line matches" if page.matches == 1 else "lines match"
    return f"{matches} {lines}{counting}; n goes to the next"
