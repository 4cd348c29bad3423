"""What tells two curves apart without colour: dashes, and a name at the end."""

from __future__ import annotations

import math

import pytest

from andrea_tui.feed.pyramid import Series
from andrea_tui.plotting.chart import Chart, ChartSpec, Curve, render_chart
from andrea_tui.plotting.raster import Kind, Layer

KINDS: list[Kind] = ["braille", "block", "ascii"]


def columns(chart: Chart, style: str) -> set[int]:
    found = set()
    for row in chart.rows[: chart.layout.height]:
        col = 0
        for text, meaning in row:
            if meaning == style:
                found |= {col + i for i, char in enumerate(text) if char not in " \u2800"}
            col += len(text)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_dashed_curve_has_every_other_cell_and_its_dashes_move_with_the_data(kind: Kind) -> None:
    series = Series(range(1000), [5.0] * 1000)
    solid = render_chart(ChartSpec(0, 100, [Curve(series, "other")], y_lo=0, y_hi=10), 107, 12, kind)
    assert columns(solid, "other") == set(range(7, 107))
    for x_lo in range(4):
        spec = ChartSpec(x_lo, x_lo + 100, [Curve(series, "other", dashed=True)], y_lo=0, y_hi=10)
        dashed = render_chart(spec, 107, 12, kind)
        assert {col - 7 + x_lo for col in columns(dashed, "other")} == {
            x for x in range(x_lo, x_lo + 100) if x % 2 == 0
        }


def test_a_single_point_is_not_dashed_away() -> None:
    for x in (10, 11):
        spec = ChartSpec(0, 100, [Curve(Series([x], [5.0]), "other", dashed=True)], y_lo=0, y_hi=10)
        assert columns(render_chart(spec, 107, 12), "other") == {7 + x}


def test_dashes_of_an_empty_and_of_a_narrow_layer() -> None:
    for width in (0, 1, 3):
        layer = Layer(width, 2, "braille", "line")
        layer.dash(1)
        assert not any(layer.cells)
        layer.span(0, 0, 7)
        layer.dash(0)
        assert any(layer.cells) == (width > 0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_name_stands_at_the_end_and_covers_nothing(kind: Kind) -> None:
    series = Series(range(60), [5.0] * 60)
    bare = render_chart(ChartSpec(0, 100, [Curve(series, "other")], y_lo=0, y_hi=10), 107, 12, kind)
    named = render_chart(ChartSpec(0, 100, [Curve(series, "other", label="before")], y_lo=0, y_hi=10), 107, 12, kind)
    text = ["".join(part for part, _ in row) for row in named.rows]
    row = next(number for number, line in enumerate(text) if " before " in line)
    assert abs(row - 5) <= 2
    assert abs(text[row].index("before") - (7 + 60)) <= 2
    drawn = ["".join(part for part, _ in row) for row in bare.rows]
    for before, after in zip(drawn, text, strict=True):
        assert all(a == b for a, b in zip(before, after, strict=True) if a != " ")


@pytest.mark.parametrize("size", [(0, 0), (3, 1), (12, 3), (20, 5), (80, 24)])
def test_a_name_that_has_no_room_is_left_out(size: tuple[int, int]) -> None:
    for ys in ([5.0] * 9, [math.nan] * 9, []):
        curve = Curve(Series(range(len(ys)), ys), "other", dashed=True, label="a name that is longer than most charts")
        chart = render_chart(ChartSpec(0, 9, [curve]), *size)
        assert [sum(len(text) for text, _ in row) for row in chart.rows] == [size[0]] * size[1]
