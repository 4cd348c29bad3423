"""Is it learning? The whole loss record: raw band, EMA line, marks, and the scores of the samples below it."""

from __future__ import annotations

import math

from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.store import RunMark, Store
from andrea_tui.plotting.chart import ChartSpec, Curve, Mark, plot_columns, render_chart
from andrea_tui.plotting.format import compact_number, fixed, human_count, percent
from andrea_tui.plotting.scales import YRange, robust_range
from andrea_tui.widgets.panel import Panel
from andrea_tui.widgets.rows import Row

_MARKS = {"save": ("c", 0), "start": ("▶", 0), "halt": ("■", 2), "pivot": ("◆", 2)}
_SCORE_ROWS = 3
_MARKS_SHOWN = 200


class LossPanel(Panel):
    """Loss over steps. `toggle_log` switches the y axis."""

    NUMBER = "1"

    def __init__(self) -> None:
        super().__init__(id="loss")
        self.log_scale = False
        self.policies_back: int | None = None  # None shows the whole record, 0 the present policy, 1 the one before
        self._range = YRange()

    def toggle_log(self) -> None:
        self.log_scale = not self.log_scale
        self._range = YRange(log=self.log_scale)

    def title(self, store: Store, room: int) -> Row:
        ema = store.last.ema if store.last else None
        row: Row = [("loss  ", "title")]
        if not store.complete:
            return [*row, (f"reading the record, {percent(store.read_share)}", "warn")]
        if self.policies_back is not None:
            first, last = self._span(store)
            row.append((f"steps {human_count(first)} to {human_count(last)} (one policy)  ", "warn"))
        row += [("EMA ", "dim"), (fixed(ema, 3), "accent-bold")]
        trend = store.ema_trend()
        if trend is not None:
            sign = "▼" if trend < 0 else "▲"
            row.append((f"  {sign} {abs(trend):.3f} per 1k", "dim"))
        validation = store.validation.value_at(store.validation.x_max or 0.0)
        if validation is not None:
            row += [("  validation ", "dim"), (fixed(validation[1], 3), "")]
        if store.nonfinite:
            row.append((f"  × {human_count(store.nonfinite)} not finite", "nan"))
        return row

    def content(self, store: Store, width: int, height: int) -> list[Row]:
        score_rows = _SCORE_ROWS if height >= 14 and len(store.score) else 0
        rows = self._loss_rows(store, width, height - score_rows)
        if score_rows:
            rows += self._score_rows(store, width, score_rows)
        return rows

    def _bounds(self, store: Store, width: int, height: int) -> tuple[float, float]:
        """Range of x whose columns stand still while points arrive, and that the record fills to at least 80 %."""
        columns = max(1, plot_columns(width, height, self.kind))
        first, last = self._span(store)
        column = steady_width(max(last - first, 50.0) / columns)
        start = math.floor(first / column) * column
        if start + columns * column < last:
            column = steady_width(column * 1.01)
            start = math.floor(first / column) * column
        return start, start + columns * column

    def _span(self, store: Store) -> tuple[float, float]:
        """First and last step to show: the whole record, or one policy."""
        first, last = store.loss.x_min or 0.0, store.loss.x_max or 0.0
        if self.policies_back is None:
            return first, last
        pivots = sorted({mark.step for mark in store.marks if mark.kind == "pivot"})
        edges = [first - 1, *(step for step in pivots if step < last), last]
        index = max(0, len(edges) - 2 - self.policies_back)
        return edges[index] + 1, edges[index + 1]

    def next_policy(self) -> None:
        """Whole record, then the newest policy alone, then the one before it, and round again."""
        pivots = {mark.step for mark in self.store.marks if mark.kind == "pivot"} if self.store else set()
        back = 0 if self.policies_back is None else self.policies_back + 1
        self.policies_back = back if back <= len(pivots) else None
        self._range = YRange(log=self.log_scale)

    def _loss_rows(self, store: Store, width: int, height: int) -> list[Row]:
        x_lo, x_hi = self._bounds(store, width, height)
        y_lo, y_hi = self._y_bounds(store, x_lo, x_hi)
        spec = ChartSpec(
            x_lo,
            x_hi,
            curves=[
                *(Curve(series, "abandoned", band=True, report=False) for series in store.abandoned),
                Curve(store.loss, "band", band=True),
                Curve(store.validation, "validation", report=False),
                Curve(store.ema, "line", report=False),
            ],
            y_lo=y_lo,
            y_hi=y_hi,
            log=self.log_scale,
            marks=[_mark(mark) for mark in store.marks[-_MARKS_SHOWN:]],
            message=self._message(store),
            halo=True,
        )
        return [list(row) for row in render_chart(spec, width, height, self.kind).rows]

    def _y_bounds(self, store: Store, x_lo: float, x_hi: float) -> tuple[float | None, float | None]:
        """Bounds that stand still: they grow at once and shrink late."""
        ranges = []
        for series in (store.loss, store.ema):
            if len(series):
                found = robust_range(series.columns(x_lo, x_hi, 100, positive=self.log_scale))
                ranges += [found] if found else []
        if not ranges:
            return None, None
        return self._range.update(min(r[0] for r in ranges), max(r[1] for r in ranges))

    def _message(self, store: Store) -> str:
        if store.condition.word == "missing":
            return "there is no run here"
        if store.condition.alive:
            return "the first point comes with the first step"
        return "no steps yet"

    def _score_rows(self, store: Store, width: int, height: int) -> list[Row]:
        x_lo, x_hi = self._bounds(store, width, 8)
        threshold = store.config.gate.threshold if store.config else 30.0
        limit = Series([x_lo, x_hi], [threshold, threshold])
        spec = ChartSpec(
            x_lo,
            x_hi,
            curves=[Curve(limit, "grid", report=False), Curve(store.score, "line", report=False)],
            y_lo=0.0,
            y_hi=100.0,
        )
        rows = [list(row) for row in render_chart(spec, width, height, self.kind).rows]
        last = store.score.value_at(store.score.x_max or 0.0)
        times = store.config.gate.consecutive if store.config else 5
        now = compact_number(last[1] if last else None)
        text = f"sample score {now}, the gate halts at {times} in a row below {threshold:g}"
        rows[-1] = [("       " + text, "label")]
        return rows


def steady_width(least: float) -> float:
    """The smallest of 1, 1.25, 1.5, 1.75 times a power of two that is not below `least`.

    Column widths from this list change rarely, so finished columns do not shimmer, and waste at most a fifth.
    """
    power = 2.0 ** math.floor(math.log2(least))
    return next(power * quarter / 4 for quarter in (4, 5, 6, 7, 8) if power * quarter / 4 >= least)


def _mark(mark: RunMark) -> Mark:
    label, priority = _MARKS.get(mark.kind, ("•", 0))
    style = {"halt": "bad", "pivot": "accent-bold"}.get(mark.kind, "mark")
    return Mark(mark.step, label, style, priority)
