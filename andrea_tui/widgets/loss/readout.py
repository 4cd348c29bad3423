"""What the chart says in words: the present value, or the one at the cursor."""

from __future__ import annotations

import math
from bisect import bisect_left

from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.record import Record
from andrea_tui.plotting.format import compact_number, fixed, human_count, scientific
from andrea_tui.widgets.loss.axis_words import AXIS_WORDS
from andrea_tui.widgets.loss.curves import Picture
from andrea_tui.widgets.loss.frame import Frame
from andrea_tui.widgets.rows import Row


def number(value: float | None, decimals: int | None = None) -> str:
    """So many decimals; without such a wish three where they mean something, else the short form."""
    if value is None or not math.isfinite(value):
        return "not finite" if value is not None else "–"
    if decimals is not None:
        return fixed(value, decimals)
    if 0.1 <= abs(value) < 1000:
        return fixed(value, 3)
    return scientific(value, 2) if 0 < abs(value) < 0.1 else compact_number(value)


def at_cursor(picture: Picture, frame: Frame, record: Record, index: int) -> Row:
    """Step, value, line, what the column spans, other run, arm: the most wanted first, for a row that may be cut."""
    x = picture.axis.xs[index]
    main, decimals = picture.main, picture.offer.decimals
    row: Row = [(f"step {human_count(int(record.steps[index]))}  ", "cursor-text")]
    found = _at(main.raw, picture, index)
    row.append((number(found, decimals), "nan" if found is not None and not math.isfinite(found) else "accent-bold"))
    if main.line is not None:
        row += [("  line ", "dim"), (number(_at(main.line, picture, index), decimals), "line")]
    spans = _spans(main.raw, *frame.column(x))
    if spans is not None:
        lo, hi, count = spans
        row.append((f"  {human_count(count)} steps here {number(lo, decimals)} to {number(hi, decimals)}", "dim"))
    if picture.axis.axis != "step":
        row.append((f"  at {AXIS_WORDS[picture.axis.axis].exact(x)}", ""))
    if picture.validation is not None and (value := _before(picture.validation, x)) is not None:
        row += [("  validation ", "dim"), (number(value), "validation")]
    if picture.other is not None:
        row += [(f"  {picture.other_name} ", "dim"), (number(_before(picture.other.shown, x), decimals), "other")]
    source = record.source(index)
    if source:
        row.append((f"  from {source}", "dim"))
    return row


def _at(series: Series, picture: Picture, index: int) -> float | None:
    """The value of an entry where the series has one for each, else the last one before it."""
    if series.xs is picture.axis.xs:
        return series.values.values[index] if index < len(series) else None
    return _before(series, picture.axis.xs[index])


def _before(series: Series, x: float) -> float | None:
    """The last value at or before x; None where the series begins later."""
    index = series.index_before(x)
    return None if index is None else series.values.values[index]


def _spans(series: Series, left: float, right: float) -> tuple[float, float, int] | None:
    """Least and greatest value and number of points with left <= x < right, if there are several."""
    i, j = (bisect_left(series.xs, edge, 0, len(series)) for edge in (left, right))
    lo, hi = series.values.range(i, j)
    return (lo, hi, j - i) if j - i > 1 and lo <= hi else None
