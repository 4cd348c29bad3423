"""What the console asks of any terminal, whatever it shows: colours, characters, size, short messages."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from textual import events
from textual._styles_cache import StylesCache
from textual.app import App
from textual.css.query import NoMatches
from textual.filter import LineFilter, Monochrome
from textual.geometry import Size
from textual.notifications import SeverityLevel
from textual.timer import Timer
from textual.worker import WorkerFailed

from andrea_tui.guard import AsciiOnly, Colourless, ControlGuard
from andrea_tui.leaving import ExitState
from andrea_tui.plotting.raster import Kind
from andrea_tui.themes import THEMES
from andrea_tui.widgets.rows import LONGEST, visible

SETTLE_SECONDS = 0.1  # after the last change of the terminal's size


class TerminalApp(App[ExitState]):
    """A Textual app that sends no control character of its content, and draws in the characters of `plot_kind`."""

    def __init__(self, plot_kind: Kind) -> None:
        super().__init__()
        self.plot_kind: Kind = plot_kind
        self._guards: list[LineFilter] = [ControlGuard()]
        if plot_kind == "ascii":
            self._guards.append(AsciiOnly())
        if self.no_color:
            self._guards.append(Colourless())
        self._settling: Timer | None = None
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = "andrea-ansi" if self.no_color else "andrea-dark"
        self._css_variables = self.get_css_variables()
        self.stylesheet.set_variables(self._css_variables)

    def refresh_css(self, animate: bool = True) -> None:
        """Textual asks for it at each start, because of the theme. Where no colour has changed it would parse all rules
        once more, before the first frame."""
        variables = self.get_css_variables()
        if variables != self._css_variables:
            self._css_variables = variables
            super().refresh_css(animate)

    def forget_drawn(self) -> None:
        """Let go of what closed screens have drawn. Textual caches a method of each widget's cache for the whole
        process, and with it up to a thousand of these caches."""
        clear = getattr(StylesCache.get_inner_outer, "cache_clear", None)
        if clear is not None:
            clear()

    def get_line_filters(self) -> Sequence[LineFilter]:
        # Textual's greys would hide from ours what stands on a colour.
        others = [one for one in super().get_line_filters() if not isinstance(one, Monochrome)]
        return [*others, *self._guards]

    def on_resize(self) -> None:
        """Whenever the size came to rest, ask for it once more and draw everything again.

        A terminal that shrank and grew back has lost cells, and its size is no news that Textual would draw for. And
        signals that come close together interrupt one another, so that the size that was read first is told last.
        """
        if self._settling is None:
            self._settling = self.set_timer(SETTLE_SECONDS, self._settled)
        else:
            self._settling.reset()

    def _settled(self) -> None:
        self._settling = None
        size = Size(*shutil.get_terminal_size(fallback=self.size))
        if size != self.size and not self.is_headless:
            self.post_message(events.Resize(size, size))  # and back here
        else:
            self.refresh(layout=True)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """A short message; content is never parsed as markup, nor obeyed.

        A plain one takes the place of the one before: they lie over what somebody works on.
        """
        if severity == "information":
            for before in [note for note in self._notifications if note.severity == "information"]:
                self._unnotify(before)
        super().notify(visible(message[:LONGEST]), title=title, severity=severity, timeout=timeout, markup=False)

    def tell(self, text: str, severity: str = "information") -> None:
        """`notify` for those who do not know Textual's types."""
        level: SeverityLevel = "error" if severity == "error" else "warning" if severity == "warning" else "information"
        self.notify(text, severity=level)

    def _handle_exception(self, error: Exception) -> None:
        """A screen that was still opening when the console was told to leave looks for widgets that are gone already:
        Textual's own palette does. That is no failure of a console that is leaving."""
        cause = error.error if isinstance(error, WorkerFailed) else error
        if not (self._exit and isinstance(cause, NoMatches)):
            super()._handle_exception(error)
