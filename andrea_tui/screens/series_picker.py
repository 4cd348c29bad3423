"""Which series the chart shows: a list to choose from, with why some have nothing to show."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from andrea_tui.widgets.loss.series import Offer
from andrea_tui.widgets.rows import LONGEST, visible

_HINT = "Enter or a digit chooses, Esc goes back."


class SeriesPicker(ModalScreen[str]):
    """Ends with the key of a series, or '' for Esc. What has nothing to show cannot be chosen."""

    BINDINGS = [Binding("escape,m", "back", "back", show=False)]
    KEYS_HELP = (("up down Enter 1-9", "Choose a series."), ("Esc m", "Back to the chart as it was."))

    def __init__(self, offers: list[Offer], present: str) -> None:
        super().__init__()
        self._offers = offers
        self._present = present

    def compose(self) -> ComposeResult:
        options = [
            Option(_words(number, offer, offer.key == self._present), disabled=bool(offer.reason))
            for number, offer in enumerate(self._offers, 1)
        ]
        with Vertical(id="picker"):
            yield Static(Text("Show in the chart", style="bold"), id="dialog-title")
            yield OptionList(*options, id="series")
            yield Static(Text(_HINT, style="dim"))

    def on_mount(self) -> None:
        series = self.query_one(OptionList)
        keys = [offer.key for offer in self._offers]
        series.highlighted = keys.index(self._present) if self._present in keys else 0
        series.focus()

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        self.dismiss(self._offers[message.option_index].key)

    def on_key(self, event: events.Key) -> None:
        """A digit chooses the series of that number."""
        if event.character is not None and event.character in "123456789":
            event.stop()
            index = int(event.character) - 1
            if index < len(self._offers) and not self._offers[index].reason:
                self.dismiss(self._offers[index].key)

    def action_back(self) -> None:
        self.dismiss("")


def _words(number: int, offer: Offer, present: bool) -> Text:
    """`3  sample score, of 100`; never parsed as markup."""
    text = Text(f"{number if number < 10 else ' '}  ", style="bold", no_wrap=True)
    text.append(visible(offer.name[:LONGEST]).replace("\n", " "), style="bold" if present else "")
    if offer.unit:
        text.append(f", {offer.unit}", style="dim")
    if offer.reason:
        text.append(f"  not now: {offer.reason}", style="dim")
    elif present:
        text.append("  shown now", style="dim")
    return text
