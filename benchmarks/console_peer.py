"""The floor for a console's first paint: a Textual application of six widgets that knows nothing."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Static


class Peer(App[None]):
    """Six framed texts."""

    CSS = "Screen { layout: grid; grid-size: 2 3; } Static { border: solid $primary; height: 1fr; }"

    def compose(self) -> ComposeResult:
        for number in range(1, 7):
            yield Static(f"widget {number}")


if __name__ == "__main__":
    Peer().run()
