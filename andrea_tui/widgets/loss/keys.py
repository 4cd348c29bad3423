"""The commands of the chart: each method is named as in the registry and returns a sentence to tell, or ''."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

from andrea_tui.feed.axes import AXES, unknown
from andrea_tui.widgets.loss.axis_words import AXIS_WORDS
from andrea_tui.widgets.loss.curves import Picture
from andrea_tui.widgets.loss.frame import Frame, neighbour, panned, showing, zoomed
from andrea_tui.widgets.loss_panel import ZOOM, LossPanel

PAN = 0.25  # of the window


class ChartKeys:
    """Acts on a panel's view, in terms of what the panel has drawn last. Without a drawing nothing happens."""

    def __init__(self, panel: LossPanel) -> None:
        self._panel = panel
        self._view = panel.view

    # -- what is shown ------------------------------------------------------------------------------------------

    def log_scale(self) -> str:
        self._view.log_y = not self._view.log_y
        return ""

    def smooth_more(self) -> str:
        return self._smooth(1)

    def smooth_less(self) -> str:
        return self._smooth(-1)

    def _smooth(self, by: int) -> str:
        picture = self._panel.picture
        if picture is not None and not picture.offer.smoothed:
            return f"{picture.offer.name} is shown as it is, without smoothing"
        if self._view.smooth(by):
            return ""
        return "this is the strongest smoothing" if by > 0 else "the line is the raw values already"

    def x_axis(self) -> str:
        """The next axis that this record knows, and why others were passed over."""
        panel, view = self._panel, self._view
        if panel.store is None:
            return ""
        at = AXES.index(view.x_axis)
        passed = []
        for axis in (*AXES[at + 1 :], *AXES[: at + 1]):
            reason = unknown(panel.store.record, axis)
            if not reason:
                view.x_axis = axis
                break
            passed.append(f"{AXIS_WORDS[axis].unit} is left out, {reason}")
        return "; ".join([f"x: {AXIS_WORDS[view.x_axis].name}", *passed])

    def policy_view(self) -> str:
        self._panel.next_policy()
        return ""

    # -- window -------------------------------------------------------------------------------------------------

    def zoom_in(self) -> str:
        return self._zoom(ZOOM)

    def zoom_out(self) -> str:
        return self._zoom(1 / ZOOM)

    def pan_left(self) -> str:
        return self._pan(-PAN)

    def pan_right(self) -> str:
        return self._pan(PAN)

    def reset_view(self) -> str:
        self._view.window = self._view.policies_back = None
        return ""

    def _zoom(self, factor: float) -> str:
        frame = self._panel.frame
        if frame is not None:
            self._view.window = zoomed(self._view.window, frame, factor, self._cursor_x())
        return ""

    def _pan(self, share: float) -> str:
        frame = self._panel.frame
        if frame is None:
            return ""
        if self._view.window is None:
            return "everything is in view; + zooms in"
        self._view.window = panned(self._view.window, frame, share)
        return ""

    # -- cursor -------------------------------------------------------------------------------------------------

    def cursor_left(self) -> str:
        return self._move(-1)

    def cursor_right(self) -> str:
        return self._move(1)

    def first(self) -> str:
        return self._to_end(0)

    def last(self) -> str:
        return self._to_end(-1)

    def highest(self) -> str:
        """The cursor to the highest point in view."""
        drawn = self._drawn()
        if drawn is None:
            return ""
        picture, frame = drawn
        point = picture.main.raw.peak(frame.lo, frame.hi)
        if point is None:
            return "there is no point in view"
        xs = picture.axis.xs
        if picture.main.raw.xs is xs:
            index = picture.main.raw.values.greatest(bisect_left(xs, frame.lo), bisect_right(xs, frame.hi))
        else:
            index = bisect_right(xs, point[0]) - 1
        self._put(picture, frame, max(index or 0, 0))
        return ""

    def _move(self, direction: int) -> str:
        """By a column of cells; the first press begins at the edge that it comes from."""
        drawn = self._drawn()
        if drawn is None:
            return ""
        picture, frame = drawn
        xs = picture.axis.xs
        index = self._index()
        if index is None:
            begin = bisect_right(xs, frame.hi) - 1 if direction < 0 else bisect_left(xs, frame.lo)
            self._put(picture, frame, max(0, min(begin, len(xs) - 1)))
        else:
            self._put(picture, frame, neighbour(xs, index, xs[index] + direction * frame.cell, direction))
        return ""

    def _to_end(self, index: int) -> str:
        """First or last point: the window goes there, and the cursor if there is one."""
        drawn = self._drawn()
        if drawn is None:
            return ""
        picture, frame = drawn
        if self._view.cursor is not None:
            self._view.cursor = int(picture.axis.record.steps[index])
        self._view.window = panned(self._view.window, frame, -math.inf if index == 0 else math.inf)
        return ""

    def _put(self, picture: Picture, frame: Frame, index: int) -> None:
        self._view.cursor = int(picture.axis.record.steps[index])
        self._view.window = showing(self._view.window, frame, picture.axis.xs[index])

    def _drawn(self) -> tuple[Picture, Frame] | None:
        """What was drawn last, if there is a point in it."""
        picture, frame = self._panel.picture, self._panel.frame
        return (picture, frame) if picture is not None and frame is not None and picture.axis.xs else None

    def _index(self) -> int | None:
        picture, cursor = self._panel.picture, self._view.cursor
        return None if picture is None or cursor is None else picture.axis.record.index_of(cursor)

    def _cursor_x(self) -> float | None:
        index, picture = self._index(), self._panel.picture
        return None if index is None or picture is None else picture.axis.xs[index]
