from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andrea_tui.plotting.grid import CellGrid
from andrea_tui.plotting.raster import Kind, Raster, dots_per_cell

# A busy machine must not fail a test.
STEADY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

KINDS: list[Kind] = ["braille", "block", "ascii"]
SPANS = st.lists(st.tuples(st.integers(-3, 24), st.integers(-3, 24), st.integers(-3, 24)), max_size=12)
# Dot (column, row) of each bit of a braille pattern, from the Unicode definition of dots 1 to 8.
BRAILLE_DOTS = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)]


def text(raster: Raster) -> list[str]:
    return ["".join(run for run, _ in row) for row in raster.rows()]


def lit(raster: Raster) -> set[tuple[int, int]]:
    """The dots shown, read back from the glyphs."""
    dots = set()
    for row, line in enumerate(text(raster)):
        for col, glyph in enumerate(line):
            if raster.kind == "braille":
                code = ord(glyph) - 0x2800 if glyph != " " else 0
                dots |= {(col * 2 + x, row * 4 + y) for bit, (x, y) in enumerate(BRAILLE_DOTS) if code >> bit & 1}
            else:
                upper, lower = ("▀█", "▄█") if raster.kind == "block" else ("\"#':", "_#.:")
                dots |= {(col, row * 2)} if glyph in upper else set()
                dots |= {(col, row * 2 + 1)} if glyph in lower else set()
    return dots


@STEADY
@given(SPANS, st.integers(0, 9), st.integers(0, 5), st.sampled_from(KINDS))
def test_spans_light_exactly_their_dots(spans: list[tuple[int, int, int]], width: int, height: int, kind: Kind) -> None:
    raster = Raster(width, height, kind)
    layer = raster.layer("line")
    expected = set()
    for column, a, b in spans:
        layer.span(column, a, b)
        expected |= {(column, row) for row in range(min(a, b), max(a, b) + 1)}
    inside = {(c, r) for c, r in expected if 0 <= c < raster.columns and 0 <= r < raster.rows_of_dots}
    assert lit(raster) == inside


@STEADY
@given(st.integers(0, 19), st.integers(-60, 60), st.integers(0, 19), st.integers(-60, 60), st.sampled_from(KINDS))
def test_a_line_is_connected_thin_and_ends_where_it_should(a: int, r0: int, b: int, r1: int, kind: Kind) -> None:
    a, b = min(a, b), max(a, b)
    columns, _ = dots_per_cell(kind)
    shift = 60  # so that nothing is cut off
    raster = Raster(20 // columns, 61, kind)
    layer = raster.layer("line")
    scale = raster.rows_of_dots / 244  # the kinds differ in dots per cell
    r0, r1 = int((r0 + shift) * scale), int((r1 + shift) * scale)
    layer.line(a, r0, b, r1)
    dots = lit(raster)
    assert {(a, r0), (b, r1)} <= dots
    assert {column for column, _ in dots} == set(range(a, b + 1))
    assert all(min(r0, r1) <= row <= max(r0, r1) for _, row in dots)
    for column in range(a, b + 1):
        rows = sorted(row for c, row in dots if c == column)
        assert rows == list(range(rows[0], rows[-1] + 1))
        exact = r0 + (r1 - r0) * (column - a) / max(b - a, 1)
        reach = abs(r1 - r0) / max(b - a, 1) / 2 + 1 if b > a else abs(r1 - r0)
        assert all(abs(row - exact) <= reach for row in rows)
        if column > a:
            previous = [row for c, row in dots if c == column - 1]
            assert min(abs(row - other) for row in rows for other in previous) <= 1


@STEADY
@given(SPANS, SPANS, SPANS, st.sampled_from(KINDS), st.booleans())
def test_a_cell_takes_the_style_of_the_topmost_layer(
    low: list[tuple[int, int, int]],
    mid: list[tuple[int, int, int]],
    top: list[tuple[int, int, int]],
    kind: Kind,
    halo: bool,
) -> None:
    raster = Raster(8, 4, kind, halo=halo)
    alone = []
    for style, spans in (("dim", low), ("band", mid), ("line", top)):
        layer, single = raster.layer(style), Raster(8, 4, kind)
        other = single.layer(style)
        for span in spans:
            layer.span(*span)
            other.span(*span)
        alone.append((style, lit(single)))
    columns, rows = dots_per_cell(kind)
    shown = lit(raster)
    styles = [[style for run, style in row for _ in run] for row in raster.rows()]
    for row in range(4):
        for col in range(8):
            cell = {(col * columns + x, row * rows + y) for x in range(columns) for y in range(rows)}
            owners = [style for style, dots in alone if dots & cell]
            assert styles[row][col] == (owners[-1] if owners else "")
            if raster.halo and owners:
                assert shown & cell == dict(alone)[owners[-1]] & cell
            else:
                assert shown & cell == set().union(*(dots for _, dots in alone)) & cell


def test_rows_are_runs_of_one_style() -> None:
    raster = Raster(4, 1)
    raster.layer("band").span(0, 0, 3)
    line = raster.layer("line")
    line.dot(1, 0)
    line.dot(4, 3)
    assert raster.rows() == [[("⡏", "line"), (" ", ""), ("⡀", "line"), (" ", "")]]
    assert raster.rows(blank="\u2800")[0][1] == ("\u2800", "")


def test_soft_ink_differs_from_a_line_without_colour() -> None:
    raster = Raster(3, 1, "ascii")
    band, line = raster.layer("band", soft=True), raster.layer("line")
    for column in range(3):
        band.span(column, 0, 1)
    line.span(1, 1, 1)
    assert text(raster) == [":_:"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(0, 0), (0, 3), (3, 0), (-2, 5)])
def test_zero_size_is_legal(size: tuple[int, int], kind: Kind) -> None:
    raster = Raster(*size, kind)
    layer = raster.layer("line")
    layer.span(0, 0, 5)
    layer.line(0, 0, 5, 5)
    assert text(raster) == [""] * max(size[1], 0)


def test_grid_keeps_its_size_and_cuts_at_its_edges() -> None:
    grid = CellGrid(5, 2)
    grid.put(0, -2, "abcd", "label")
    grid.put(0, 3, "wxyz", "axis")
    grid.put(7, 0, "no", "axis")
    grid.put(1, 9, "no", "axis")
    grid.put(1, 1, "字", "label")
    assert grid.rows() == [
        [("cd", "label"), (" ", ""), ("wx", "axis")],
        [(" ", ""), ("?", "label"), ("   ", "")],
    ]
    grid.restyle(0, 0, "cursor")
    assert grid.rows()[0][:2] == [("c", "cursor"), ("d", "label")]
    assert grid.blank(1, 2, 3)
    assert not grid.blank(1, 3, 3)
    assert not grid.blank(0, 1)
