"""Is it learning? One series over the whole record: raw band, smoothed line, marks, a cursor, the samples' scores."""

from __future__ import annotations

import math

from textual import events
from textual.message import Message

from andrea_tui.feed.marks import RunMark
from andrea_tui.feed.memo import ColumnMemo, Remembered
from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.store import Store
from andrea_tui.plotting.chart import ChartSpec, ColumnSource, Curve, Layout, Mark, layout
from andrea_tui.plotting.format import human_count, percent
from andrea_tui.plotting.raster import dots_per_cell
from andrea_tui.plotting.scales import YRange, robust_range
from andrea_tui.view import ViewState
from andrea_tui.widgets.loss.axis_words import AXIS_WORDS
from andrea_tui.widgets.loss.curves import Curves, Picture
from andrea_tui.widgets.loss.frame import Frame, make_frame, neighbour, pace_of, panned, zoomed
from andrea_tui.widgets.loss.readout import at_cursor, number
from andrea_tui.widgets.loss.still import StillChart
from andrea_tui.widgets.panel import Panel
from andrea_tui.widgets.rows import Row

_MARKS = {
    "save": ("c", 0),
    "start": ("▶", 0),
    "alarm": ("!", 1),
    "nonfinite": ("×", 1),
    "halt": ("■", 2),
    "pivot": ("◆", 2),
}
_MARK_STYLES = {"halt": "bad", "alarm": "warn", "nonfinite": "nan", "pivot": "accent-bold"}
_SCORE_ROWS = 3
_FRAME_LEFT = 2  # cells of the panel's frame before the chart
ZOOM = 0.5


class LossPanel(Panel):
    """Draws what `view` asks for. `picture` and `frame` are those of the last drawing; keys act through them."""

    NUMBER = "1"

    class Moved(Message):
        """The mouse has changed the view."""

    def __init__(self, view: ViewState | None = None) -> None:
        super().__init__(id="loss")
        self.view = view if view is not None else ViewState()
        self.curves: Curves | None = None
        self.picture: Picture | None = None
        self.frame: Frame | None = None
        self._plot = layout(0, 0)
        self._range = YRange()
        self._range_for: object = None
        self._chart, self._score_chart = StillChart(), StillChart()
        self._memos = {role: ColumnMemo() for role in ("raw", "shown", "other", "y raw", "y shown", "y other")}

    # -- what is looked at --------------------------------------------------------------------------------------

    def look(self, store: Store, plot: Layout) -> tuple[Picture, Frame]:
        """Bring picture and frame up to the store for a plot of this size."""
        if self.curves is None or self.curves.store is not store:
            self.curves = Curves(store)
        picture = self.curves.picture(self.view)
        if self.view.window is not None:
            self.view.window = self.curves.convert(self.view.window)
        axis = picture.axis
        first, last = self._span(store, picture)
        pace = pace_of(store.record.steps, axis.xs)
        dots = dots_per_cell(self.kind)[0]
        frame = make_frame(axis.axis, self.view.window, first, last, pace, plot.width, dots)
        self.picture, self.frame, self._plot = picture, frame, plot
        return picture, frame

    def _span(self, store: Store, picture: Picture) -> tuple[float, float]:
        """First and last x of everything: of the whole record, or of one policy."""
        axis = picture.axis
        first, last = (axis.xs[0], axis.xs[-1]) if axis.xs else (0.0, 0.0)
        edges = self._policy_edges(store)
        if self.view.policies_back is None or len(edges) < 2:
            return first, last
        index = max(0, len(edges) - 2 - self.view.policies_back)
        begin, end = axis.x_of(edges[index] + 1), axis.x_of(edges[index + 1])
        return max(first, begin), min(last, max(begin, end))

    @staticmethod
    def _policy_edges(store: Store) -> list[float]:
        """Steps between which one policy held: before the first, at each pivot, at the last."""
        first, last = store.loss.x_min, store.loss.x_max
        if first is None or last is None:
            return []
        pivots = sorted({mark.step for mark in store.marks if mark.kind == "pivot"})
        return [first - 1, *(float(step) for step in pivots if first <= step < last), last]

    def next_policy(self) -> None:
        """Everything, then the newest policy alone, then the one before it, and round again."""
        policies = len(self._policy_edges(self.store)) - 1 if self.store is not None else 0
        back = 0 if self.view.policies_back is None else self.view.policies_back + 1
        self.view.policies_back = back if back < policies else None
        self.view.window = None

    @property
    def unfinished(self) -> bool:
        """True while the next drawing would show more, though nothing new has come."""
        return self.picture is not None and not self.picture.finished

    # -- title and legend ---------------------------------------------------------------------------------------

    def title(self, store: Store, room: int) -> Row:
        picture, frame = self.picture, self.frame
        if picture is None or frame is None:
            return [("loss", "title")]
        row: Row = [(f"{picture.offer.name}  ", "title")]
        if not store.complete:
            return [*row, (f"reading the record, {percent(store.read_share)}", "warn")]
        index = self.view.cursor_index(store.record)
        if index is not None:
            return [*row, *at_cursor(picture, frame, store.record, index)]
        row += self._window_words(store, picture, frame)
        row += self._present(store, picture)
        if store.nonfinite:
            row.append((f"  × {human_count(store.nonfinite)} not finite", "nan"))
        return row

    def _window_words(self, store: Store, picture: Picture, frame: Frame) -> Row:
        """Which steps are in view where that is not all of them, and whether the view follows."""
        if not len(store.record) or (self.view.window is None and self.view.policies_back is None):
            return []
        step_at = picture.axis.step_at
        first = math.ceil(max(step_at(frame.lo), step_at(frame.first)) - 1e-6)
        last = min(step_at(frame.hi), step_at(frame.last))
        text = f"steps {human_count(first)} to {human_count(last)}"
        if self.view.window is not None:
            text += ", follows" if self.view.window.follows else ", stands still"
        if self.view.policies_back is not None:
            text += " (one policy)"
        return [(f"{text}  ", "warn")]

    def _present(self, store: Store, picture: Picture) -> Row:
        """The newest value, its trend, and the validation loss."""
        main = picture.main
        values = main.shown.values.values
        last = values[-1] if len(values) else None
        if picture.offer.key == "loss" and main.smoothing.endswith("recorded"):
            last = store.last.ema if store.last is not None else None
        name = "" if main.line is None else "EMA " if "recorded" in main.smoothing else f"EMA {self.view.smoothing} "
        row: Row = [(name or "last ", "dim"), (number(last, picture.offer.decimals), "accent-bold")]
        if picture.offer.unit and picture.offer.key != "loss":
            row.append((f" {picture.offer.unit}", "dim"))
        trend = store.ema_trend() if picture.offer.key == "loss" else None
        if trend is not None:
            sign = "▼" if trend < 0 else "▲"
            row.append((f"  {sign} {abs(trend):.3f} per 1k", "dim"))
        if picture.validation is not None and len(picture.validation):
            row += [("  validation ", "dim"), (number(picture.validation.values.values[-1]), "validation")]
        return row

    def footer(self, store: Store) -> Row:
        """The legend: what each curve is, and against what it is drawn."""
        picture = self.picture
        if picture is None or not len(picture.main.raw):
            return []
        main = picture.main
        row: Row = [(" line ", "faint"), (main.smoothing or picture.offer.name, "line")]
        if main.line is not None:
            row += [("  band ", "faint"), ("raw", "band-text")]
        if picture.other is not None:
            dashes = f"{picture.other_name} ({picture.other.smoothing or 'raw'})"
            row += [("  dashes ", "faint"), (dashes, "other")]
        if picture.axis.axis != "step":
            row += [("  x ", "faint"), (AXIS_WORDS[picture.axis.axis].name, "dim")]
        if self.view.log_y:
            row.append(("  log y", "dim"))
        if picture.note:
            row.append((f"  {picture.note}", "warn"))
        return [*row, (" ", "")]

    # -- drawing ------------------------------------------------------------------------------------------------

    def content(self, store: Store, width: int, height: int) -> list[Row]:
        score_rows = _SCORE_ROWS if height >= 14 and len(store.score) and self.view.series != "score" else 0
        plot = layout(width, height - score_rows)
        picture, frame = self.look(store, plot)
        rows = self._chart_rows(store, picture, frame, width, height - score_rows)
        if score_rows:
            rows += self._score_rows(store, picture, frame, width, score_rows)
        return rows

    def _chart_rows(self, store: Store, picture: Picture, frame: Frame, width: int, height: int) -> list[Row]:
        y_lo, y_hi = self._y_bounds(picture, frame)
        words = AXIS_WORDS[picture.axis.axis]
        x_of = picture.axis.x_of
        spec = ChartSpec(
            frame.lo,
            frame.hi,
            curves=self._curves(picture),
            y_lo=y_lo,
            y_hi=y_hi,
            log=self.view.log_y,
            marks=[_mark(mark, x_of(mark.step)) for mark in store.marks],
            cursor=self._cursor_x(store, picture),
            x_unit=words.unit,
            x_ticks=words.ticks,
            x_end=words.end,
            x_text=words.exact,
            message=self._message(store, picture),
            halo=True,
        )
        return self._chart.rows(spec, width, height, self.kind)

    def _curves(self, picture: Picture) -> list[Curve]:
        """From the bottom to the top: what was left, the raw band, the run beside it, what was measured, the line."""
        main, other = picture.main, picture.other
        curves = [Curve(series, "abandoned", band=True, report=False) for series in picture.abandoned]
        if main.line is not None:
            curves.append(Curve(self._remembered("raw", main.raw, picture), "band", band=True))
        if other is not None:
            source = self._remembered("other", other.shown, picture)
            curves.append(Curve(source, "other", report=False, dashed=True, label=picture.other_name))
        if picture.validation is not None:
            curves.append(Curve(picture.validation, "validation", report=False))
        curves.append(Curve(self._remembered("shown", main.shown, picture), "line", report=main.line is None))
        return curves

    def _remembered(self, role: str, series: Series, picture: Picture) -> ColumnSource:
        if picture.measured and role != "other":
            return series  # a few points, and the x of the last ones is an estimate that may change
        axis = picture.other_axis if role.endswith("other") and picture.other_axis is not None else picture.axis
        return Remembered(series, self._memos[role], (axis, axis.generation))

    def _cursor_x(self, store: Store, picture: Picture) -> float | None:
        index = self.view.cursor_index(store.record)
        return None if index is None else picture.axis.xs[index]

    def _y_bounds(self, picture: Picture, frame: Frame) -> tuple[float | None, float | None]:
        """Bounds that stand still: they grow at once and shrink late. Another view begins anew."""
        view, window = self.view, self.view.window
        width = None if window is None else window.hi - window.lo
        stands = window is not None and not window.follows
        shown_for = (picture.offer.key, picture.axis.axis, view.log_y, view.policies_back, width, stands and window)
        if shown_for != self._range_for:
            self._range_for = shown_for
            self._range = YRange(log=view.log_y)
        whole = picture.offer.key == "loss" and frame.lo <= frame.first and window is None
        traced = {"y raw": picture.main.raw, "y shown": picture.main.shown}
        if picture.other is not None:
            traced["y other"] = picture.other.shown
        ranges = []
        for role, series in traced.items():
            if len(series):
                source = self._remembered(role, series, picture)
                columns = source.columns(frame.lo, frame.hi, 100, positive=view.log_y)
                found = robust_range(columns, skip=0.01 if whole else 0.0)
                ranges += [found] if found else []
        if not ranges:
            return None, None
        return self._range.update(min(r[0] for r in ranges), max(r[1] for r in ranges))

    def _message(self, store: Store, picture: Picture) -> str:
        if store.condition.word == "missing":
            return "there is no run here"
        if len(picture.main.raw):
            return "nothing to draw in this part"
        if store.condition.alive:
            return "the first point comes with the first step"
        return "no steps yet"

    def _score_rows(self, store: Store, picture: Picture, frame: Frame, width: int, height: int) -> list[Row]:
        threshold = store.config.gate.threshold if store.config else 30.0
        limit = Series([frame.lo, frame.hi], [threshold, threshold])
        score = picture.score
        cursor = self._cursor_x(store, picture)
        curves = [Curve(limit, "grid", report=False), Curve(score, "line", report=False)]
        spec = ChartSpec(frame.lo, frame.hi, curves=curves, y_lo=0.0, y_hi=100.0, cursor=cursor)
        rows: list[Row] = self._score_chart.rows(spec, width, height, self.kind)
        index = score.index_before(score.x_max or 0.0) if cursor is None else score.index_before(cursor)
        value = None if index is None else score.values.values[index]
        times = store.config.gate.consecutive if store.config else 5
        text = f"sample score {number(value, 1)}"
        if cursor is None:
            text += f", the gate halts at {times} in a row below {threshold:g}"
        elif index is not None:
            text += f" at the cursor, from step {human_count(store.score.xs[index])}"
        rows[-1] = [("       " + text, "label")]
        return rows

    # -- mouse --------------------------------------------------------------------------------------------------

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, ZOOM, -1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1 / ZOOM, 1)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        self._wheel(event, 1.0, -1)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        self._wheel(event, 1.0, 1)

    def _wheel(self, event: events.MouseEvent, factor: float, direction: int) -> None:
        """Zoom about the pointer; with shift or ctrl, or sideways, pan."""
        x = self.x_under(event.x)
        if self.frame is None or x is None:
            return
        event.stop()
        view = self.view
        if event.shift or event.ctrl or factor == 1.0:
            view.window = panned(view.window, self.frame, direction / 8)
        else:
            view.window = zoomed(view.window, self.frame, factor, x)
        self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        """A click sets the cursor."""
        x = self.x_under(event.x)
        if x is None or self.picture is None or not self.picture.axis.xs:
            return
        axis = self.picture.axis
        index = neighbour(axis.xs, -1, x, 1)
        self.view.cursor = int(axis.record.steps[index])
        self.post_message(self.Moved())

    def x_under(self, column: int) -> float | None:
        """x in the middle of a cell column of this widget; None beside the plot."""
        inside = column - _FRAME_LEFT - self._plot.left
        if self.frame is None or not 0 <= inside < self._plot.width:
            return None
        return self.frame.lo + (inside + 0.5) * self.frame.cell


def _mark(mark: RunMark, x: float) -> Mark:
    label, priority = _MARKS.get(mark.kind, ("•", 0))
    return Mark(x, label, _MARK_STYLES.get(mark.kind, "mark"), priority)
