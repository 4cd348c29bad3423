"""What the palette lists: our commands with their keys, and why not now; elsewhere what makes sense on any screen."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.markup import escape
from textual.screen import Screen

from andrea_tui.commands import COMMANDS, Situation
from andrea_tui.screens.dashboard import DashboardScreen
from andrea_tui.widgets.rows import LONGEST, visible

if TYPE_CHECKING:
    from andrea_tui.app import AndreaApp


def system_commands(app: AndreaApp, screen: Screen[object]) -> Iterable[SystemCommand]:
    """For the screen on top."""

    def take_screenshot() -> None:
        app.notify(f"saved {app.save_screenshot(path=str(Path.cwd()))}")

    if isinstance(screen, DashboardScreen):
        yield from _run_commands(app, screen)
    else:
        yield SystemCommand("Help (?)", "The keys of this screen", app.action_help)
        yield SystemCommand("Back (Esc)", "One level back", lambda: app.simulate_key("escape"))
    yield SystemCommand("Theme", "Change the colours", app.action_change_theme)
    yield SystemCommand("Screenshot", "Save an SVG picture of the screen here", take_screenshot)
    yield SystemCommand("Close the console", "The engine goes on", app.action_leave_console)


def _run_commands(app: AndreaApp, screen: DashboardScreen) -> Iterable[SystemCommand]:
    for command in COMMANDS:
        if command.id == "palette":
            continue

        def run(name: str = command.id) -> None:
            screen.action_command(name)

        reason = command.reason(Situation(app.store, app.actions.read_only))
        why = f"not now: {escape(visible(reason[:LONGEST]))}" if reason else ""
        yield SystemCommand(f"{command.help.rstrip('.')} ({command.key_name})", why, run)
