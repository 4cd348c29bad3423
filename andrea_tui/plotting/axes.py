"""The axes of a chart, written into its grid."""

from __future__ import annotations

from .grid import CellGrid
from .scales import Scale
from .spec import ChartSpec, Layout
from .ticks import log_ticks, nice_ticks


def draw_y_axis(grid: CellGrid, place: Layout, y: Scale, dot_rows: int) -> None:
    """Line, ticks and labels left of the plot, whose cells have `dot_rows` rows of dots each."""
    left, height = place.left, place.height
    if not left:
        return
    for row in range(height):
        grid.put(row, left - 1, "│", "axis")
    row_of = y.row_of(height * dot_rows)
    for tick in (log_ticks if y.log else nice_ticks)(y.lo, y.hi, max(2, height // 3)):
        dot = row_of(tick.value)
        if dot is None or not 0 <= dot < height * dot_rows:
            continue
        grid.put(dot // dot_rows, left - 1, "┤", "axis")
        if len(tick.label) <= left - 2:
            grid.put(dot // dot_rows, 0, tick.label.rjust(left - 2), "label")


def draw_x_axis(grid: CellGrid, place: Layout, x: Scale, spec: ChartSpec) -> None:
    """Line, ticks, labels and unit below the plot, in the one or two rows the layout leaves."""
    if not place.axis_rows:
        return
    axis, labels, end = place.height, place.height + 1, grid.width
    grid.put(axis, place.left, "─" * place.width, "axis")
    if place.left:
        grid.put(axis, place.left - 1, "└", "axis")
    ticks = spec.x_ticks(x.lo, x.hi, max(place.width // 12, 1))
    ticked = [(tick, col) for tick in ticks if (col := place.column(x, tick.value)) is not None]
    for _, col in ticked:
        grid.put(axis, col, "┬", "axis")
    if place.axis_rows == 1:
        text = f" {spec.x_end(x.hi)} {spec.x_unit}".rstrip()
        if len(text) <= place.width // 2:
            grid.put(axis, end - len(text), text, "label")
        return
    if 0 < len(spec.x_unit) <= place.width // 2:
        grid.put(labels, end - len(spec.x_unit), spec.x_unit, "label")
        end -= len(spec.x_unit) + 1
    free = 0
    for tick, col in ticked:
        start = max(col - len(tick.label) // 2, 0)
        if start >= free and start + len(tick.label) <= end:
            grid.put(labels, start, tick.label, "label")
            free = start + len(tick.label) + 1
