from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andrea_tui.feed.pyramid import Series, stable_range
from andrea_tui.plotting.chart import Chart, ChartSpec, Curve, Mark, layout, plot_columns, render_chart
from andrea_tui.plotting.format import duration
from andrea_tui.plotting.raster import Kind
from andrea_tui.plotting.ticks import time_ticks

# A busy machine must not fail a test.
STEADY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

KINDS: list[Kind] = ["braille", "block", "ascii"]
ANY = st.floats()
BOUND = st.one_of(st.none(), ANY)


def lines(chart: Chart) -> list[str]:
    return ["".join(text for text, _ in row) for row in chart.rows]


def styles(chart: Chart) -> list[list[str]]:
    return [[style for text, style in row for _ in text] for row in chart.rows]


def cells(chart: Chart, style: str) -> set[tuple[int, int]]:
    return {(r, c) for r, row in enumerate(styles(chart)) for c, found in enumerate(row) if found == style}


def spec(series: Series, x_lo: float, x_hi: float, **options: object) -> ChartSpec:
    return ChartSpec(x_lo, x_hi, [Curve(series, "band", band=True)], **options)  # type: ignore[arg-type]


@settings(STEADY, max_examples=150)
@given(
    st.integers(0, 120),
    st.integers(0, 40),
    st.sampled_from(KINDS),
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 40.0]), ANY), max_size=60),
    st.tuples(ANY, ANY),
    st.tuples(BOUND, BOUND),
    st.booleans(),
    st.lists(st.builds(Mark, ANY, st.text(max_size=2), priority=st.integers(0, 1)), max_size=6),
    BOUND,
    st.text(max_size=12),
    st.integers(-1, 9),
)
def test_any_chart_has_exactly_the_size_asked_for(
    width: int,
    height: int,
    kind: Kind,
    steps: list[tuple[float, float]],
    x: tuple[float, float],
    y: tuple[float | None, float | None],
    log: bool,
    marks: list[Mark],
    cursor: float | None,
    words: str,
    label_width: int,
) -> None:
    series = Series()
    at = 0.0
    for step, value in steps:
        at += step
        series.append(at, value)
    for x_lo, x_hi in (x, (0.0, max(at, 1.0))):
        chart = render_chart(
            ChartSpec(
                x_lo,
                x_hi,
                [Curve(series, "band", band=True, max_gap=10.0), Curve(series, join=False, report=False)],
                y_lo=y[0],
                y_hi=y[1],
                log=log,
                marks=marks,
                cursor=cursor,
                x_unit=words,
                message=words,
                label_width=label_width,
            ),
            width,
            height,
            kind,
        )
        assert [len(line) for line in lines(chart)] == [width] * height
        assert all(line.isascii() for line in lines(chart)) or kind != "ascii"
        assert all(text for row in chart.rows for text, _ in row)


def test_every_size_with_no_data_and_with_a_simple_curve() -> None:
    series = Series(range(50), [5 - i / 20 for i in range(50)])
    for kind in KINDS:
        for width in (*range(24), 40, 80, 120):
            for height in (*range(10), 24, 40):
                for curves in ([], [Curve(series)]):
                    chart = render_chart(ChartSpec(0, 50, curves, message="no data yet"), width, height, kind)
                    assert [len(line) for line in lines(chart)] == [width] * height


def test_layout_depends_on_the_size_alone() -> None:
    assert (layout(120, 30).left, layout(120, 30).width, layout(120, 30).height) == (7, 113, 28)
    assert layout(120, 5).axis_rows == 1
    assert layout(120, 2).axis_rows == 0
    assert layout(12, 9).left == 0
    assert plot_columns(120, 30) == 226
    assert plot_columns(120, 30, "block") == 113
    assert plot_columns(0, 0) == 0


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            "ascii",
            [
                "   10 +    .'.    ",
                "      |   .' '.   ",
                "    5 +  .'   '.  ",
                "      | .'     '. ",
                "    0 +.'       '.",
                "      ++---------+",
                "       0      step",
            ],
        ),
        (
            "braille",
            [
                "   10 ┤    ⢀⠎⢆    ",
                "      │   ⢀⠎ ⠈⢆   ",
                "    5 ┤  ⢠⠃   ⠈⢆  ",
                "      │ ⡰⠁     ⠈⢆ ",
                "    0 ┤⡰⠁       ⠈⢆",
                "      └┬─────────┬",
                "       0      step",
            ],
        ),
    ],
)
def test_a_small_chart_cell_by_cell(kind: Kind, expected: list[str]) -> None:
    series = Series([0, 10, 20], [0, 10, 0])
    assert lines(render_chart(spec(series, 0, 20, y_lo=0, y_hi=10), 18, 7, kind)) == expected


def test_axes_carry_their_ticks() -> None:
    rows = lines(render_chart(ChartSpec(0, 100_000, y_lo=3, y_hi=9), 60, 12))
    assert [row[:7] for row in rows if "┤" in row] == ["  8.0 ┤", "  6.0 ┤", "  4.0 ┤"]
    assert [i - 7 for i, char in enumerate(rows[-2]) if char == "┬"] == [0, 13, 26, 39, 52]
    assert rows[-1] == "       0           25k          50k          75k        step"
    compact = lines(render_chart(ChartSpec(0, 112_619, y_lo=3, y_hi=9), 60, 5))
    assert len(compact) == 5
    assert compact[-1].startswith("      └┬")
    assert compact[-1].endswith("─ 112k step")


def test_time_axis_uses_the_callers_ticks_and_text() -> None:
    series = Series([0, 3600, 7200], [1, 900, 1])
    chart = render_chart(spec(series, 0, 7200, y_lo=0, y_hi=10, x_unit="", x_ticks=time_ticks, x_text=duration), 60, 12)
    assert lines(chart)[-1].split() == ["0", "30", "min", "60", "min", "90", "min"]
    assert "900 at 1 h 00 min" in lines(chart)[0]


def test_a_line_that_leaves_the_plot_keeps_its_slope() -> None:
    series = Series([0, 100], [0, 1000])  # crosses y = 10 at x = 1
    chart = render_chart(ChartSpec(0, 100, [Curve(series)], y_lo=0, y_hi=10), 107, 12)
    assert {c for _, c in cells(chart, "line")} <= {7, 8}


def test_one_step_spike_in_200_000_shows_at_its_column_and_in_the_label() -> None:
    ys = [3.0 + (i % 10) / 10 for i in range(200_000)]
    ys[123_456] = 50.0
    series = Series(range(200_000), ys)
    for kind in KINDS:
        chart = render_chart(spec(series, 0, 200_000), 120, 30, kind)
        assert chart.clipped
        assert chart.y_hi < 10.0  # the spike does not squash the curve
        assert "50.0 at 123,456" in lines(chart)[0]
        col = chart.layout.left + int(123_456 / 200_000 * chart.layout.width)
        assert {row for row, c in cells(chart, "band") if c == col} >= set(range(chart.layout.height // 2))
        everything = render_chart(spec(series, 0, 200_000, y_lo=0, y_hi=60), 120, 30, kind)
        assert not everything.clipped
        assert any("50.0 at 123,456" in line for line in lines(everything))
        assert len({c for row, c in cells(everything, "band") if row < 10}) == 1
    zoomed = render_chart(spec(series, 123_456, 123_457), 80, 24)
    assert zoomed.y_lo <= 50.0 <= zoomed.y_hi


def test_a_point_beyond_the_range_without_neighbours_is_still_shown() -> None:
    series = Series([1, 2, 3], [math.nan, 50.0, math.nan])
    chart = render_chart(spec(series, 0, 4, y_lo=0, y_hi=10), 60, 12)
    assert len(cells(chart, "clip")) == 1
    low = render_chart(spec(Series([2], [-50.0]), 0, 4, y_lo=0, y_hi=10), 60, 12)
    assert any("-50.0 at 2" in line for line in lines(low))


def test_non_finite_steps_are_marked_counted_and_leave_a_gap() -> None:
    values = [3.0] * 10 + [math.nan, math.inf, -math.inf, math.nan, math.nan, math.nan] + [3.0] * 10
    series = Series(range(26), values)
    signs: dict[Kind, str] = {"braille": "×", "ascii": "x"}
    for kind, sign in signs.items():
        chart = render_chart(spec(series, 0, 26, y_lo=0, y_hi=6), 59, 9, kind)  # two cells a step
        assert chart.nonfinite == 6
        marked = sorted(c for _, c in cells(chart, "nan"))
        assert [lines(chart)[0][c] for c in marked] == [sign] * 6
        assert marked == [7 + 2 * step for step in range(10, 16)]
        drawn = {c for _, c in cells(chart, "band")}
        assert not drawn & set(range(7 + 2 * 10, 7 + 2 * 16))
        assert drawn >= {7 + 18, 7 + 32}


def test_log_scale_draws_the_positive_and_counts_the_rest() -> None:
    series = Series([10, 11, 12, 13, 14], [1.0, 0.0, -0.5, 1e-12, 3.0])
    signs: dict[Kind, str] = {"braille": "▾", "block": "▾", "ascii": "v"}
    for kind, sign in signs.items():
        chart = render_chart(ChartSpec(10, 15, [Curve(series, join=False)], log=True), 57, 14, kind)
        assert (chart.unplottable, chart.nonfinite) == (2, 0)
        assert 0.0 < chart.y_lo <= 1e-12
        assert {c for _, c in cells(chart, "line")} == {7, 7 + 30, 7 + 40}
        assert sorted(cells(chart, "nan")) == [(11, 7 + 10), (11, 7 + 20)]
        assert lines(chart)[11][17] == sign
    linear = render_chart(spec(series, 10, 15), 57, 14)
    assert linear.unplottable == 0


def test_log_scale_with_nothing_positive_is_empty_but_says_so() -> None:
    chart = render_chart(spec(Series([1, 2], [0.0, -1.0]), 0, 3, log=True, message="nothing above 0"), 60, 12)
    assert chart.unplottable == 2
    assert not cells(chart, "band")
    assert any("nothing above 0" in line for line in lines(chart))


def test_marks_stand_at_their_step_and_never_cover_the_curve() -> None:
    series = Series(range(100), [5.0] * 100)
    marks = [Mark(25, "c"), Mark(50, "◆", "pivot", 1), Mark(50.2, "c"), Mark(500, "c")]
    chart = render_chart(ChartSpec(0, 100, [Curve(series)], y_lo=0, y_hi=10, marks=marks), 107, 12)
    assert lines(chart)[0][7 + 25] == "c"
    assert lines(chart)[0][7 + 50] == "◆"  # the pivot outranks the save in the same cell
    assert cells(chart, "pivot") == {(0, 57)}
    bare = render_chart(ChartSpec(0, 100, [Curve(series)], y_lo=0, y_hi=10), 107, 12)
    assert cells(chart, "line") == cells(bare, "line")
    line_rows = {row for row, c in cells(chart, "line") if c == 32}
    assert {row for row, c in cells(chart, "grid") if c == 32} == set(range(1, 10)) - line_rows
    plain = render_chart(ChartSpec(0, 100, [Curve(series)], marks=marks), 107, 12, "ascii")
    assert lines(plain)[0][57] == "*"


def test_crowded_marks_keep_their_labels_but_only_important_lines() -> None:
    marks = [Mark(i, "c") for i in range(0, 100, 2)] + [Mark(51, "■", "halt", 2)]
    chart = render_chart(ChartSpec(0, 100, marks=marks), 107, 12)
    assert len(cells(chart, "mark")) == 50
    assert {c for _, c in cells(chart, "grid")} == {7 + 51}


def test_a_cross_outranks_a_mark_and_both_are_seen() -> None:
    series = Series(range(10), [math.nan if i == 5 else 2.0 for i in range(10)])
    chart = render_chart(spec(series, 0, 10, y_lo=0, y_hi=4, marks=[Mark(5, "c")]), 27, 9)
    assert (lines(chart)[0][17], lines(chart)[1][17]) == ("×", "c")


def test_cursor_marks_its_column_and_leads_back_to_x() -> None:
    series = Series(range(100), [5.0] * 100)
    chart = render_chart(ChartSpec(0, 100, [Curve(series)], y_lo=0, y_hi=10, cursor=40.5), 107, 12)
    assert cells(chart, "cursor") == {(row, 47) for row in range(10)}
    assert chart.x_at(47) == pytest.approx(40.5)
    assert chart.x_at(3) is None
    assert chart.x_at(107) is None


def test_an_abandoned_branch_is_drawn_below_and_not_reported() -> None:
    series = Series(range(100), [4.0] * 60 + [9.0] * 40)
    old = series.truncate_from(60)
    series.extend(range(60, 100), [4.0] * 40)
    curves = [Curve(old, "dim", report=False), Curve(series, "line")]
    chart = render_chart(ChartSpec(0, 100, curves, y_lo=0, y_hi=5), 107, 12)
    assert not chart.clipped
    shown = render_chart(ChartSpec(0, 100, curves, y_lo=0, y_hi=10), 107, 12)
    assert {c for _, c in cells(shown, "dim")} == set(range(7 + 60, 7 + 100))
    assert {c for _, c in cells(shown, "line")} == set(range(7, 7 + 100))
    same = render_chart(ChartSpec(0, 100, [Curve(series, "dim"), Curve(series, "line")]), 107, 12)
    assert not cells(same, "dim")


def test_far_points_are_joined_unless_the_gap_is_too_wide() -> None:
    series = Series([0, 10, 80, 90], [1.0, 2.0, 8.0, 9.0])

    def drawn(**options: object) -> set[int]:
        curve = Curve(series, **options)  # type: ignore[arg-type]
        return {c - 7 for _, c in cells(render_chart(ChartSpec(0, 100, [curve]), 107, 12), "line")}

    assert drawn() == set(range(91))
    assert drawn(max_gap=20.0) == set(range(11)) | set(range(80, 91))
    assert drawn(join=False) == {0, 10, 80, 90}


def test_finished_columns_do_not_shimmer_in_follow_mode() -> None:
    def value(i: int) -> float:
        return 4.0 + math.sin(i * 0.7) + (i * 7919 % 13) / 13

    series = Series(range(5000), map(value, range(5000)))
    n = plot_columns(100, 12)
    width = stable_range(0, 4000, n, follow=True).width

    def frame() -> tuple[float, list[str]]:
        r = stable_range(len(series) - 4001, len(series) - 1, n, follow=True)
        assert r.width == width
        chart = render_chart(spec(series, r.x0, r.x1, y_lo=0, y_hi=8), 100, 12)
        return r.x0, [line[7:] for line in lines(chart)[: chart.layout.height]]

    x0, before = frame()
    for i in range(5000, 5000 + round(4 * width)):  # two cells of two dot columns each
        series.append(i, value(i))
    x1, after = frame()
    assert x1 == x0 + 4 * width
    assert [row[2:-2] for row in before] == [row[:-4] for row in after]


@pytest.mark.parametrize("kind", ["braille", "ascii"])
def test_a_message_that_does_not_fit_ends_with_an_ellipsis(kind: Kind) -> None:
    for width in range(12, 60):
        rows = lines(render_chart(ChartSpec(0, 100, message="waiting for the first step"), width, 9, kind))
        shown = next(row for row in rows if "wai" in row)
        assert "waiting for the first step" in shown or shown.rstrip().endswith("." if kind == "ascii" else "…")


def test_empty_chart_shows_its_message() -> None:
    chart = render_chart(ChartSpec(0, 100, message="waiting for the first step"), 60, 9)
    assert any("waiting for the first step" in line for line in lines(chart))
    assert (chart.nonfinite, chart.unplottable, chart.clipped) == (0, 0, False)


def test_export_can_fill_empty_cells_with_blank_braille() -> None:
    chart = render_chart(ChartSpec(0, 100, blank="\u2800"), 60, 9)
    assert lines(chart)[0][7:] == "\u2800" * 53
    assert all(line.isascii() for line in lines(render_chart(ChartSpec(0, 100, blank="\u2800"), 60, 9, "ascii")))
