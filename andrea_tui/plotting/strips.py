"""One-row pictures: a sparkline and a bar."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .raster import Kind

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.-:=+*#"


def sparkline(
    values: Sequence[float | None],
    width: int,
    kind: Kind = "braille",
    *,
    lo: float | None = None,
    hi: float | None = None,
) -> str:
    """The values, oldest left, in exactly `width` cells; fewer values stand at the right edge.

    More values than cells: a cell shows the greatest of its values. A cell without a finite value shows a cross if
    it holds NaN or an infinity, and is blank if it holds nothing but None. The range is `lo`..`hi`, by default that
    of the values; where all are equal, half height.
    """
    if width <= 0:
        return ""
    n = len(values)
    cells = min(width, n)
    levels = _ASCII if kind == "ascii" else _BLOCKS
    groups = [values[i * n // cells : (i + 1) * n // cells] for i in range(cells)]
    tops = [max((v for v in group if v is not None and math.isfinite(v)), default=None) for group in groups]
    known = [top for top in tops if top is not None]
    low = min(known, default=0.0) if lo is None else lo
    high = max(known, default=0.0) if hi is None else hi
    text = []
    for group, top in zip(groups, tops, strict=True):
        if top is None:
            text.append(("x" if kind == "ascii" else "×") if any(v is not None for v in group) else " ")
        elif not high / 2 > low / 2:
            text.append(levels[3])
        else:
            fraction = (top / 2 - low / 2) / (high / 2 - low / 2)
            text.append(levels[round(max(0.0, min(1.0, fraction)) * 7)])
    return "".join(text).rjust(width)


def bar(value: float | None, maximum: float, width: int, kind: Kind = "braille", *, rest: str | None = None) -> str:
    """A bar of exactly `width` cells, filled in proportion; `rest` (one character, '·' by default) fills the remainder.

    Full only at the maximum, and never quite empty above zero. Nothing is filled for None, NaN or a maximum <= 0.
    """
    if width <= 0:
        return ""
    full, least, empty = ("#", "|", ".") if kind == "ascii" else ("▇", "▏", "·")
    empty = empty if rest is None else rest
    if value is None or math.isnan(value) or not maximum > 0.0 or value <= 0.0:
        return empty * width
    if value >= maximum:
        return full * width
    filled = min(round(value / maximum * width), width - 1)
    return (full * filled or least).ljust(width, empty)[:width]
