"""The pyramid against a naive reference, and the promises a live plot rests on."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import accumulate

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andrea_tui.feed.pyramid import Series, stable_range

# A busy machine must not fail a test.
STEADY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

VALUES = st.one_of(
    st.floats(-100, 100),
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -1.0, 1e308, -1e308, 5e-324]),
)
Row = tuple[float, float, float | None, float | None, int, int, int]
GAPS = st.sampled_from([0.0, 0.0, 1.0, 1.0, 1.0, 0.25, 7.0, 500.0])


@st.composite
def points(draw: st.DrawFn, max_size: int = 700) -> tuple[list[float], list[float]]:
    """Irregular x with gaps and duplicates; a short random pattern repeated, so that long series are common."""
    pattern = draw(st.lists(st.tuples(GAPS, VALUES), min_size=1, max_size=40))
    size = draw(st.integers(0, max_size))
    steps = [pattern[i % len(pattern)] for i in range(size)]
    xs = list(accumulate((gap for gap, _ in steps), initial=draw(st.floats(-1000, 1000))))[1:]
    ys = [value + i * 1e-3 for i, (_, value) in enumerate(steps)]
    return xs, ys


def naive_columns(xs: list[float], ys: list[float], x0: float, x1: float, n: int, positive: bool) -> list[Row]:
    edges = [x0 + k * ((x1 - x0) / n) for k in range(n)]
    cells: list[list[float]] = [[] for _ in range(n)]
    for x, y in zip(xs, ys, strict=True):
        if x0 <= x <= x1:
            cells[bisect_right(edges, x) - 1].append(y)
    rows = []
    for cell in cells:
        finite = [y for y in cell if math.isfinite(y)]
        drawn = [y for y in finite if y > 0 or not positive]
        rows.append(
            (
                min(drawn, default=math.inf),
                max(drawn, default=-math.inf),
                finite[0] if finite else None,
                finite[-1] if finite else None,
                len(cell),
                len(cell) - len(finite),
                sum(y <= 0 for y in finite),
            )
        )
    return rows


def as_rows(series: Series, x0: float, x1: float, n: int, positive: bool = False) -> list[Row]:
    c = series.columns(x0, x1, n, positive=positive)
    assert len(c) == n
    return [
        (lo, hi, None if math.isnan(first) else first, None if math.isnan(last) else last, count, bad, low)
        for lo, hi, first, last, count, bad, low in zip(
            c.lo, c.hi, c.first, c.last, c.count, c.nonfinite, c.nonpositive, strict=True
        )
    ]


@settings(STEADY, max_examples=120)
@given(points(), st.integers(1, 50), st.booleans(), st.data())
def test_columns_equal_a_naive_count(
    data: tuple[list[float], list[float]], n: int, positive: bool, draw: st.DataObject
) -> None:
    xs, ys = data
    a, b = sorted((draw.draw(st.floats(-1100, 5000)), draw.draw(st.floats(-1100, 5000))))
    whole: bool = draw.draw(st.booleans())
    if xs and whole:
        a, b = xs[0], xs[-1]
    assert as_rows(Series(xs, ys), a, b, n, positive) == naive_columns(xs, ys, a, b, n, positive)


@settings(STEADY, max_examples=80)
@given(points(), st.data())
def test_ranges_peaks_and_counts_equal_a_naive_search(
    data: tuple[list[float], list[float]], draw: st.DataObject
) -> None:
    xs, ys = data
    series = Series(xs, ys)
    ends = st.sampled_from(xs) if xs else st.just(0.0)
    x0, x1 = sorted((draw.draw(ends), draw.draw(ends)))
    inside = [(x, y) for x, y in zip(xs, ys, strict=True) if x0 <= x <= x1]
    finite = [(x, y) for x, y in inside if math.isfinite(y)]
    values = [y for _, y in finite]
    positive = [y for y in values if y > 0]
    assert series.range_minmax(x0, x1) == ((min(values), max(values)) if values else None)
    assert series.range_minmax(x0, x1, positive=True) == ((min(positive), max(positive)) if positive else None)
    assert series.peak(x0, x1) == (max(finite, key=lambda p: p[1]) if finite else None)
    assert series.trough(x0, x1) == (min(finite, key=lambda p: p[1]) if finite else None)
    assert sum(series.columns(x0, x1, 13).nonfinite) == len(inside) - len(finite)
    assert series.nonfinite_total == sum(not math.isfinite(y) for y in ys)


@settings(STEADY, max_examples=60)
@given(points(), points(), st.data())
def test_truncate_then_append_equals_a_fresh_build(
    data: tuple[list[float], list[float]], more: tuple[list[float], list[float]], draw: st.DataObject
) -> None:
    xs, ys = data
    cut = draw.draw(st.sampled_from(xs)) if xs else 0.0
    keep = bisect_left(xs, cut)
    xs2 = [cut + x - more[0][0] for x in more[0]]
    series = Series(xs, ys)
    before = series.version
    dropped = series.truncate_from(cut)
    assert len(dropped) == len(xs) - keep
    assert (series.version != before) == bool(dropped)
    for x, y in zip(xs2, more[1], strict=True):
        series.append(x, y)
    fresh = Series(xs[:keep] + xs2, ys[:keep] + more[1])
    assert len(series) == len(fresh)
    x0, x1 = fresh.x_min or 0.0, fresh.x_max or 1.0
    for n in (1, 7, 80):
        assert as_rows(series, x0, x1, n) == as_rows(fresh, x0, x1, n)
        assert as_rows(series, x0, x1, n, positive=True) == as_rows(fresh, x0, x1, n, positive=True)
    assert series.nonfinite_total == fresh.nonfinite_total
    if dropped:
        assert as_rows(dropped, xs[keep], xs[-1], 9) == as_rows(Series(xs[keep:], ys[keep:]), xs[keep], xs[-1], 9)


def test_wide_ranges_use_every_level_and_stay_exact() -> None:
    xs = [float(i + (i // 1000) * 37) for i in range(20_000)]
    ys = [float((i * 7919) % 20_011 - 4_000) for i in range(20_000)]
    for i in range(3, 20_000, 1_009):
        ys[i] = (math.nan, math.inf, -math.inf)[i % 3]
    series = Series(xs, ys)
    for x0, x1 in ((xs[0], xs[-1]), (17.0, 17_003.0), (4_500.5, 9_000.0)):
        for n in (1, 3, 40):
            for positive in (False, True):
                assert as_rows(series, x0, x1, n, positive) == naive_columns(xs, ys, x0, x1, n, positive)
        inside = [(x, y) for x, y in zip(xs, ys, strict=True) if x0 <= x <= x1 and math.isfinite(y)]
        assert series.peak(x0, x1) == max(inside, key=lambda p: p[1])
        assert series.trough(x0, x1) == min(inside, key=lambda p: p[1])


def test_one_step_spike_in_200_000_is_seen_at_80_columns() -> None:
    ys = [3.0] * 200_000
    ys[123_456] = 50.0
    series = Series(range(200_000), ys)
    columns = series.columns(0, 200_000, 80)
    column = 123_456 * 80 // 200_000
    assert [c for c, hi in enumerate(columns.hi) if hi > 3.0] == [column]
    assert columns.hi[column] == 50.0
    assert series.peak(0, 200_000) == (123_456.0, 50.0)
    assert series.columns(123_456, 123_457, 2).hi[0] == 50.0  # zoomed in, the same number


def test_nan_never_poisons_a_range() -> None:
    ys = [float(i) for i in range(10_000)]
    for i in (0, 15, 16, 5_000, 9_999):
        ys[i] = math.nan
    series = Series(range(10_000), ys)
    assert series.range_minmax(0, 9_999) == (1.0, 9_998.0)
    columns = series.columns(0, 9_999, 4)
    assert list(columns.nonfinite) == [2 + 1, 0, 1, 1]
    assert not any(map(math.isnan, [*columns.lo, *columns.hi, *columns.first, *columns.last]))


@settings(STEADY, max_examples=30)
@given(st.integers(50, 3000), st.integers(1, 400), st.integers(2, 240), st.booleans())
def test_finished_columns_do_not_change_while_points_arrive(size: int, more: int, n: int, follow: bool) -> None:
    def value(i: int) -> float:
        return math.nan if i % 97 == 5 else math.sin(i * 12.9898) * 43758.5453 % 7

    def view(last: int) -> tuple[float, float, float]:
        r = stable_range(last - 49 if follow else 0, last, n, follow=follow)
        return r.x0, r.x1, r.width

    series = Series(range(size), map(value, range(size)))
    x0, x1, width = view(size - 1)
    before = dict(zip((x0 + k * width for k in range(n)), as_rows(series, x0, x1, n), strict=True))
    for i in range(size, size + more):
        series.append(i, value(i))
    y0, y1, width_after = view(size + more - 1)
    if follow:
        assert width_after == width
    elif width_after != width:
        assert width_after % width == 0
        return
    after = dict(zip((y0 + k * width for k in range(n)), as_rows(series, y0, y1, n), strict=True))
    finished = [x for x in before.keys() & after.keys() if x + width <= size - 1]
    assert [before[x] for x in finished] == [after[x] for x in finished]
    if not follow:
        assert len(finished) == min(n, math.floor((size - 1) / width))


@STEADY
@given(st.floats(-1e12, 1e12), st.floats(0, 1e12), st.integers(1, 500), st.booleans())
def test_stable_range_covers_the_span_with_power_of_two_columns(
    x_min: float, span: float, n: int, follow: bool
) -> None:
    x_max = x_min + span
    r = stable_range(x_min, x_max, n, follow=follow)
    assert r.x0 <= x_min
    assert x_max <= r.x1  # equal only where the sum was rounded up to it
    assert math.frexp(r.width)[0] == 0.5
    assert r.x1 - r.x0 == n * r.width
    if follow and n > 1:
        assert r.x1 - r.width <= x_max  # the newest point is in the last column
    if n > 1:
        assert r.width <= max(2 * max(x_max - x_min, 1.0) / (n - 1), 1e12 * 2**-40)


@pytest.mark.parametrize(("lo", "hi", "n"), [(math.nan, 1.0, 5), (0.0, math.inf, 5), (0.0, 1.0, 0), (-9e307, 9e307, 5)])
def test_stable_range_refuses_what_it_cannot_cut(lo: float, hi: float, n: int) -> None:
    with pytest.raises(ValueError, match="cannot cut x"):
        stable_range(lo, hi, n)


def test_bad_points_are_refused_and_leave_the_series_as_it_was() -> None:
    series = Series([1, 2, 3], [1, 2, 3])
    for x in (2.5, math.nan, math.inf):
        with pytest.raises(ValueError, match="x must"):
            series.append(x, 1.0)
        with pytest.raises(ValueError, match="x must"):
            series.extend([x, 9.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="x must not decrease: 4"):
        series.extend([5, 4], [1, 1])
    with pytest.raises(ValueError, match="x must be finite"):
        series.extend([5, math.nan, 6], [1, 1, 1])
    with pytest.raises(ValueError, match="one y for each x"):
        series.extend([5], [])
    with pytest.raises(ValueError, match="NaN"):
        series.truncate_from(math.nan)
    assert len(series) == 3
    assert series.range_minmax(0, 9) == (1.0, 3.0)


def test_append_and_extend_build_the_same() -> None:
    ys = [math.nan if i % 31 == 0 else (-1) ** i * i for i in range(5000)]
    one = Series()
    for i, y in enumerate(ys):
        one.append(i, y)
    two = Series(range(7), ys[:7])
    two.extend(range(7, 4097), ys[7:4097])
    two.extend(range(4097, 5000), ys[4097:])
    assert as_rows(one, 0, 5000, 77, True) == as_rows(two, 0, 5000, 77, True)


def test_value_at_takes_the_nearest_and_the_last_of_equals() -> None:
    series = Series([10, 20, 20, 30], [1, 2, 3, math.nan])
    assert series.value_at(-5) == (10.0, 1.0)
    assert series.value_at(14.9) == (10.0, 1.0)
    assert series.value_at(15) == (10.0, 1.0)
    assert series.value_at(15.1) == (20.0, 3.0)
    found = series.value_at(99)
    assert found is not None
    assert found[0] == 30.0
    assert math.isnan(found[1])
    assert series.value_at(math.nan) is None
    assert Series().value_at(1) is None


def test_empty_series_answers_everything() -> None:
    series = Series()
    assert (series.x_min, series.x_max, len(series)) == (None, None, 0)
    assert series.range_minmax(0, 1) is None
    assert series.peak(0, 1) is None
    assert len(series.truncate_from(0)) == 0
    assert as_rows(series, 0, 1, 3) == [(math.inf, -math.inf, None, None, 0, 0, 0)] * 3
    assert len(series.columns(0, 1, 0)) == 0
