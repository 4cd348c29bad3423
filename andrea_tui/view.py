"""How the run is looked at: one time cursor, one window and one choice of axes and series for the whole console."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from andrea_tui.feed.axes import AXES
from andrea_tui.feed.record import Record
from andrea_tui.feed.smoothing import BETAS

SMOOTHINGS = tuple(BETAS)
DEFAULT_SMOOTHING = "0.99"  # what the record itself keeps
LONGEST_KEY = 300


class Window(msgspec.Struct, frozen=True):
    """The part of an axis that is shown, in units of `axis`. With `follows` its right edge is the newest point, and
    only its width counts."""

    axis: str
    lo: float
    hi: float
    follows: bool = False


class ViewState(msgspec.Struct):
    """`cursor`: a step, or None. `window`: None shows everything. `policies_back`: None shows all policies, 0 the
    present one alone, 1 the one before. `series`: a key of `widgets.loss.series`.

    The panes read it, the chart and its keys change it, all in the UI thread.
    """

    cursor: int | None = None
    window: Window | None = None
    policies_back: int | None = None
    x_axis: str = AXES[0]
    smoothing: str = DEFAULT_SMOOTHING
    log_y: bool = False
    series: str = "loss"

    def cursor_index(self, record: Record) -> int | None:
        """The entry at the time cursor; None without a cursor, or without entries."""
        return None if self.cursor is None else record.index_of(self.cursor)

    def leave_run(self) -> None:
        """Another run is opened: what belongs to the record of the last one is forgotten, habits stay."""
        self.cursor = self.window = self.policies_back = None

    def smooth(self, by: int) -> bool:
        """Smooth more (1) or less (-1); False at the end of the scale."""
        index = SMOOTHINGS.index(self.smoothing) + by
        if not 0 <= index < len(SMOOTHINGS):
            return False
        self.smoothing = SMOOTHINGS[index]
        return True

    def settings(self) -> dict[str, object]:
        """What is worth remembering from one console to the next."""
        return {"x_axis": self.x_axis, "smoothing": self.smoothing, "log_y": self.log_y, "series": self.series}

    def restore(self, settings: Mapping[str, object]) -> None:
        """Take up remembered settings; whatever is not understood is left as it is."""
        axis, smoothing = settings.get("x_axis"), settings.get("smoothing")
        log_y, series = settings.get("log_y"), settings.get("series")
        if isinstance(axis, str) and axis in AXES:
            self.x_axis = axis
        if isinstance(smoothing, str) and smoothing in BETAS:
            self.smoothing = smoothing
        if isinstance(log_y, bool):
            self.log_y = log_y
        if isinstance(series, str) and len(series) <= LONGEST_KEY:
            self.series = series
