"""A window into a log of any size: moving, following, filtering and searching, with bounded memory.

What is kept is one number a block and search (`Tally`), and the entries of one page.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable

import msgspec

from andrea_tui.feed.line_file import Line, LineFile, LineFileError
from andrea_tui.feed.log_text import Entry, Reading, Wanted

MOST_COUNTED = 1 << 20  # blocks, so 64 GB as a rule: beyond that the number of matches stays unknown
MOST_RECENT = 4  # blocks whose lines are at hand
EVERYTHING = Wanted()


class SupersededError(Exception):
    """Something else was asked for meanwhile."""


class Page(msgspec.Struct, frozen=True):
    """What the screen shows. `share`: where the page ends in the file, 0 to 1; `counted`: share of the file in which
    matches were counted; `number`: place of the current match among all, None while unknown; `searched`: share that a
    search under way has been through, None when there is none; `problem`: why there is nothing to see.
    """

    name: str = ""
    entries: tuple[Entry, ...] = ()
    size: int = 0
    share: float = 0.0
    follow: bool = True
    at_end: bool = True
    wanted: Wanted = EVERYTHING
    matches: int = 0
    number: int | None = None
    counted: float = 1.0
    current: int | None = None
    note: str = ""
    searched: float | None = None
    problem: str = ""


class Tally:
    """How many wanted entries each finished block has."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.counts = array("I")

    def empty(self, block: int) -> bool:
        """True when it is known that nothing wanted is in this block."""
        return block < len(self.counts) and self.counts[block] == 0


class LogWindow:
    """State of one view. Every call may read the file.

    `busy(share)` is called between the blocks of a search, and may raise SupersededError to end it.
    Positions are offsets of lines in the file, so that nothing moves on the screen when the file grows.
    """

    def __init__(self, file: LineFile, reading: Reading) -> None:
        self.file = file
        self.follow = True
        self.wanted = EVERYTHING  # the filter and the query
        self.height = 1
        self.note = ""
        self.busy: Callable[[float], None] = lambda share: None
        self._reading = reading
        self._top = 0
        self._current: int | None = None
        self._problem = ""
        self._shown = Tally(EVERYTHING)
        self._found = Tally(EVERYTHING)
        self._recent: dict[int, list[Line]] = {}
        self._end_counted: tuple[object, list[int]] | None = None

    # -- what the operator does -----------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Look at the file; True when it changed. A replaced or shortened one is shown from its end, and said so."""
        before = (self.file.size, self._problem)
        try:
            replaced = self.file.refresh()
            self._problem = ""
        except LineFileError as error:
            replaced = False
            self._problem = str(error)
        changed = replaced or before != (self.file.size, self._problem)
        if changed:
            self._recent.clear()
        if replaced:
            self._shown, self._found = Tally(self._shown.wanted), Tally(self._found.wanted)
            self._end_counted = None
            self._current = None
            self.follow = True
            self.note = f"{self.file.path.name} was replaced or cut short: this is the new one"
        return changed

    def move(self, lines: int) -> None:
        """Down by so many entries, or up; up ends the following."""
        self.note = ""
        if lines > 0 and not self.follow:
            ahead = self._forward(self._top, lines + 1, self._shown)
            if ahead:
                self._top = ahead[-1]
        elif lines < 0:
            above = self._backward(self._top, -lines, self._shown)
            self.follow = False
            if above:
                self._top = above[0]

    def home(self) -> None:
        self.note, self.follow, self._top = "", False, 0

    def end(self) -> None:
        """Show the end, and keep to it."""
        self.note, self.follow = "", True

    def want(self, wanted: Wanted) -> None:
        """Another filter or query; the place stays."""
        if wanted.level != self.wanted.level:
            self._shown = Tally(Wanted(wanted.level))
        if wanted != self.wanted:
            self._found = Tally(wanted)
            self._current = None
            self.note = ""
        self.wanted = wanted

    def find(self) -> None:
        """The match to begin with: the last one when the end is followed, else the first from the top of the page."""
        if self.follow:
            self._to_match(self._backward(self.file.size, 1, self._found), "")
        else:
            self._to_match(self._forward(self._top, 1, self._found) or self._forward(0, 1, self._found), "")

    def next(self, direction: int) -> None:
        """The next match down (1) or up (-1), around the ends of the file."""
        if self._current is None:
            self.find()
        elif direction > 0:
            ahead = self._forward(self._current + 1, 1, self._found)
            self._to_match(ahead or self._forward(0, 1, self._found), "" if ahead else "from the top again")
        else:
            above = self._backward(self._current, 1, self._found)
            around = above or self._backward(self.file.size, 1, self._found)
            self._to_match(around, "" if above else "from the end again")

    def _to_match(self, found: list[int], note: str) -> None:
        if not found:
            self.note = ""
            return
        above = self._backward(found[0], self.height // 3, self._shown)
        self._current = found[0]
        self._top = above[0] if above else self._current
        self.follow = False
        self.note = note

    # -- what the screen shows ------------------------------------------------------------------------------------

    def page(self) -> Page:
        """The entries that are to be seen now."""
        if self._problem:
            return Page(name=self.file.path.name, problem=self._problem, wanted=self.wanted, follow=self.follow)
        places: list[int] = []
        if not self.follow:
            places = self._forward(self._top, self.height, self._shown)
        if len(places) < self.height:  # the end: the page is filled up from above
            first = places[0] if places else self.file.size
            places = self._backward(first, self.height - len(places), self._shown) + places
        if places:
            self._top = places[0]
        last = places[-1] if places else 0
        at_end = self.follow or not self._forward(last + 1, 1, self._shown)
        number, matches, counted = self._numbers()
        return Page(
            name=self.file.path.name,
            entries=self._entries(places),
            size=self.file.size,
            share=1.0 if at_end or not self.file.size else last / self.file.size,
            follow=self.follow,
            at_end=at_end,
            wanted=self.wanted,
            matches=matches,
            number=number,
            counted=counted,
            current=self._current,
            note=self.note,
        )

    def count_on(self, blocks: int) -> bool:
        """Count in so many further blocks; True while there is more to do."""
        tallies = [tally for tally in (self._shown, self._found) if not tally.wanted.everything]
        end = min(self.file.final_blocks, MOST_COUNTED)
        for tally in tallies:
            while blocks > 0 and len(tally.counts) < end:
                tally.counts.append(len(self._places(len(tally.counts), tally)))
                blocks -= 1
        return any(len(tally.counts) < end for tally in tallies)

    @property
    def counted(self) -> tuple[int, int]:
        """Blocks in which was counted, for the filter and for the query."""
        return len(self._shown.counts), len(self._found.counts)

    def _numbers(self) -> tuple[int | None, int, float]:
        """Place of the current match among all, matches so far, and in which share of the file they were counted."""
        tally = self._found
        if not self.wanted.query:
            return None, 0, 1.0
        done, final = len(tally.counts), self.file.final_blocks
        matches = sum(tally.counts)
        number = None
        if done == final:
            matches += sum(self._end_counts(final))
        if self._current is not None:
            block = self._current // self.file.block
            before = self._end_counts(final)[: block - final] if done == final and block > final else []
            if block <= done or done == final:
                here = bisect_right(self._places(block, tally), self._current)
                number = sum(tally.counts[:block]) + sum(before) + here
        return number, max(matches, number or 0), done / final if final else 1.0

    def _end_counts(self, final: int) -> list[int]:
        """Matches in each of the blocks that still change."""
        key = (self.wanted, self.file.size, final)
        if self._end_counted is None or self._end_counted[0] != key:
            self._end_counted = (
                key,
                [len(self._places(block, self._found)) for block in range(final, self.file.blocks)],
            )
        return self._end_counted[1]

    # -- reading --------------------------------------------------------------------------------------------------

    def _lines(self, block: int) -> list[Line]:
        if block not in self._recent:
            if len(self._recent) >= MOST_RECENT:
                self._recent.clear()
            self._recent[block] = self.file.lines(block)
        return self._recent[block]

    def _places(self, block: int, tally: Tally) -> list[int]:
        """Offsets of the wanted lines that start in a block."""
        if tally.empty(block):
            return []
        wanted = tally.wanted
        if wanted.everything:
            return [line.start for line in self._lines(block)]
        if not self._reading.may_have(self.file.bytes_of(block), wanted):
            return []
        return self._reading.places(self._lines(block), wanted)

    def _entries(self, places: list[int]) -> tuple[Entry, ...]:
        """The lines at these offsets, in words."""
        wanted = set(places)
        blocks = sorted({place // self.file.block for place in places})
        entries = [entry for block in blocks for entry in self._reading.entries(self._lines(block))]
        return tuple(entry for entry in entries if entry.offset in wanted)

    def _forward(self, offset: int, count: int, tally: Tally) -> list[int]:
        """Offsets of the first `count` wanted lines from `offset` on, in order."""
        found: list[int] = []
        for block in range(offset // self.file.block, self.file.blocks):
            found += [place for place in self._places(block, tally) if place >= offset]
            if len(found) >= count:
                break
            self.busy((block + 1) / self.file.blocks)
        return found[:count]

    def _backward(self, offset: int, count: int, tally: Tally) -> list[int]:
        """Offsets of the last `count` wanted lines before `offset`, in order."""
        if count <= 0:
            return []
        found: list[int] = []
        blocks = self.file.blocks
        for block in range(min(blocks - 1, offset // self.file.block), -1, -1):
            found = [place for place in self._places(block, tally) if place < offset] + found
            if len(found) >= count:
                break
            self.busy((blocks - block) / blocks)
        return found[-count:]
