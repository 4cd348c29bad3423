"""A chart that is not drawn again is the chart that would have been drawn."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_tui.feed.memo import ColumnMemo, Remembered
from andrea_tui.feed.pyramid import Series
from andrea_tui.plotting.chart import ChartSpec, Curve, Mark, render_chart
from andrea_tui.plotting.raster import Kind
from andrea_tui.widgets.loss.still import StillChart

values = st.one_of(
    st.floats(0.5, 9.0), st.floats(2.0, 2.2), st.sampled_from([math.nan, math.inf, 0.0, -1.0, 50.0, 9.1, 2.0])
)
steps = st.lists(st.lists(values, max_size=30), min_size=1, max_size=15)


class Growing:
    """A raw band and a line above it, as the loss panel has them."""

    def __init__(self) -> None:
        self.raw, self.line = Series(), Series()
        self._memos = ColumnMemo(), ColumnMemo()

    def add(self, new: list[float]) -> None:
        start = len(self.raw) + 1
        self.raw.extend(range(start, start + len(new)), new)
        self.line.extend(range(start, start + len(new)), [2.0 if math.isnan(v) else min(v, 5.0) for v in new])

    def spec(self, *, log: bool, x_hi: float, marks: tuple[Mark, ...] = ()) -> ChartSpec:
        raw, line = (Remembered(s, m, "steps") for s, m in zip((self.raw, self.line), self._memos, strict=True))
        curves = [Curve(raw, "band", band=True), Curve(line, "line", report=False, label="me")]
        lo, hi = (0.1, 10.0) if log else (0.0, 10.0)
        return ChartSpec(0.0, x_hi, curves, lo, hi, log=log, marks=marks, halo=True)


@settings(max_examples=150)
@given(steps, st.booleans(), st.sampled_from([40.0, 1000.0]), st.sampled_from(["braille", "ascii"]))
def test_it_is_always_the_chart_of_now(pieces: list[list[float]], log: bool, x_hi: float, kind: Kind) -> None:
    growing, still = Growing(), StillChart()
    for piece in pieces:
        growing.add(piece)
        spec = growing.spec(log=log, x_hi=x_hi)
        assert still.rows(spec, 50, 12, kind) == render_chart(spec, 50, 12, kind).rows


def test_steps_that_change_no_dot_are_not_drawn_and_one_that_does_is() -> None:
    growing, still = Growing(), StillChart()
    growing.add([*[2.0, 2.5] * 49_899, 2.5, 2.4])  # a column holds 1,250 steps

    def rows(**more: object) -> list[list[tuple[str, str]]]:
        return still.rows(growing.spec(log=False, x_hi=200_000.0, **more), 80, 20, "braille")  # type: ignore[arg-type]

    first = rows()
    for _ in range(20):
        growing.add([2.1, 2.4])
        assert rows() == first
    assert still.drawings == 1
    growing.add([9.5])
    assert rows() != first, "a spike is on the screen at once"
    assert still.drawings == 2
    rows(marks=(Mark(10.0, "c"),))
    assert still.drawings == 3


def test_what_the_caller_does_to_the_rows_stays_with_the_caller() -> None:
    growing, still = Growing(), StillChart()
    growing.add([2.0, 3.0])
    spec = growing.spec(log=False, x_hi=10.0)
    still.rows(spec, 40, 10, "braille")[0].clear()
    assert still.rows(spec, 40, 10, "braille") == render_chart(spec, 40, 10, "braille").rows
