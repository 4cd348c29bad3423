from __future__ import annotations

import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andrea_tui.plotting.raster import Kind
from andrea_tui.plotting.strips import bar, sparkline

# A busy machine must not fail a test.
STEADY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

KIND = st.sampled_from(["braille", "block", "ascii"])
VALUE = st.one_of(st.none(), st.floats())


@STEADY
@given(st.lists(VALUE, max_size=60), st.integers(-1, 40), KIND, VALUE, VALUE)
def test_sparkline_is_exactly_as_wide_as_asked(
    values: list[float | None], width: int, kind: Kind, lo: float | None, hi: float | None
) -> None:
    for text in (sparkline(values, width, kind), sparkline(values, width, kind, lo=lo, hi=hi)):
        assert len(text) == max(width, 0)
        assert text.isascii() or kind != "ascii"


def test_sparkline_shape() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([0, 7], 4) == "  ▁█"
    assert sparkline([0, 0, 0, 9, 0, 0, 0, 0], 4) == "▁█▁▁"  # a spike survives
    assert sparkline([5, 5, 5], 3) == "▄▄▄"
    assert sparkline([0, math.nan, None, 7], 4) == "▁× █"
    assert sparkline([0, math.inf, 7], 3, "ascii") == "_x#"
    assert sparkline([50], 1, lo=0, hi=100) == "▅"
    assert sparkline([-5, 500], 2, lo=0, hi=100) == "▁█"
    assert sparkline([], 3) == "   "


@STEADY
@given(VALUE, st.floats(), st.integers(-1, 40), KIND)
def test_bar_is_exactly_as_wide_as_asked(value: float | None, maximum: float, width: int, kind: Kind) -> None:
    text = bar(value, maximum, width, kind)
    assert len(text) == max(width, 0)
    assert text.isascii() or kind != "ascii"


def test_bar_shape() -> None:
    assert bar(31.2, 35, 24) == "▇" * 21 + "···"
    assert bar(34.9, 35, 10) == "▇▇▇▇▇▇▇▇▇·"  # full means full
    assert bar(35, 35, 10) == "▇" * 10
    assert bar(40, 35, 3) == "▇▇▇"
    assert bar(0.1, 35, 5) == "▏····"
    assert bar(0.1, 35, 5, rest=" ") == "▏    "
    assert bar(0, 35, 3) == bar(None, 35, 3) == bar(math.nan, 35, 3) == bar(1, 0, 3) == "···"
    assert bar(5, 10, 4, "ascii") == "##.."
