"""The console without a terminal, and with a bell that is only written down."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import Input

from andrea_engine.run.directory import RunDirectory
from andrea_tui.app import AndreaApp
from andrea_tui.leaving import ExitState
from andrea_tui.screens.dashboard import DashboardScreen
from tests.widgets.test_rows import harmless

PATIENCE = 60.0


@dataclass
class Acts:
    """What the console did to the outside world."""

    rung: list[str] = field(default_factory=list)
    started: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def none(self) -> bool:
        return not self.rung and not self.started


class Ended:
    """Stands in for an engine that was just started and still runs."""

    def poll(self) -> int | None:
        return None


@pytest.fixture
def acts(monkeypatch: pytest.MonkeyPatch) -> Acts:
    """Instead of signals and engines."""
    done = Acts()

    def request(directory: RunDirectory, what: str) -> int:
        done.rung.append(what)
        return 1

    def spawn(directory: RunDirectory, arguments: Sequence[str] = ()) -> Ended:
        done.started.append(tuple(arguments))
        return Ended()

    monkeypatch.setattr("andrea_tui.control.request", request)
    monkeypatch.setattr("andrea_tui.control.spawn_engine", spawn)
    return done


@dataclass
class Console:
    """A running app under a pilot."""

    app: AndreaApp
    pilot: Pilot[ExitState]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain until {what}; the screen:\n{self.text}"
            await asyncio.sleep(0.01)

    async def press(self, *keys: str) -> None:
        """Press keys, each when all that followed from the last one is done. (The pilot's own way waits for an idle
        process, and this one is never idle for long.)"""
        for key in keys:
            self.app.simulate_key(key)
            await self.settle()

    async def settle(self) -> None:
        """Until the app and the screen on top have worked off their messages and have drawn."""
        await self._done(self.app.call_later)
        await self._done(self.app.screen.call_later)
        await self._done(self.app.screen.call_after_refresh)

    async def _done(self, call: Callable[[Callable[[], None]], object]) -> None:
        if self.app._exit:
            return
        reached = asyncio.Event()
        call(reached.set)
        try:
            await asyncio.wait_for(reached.wait(), PATIENCE)
        except TimeoutError:
            assert self.app._exit, "the app does not answer"

    async def search(self, words: str) -> None:
        """Type into the palette."""
        self.app.screen.query_one(Input).value = words
        await self.settle()

    @property
    def lines(self) -> list[str]:
        return [strip.text for strip in self.app.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def notices(self) -> list[str]:
        return [notification.message for notification in self.app._notifications]

    @property
    def dashboard(self) -> DashboardScreen:
        return next(screen for screen in self.app.screen_stack if isinstance(screen, DashboardScreen))

    @property
    def open(self) -> str:
        """Name of the screen on top."""
        return type(self.app.screen).__name__

    def assert_sound(self) -> None:
        """Every line has the width of the screen, and holds nothing that a terminal obeys."""
        width, height = self.app.size
        assert [line for line in self.lines if not harmless(line)] == []
        assert [cell_len(line) for line in self.lines] == [width] * height


@asynccontextmanager
async def console(
    directory: RunDirectory, size: tuple[int, int] = (120, 40), *, watch: bool = False, start: bool = False
) -> AsyncIterator[Console]:
    """The app, after its first look at the directory."""
    app = AndreaApp(directory, watch=watch, start=start)
    async with app.run_test(size=size) as pilot:
        running = Console(app, pilot)
        if isinstance(app.screen_stack[-1], DashboardScreen):
            await running.until(lambda: app.store.version, "the directory was read")
        await running.settle()
        yield running
