from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andrea_tui.plotting import format as fmt

# A busy machine must not fail a test.
STEADY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

FUNCTIONS = [
    fmt.human_count,
    fmt.short_count,
    fmt.rounded_count,
    fmt.compact_number,
    fmt.percent,
    fmt.points,
    fmt.duration,
    fmt.size_bytes,
    fmt.energy,
    fmt.watts,
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (fmt.human_count(112_619), "112,619"),
        (fmt.human_count(112_619, 9), "  112,619"),
        (fmt.short_count(112_619), "112k"),
        (fmt.short_count(999), "999"),
        (fmt.short_count(1_000), "1k"),
        (fmt.short_count(1_550), "1.5k"),
        (fmt.short_count(99_999), "99.9k"),  # never more than was reached
        (fmt.short_count(199_999), "199k"),
        (fmt.short_count(-1_500), "-1.5k"),
        (fmt.short_count(98_698_752), "98.6M"),
        (fmt.rounded_count(98_698_752), "98.7 M"),
        (fmt.rounded_count(480_513_024), "481 M"),
        (fmt.rounded_count(999_999), "1.00 M"),
        (fmt.compact_number(50.0), "50.0"),
        (fmt.compact_number(3.412), "3.41"),
        (fmt.compact_number(0.84), "0.84"),
        (fmt.compact_number(1.62e-4), "1.6e-4"),
        (fmt.compact_number(-5e-5), "-5e-5"),
        (fmt.compact_number(112_619), "113k"),
        (fmt.compact_number(math.nan), "NaN"),
        (fmt.compact_number(-math.inf), "-inf"),
        (fmt.fixed(3.4119, 3, 7), "  3.412"),
        (fmt.fixed(math.inf, 3), "+inf"),
        (fmt.fixed(None, 3, 3), "  –"),
        (fmt.percent(0.5631), "56 %"),
        (fmt.percent(0.9999), "99 %"),
        (fmt.percent(0.29), "29 %"),
        (fmt.points(99.7), "99"),
        (fmt.points(29.7), "29"),
        (fmt.points(100.0, 5), "  100"),
        (fmt.points(None), "–"),
        (fmt.points(math.nan), "NaN"),
        (fmt.duration(1.44), "1.4 s"),
        (fmt.duration(9.97), "9 s"),
        (fmt.duration(59.9), "59 s"),
        (fmt.duration(200), "3 min"),
        (fmt.duration(2 * 3600 + 5 * 60), "2 h 05 min"),
        (fmt.duration(9 * 86_400 + 23 * 3600 + 59), "9 d 23 h"),
        (fmt.duration(120 * 86_400), "120 d"),
        (fmt.duration(-1), "–"),
        (fmt.size_bytes(1_184_385_032), "1.18 GB"),
        (fmt.size_bytes(153_363_464), "153 MB"),
        (fmt.size_bytes(999), "999 B"),
        (fmt.size_bytes(999_600), "1.00 MB"),
        (fmt.size_bytes(212e9), "212 GB"),
        (fmt.energy(41.7 * 3.6e6), "41.7 kWh"),
        (fmt.energy(0.19 * 3.6e6), "0.19 kWh"),
        (fmt.energy(12 * 3600), "12.0 Wh"),
        (fmt.watts(131.4), "131 W"),
        (fmt.watts(3.42), "3.4 W"),
        (fmt.watts(12_400), "12.4 kW"),
        (fmt.scientific(1.6e-4), "1.6e-4"),
        (fmt.scientific(1e10), "1e10"),
    ],
)
def test_examples(text: str, expected: str) -> None:
    assert text == expected


@STEADY
@given(st.one_of(st.none(), st.floats(), st.integers(-(10**30), 10**30)), st.integers(0, 30))
def test_any_number_has_a_text_at_least_as_wide_as_asked(value: float | None, width: int) -> None:
    for function in FUNCTIONS:
        text = function(value, width)
        assert text.strip()
        assert len(text) >= width
        assert len(text) == width or text == text.strip()


@STEADY
@given(st.floats(0, 1e300))
def test_live_numbers_keep_to_their_width(value: float) -> None:
    assert len(fmt.duration(value)) <= 11
    if value < 1e15:
        assert len(fmt.short_count(value)) <= 5
    if value == 0 or 1e-9 <= value < 1e15:
        assert len(fmt.compact_number(value)) <= 6


@STEADY
@given(st.text())
def test_text_is_fitted_one_character_for_one_cell(text: str) -> None:
    plain = fmt.to_ascii(text)
    assert len(plain) == len(text)
    assert plain.isascii()
    assert len(fmt.one_cell(text)) == len(text)
    assert fmt.one_cell(text).isprintable()


def test_signs_keep_a_look_alike_and_wide_or_combining_ones_are_replaced() -> None:
    assert fmt.to_ascii("61 °C · 3 × ◆") == "61 oC . 3 x *"
    assert fmt.one_cell("a字b\u0301\n◆⣿") == "a?b??◆⣿"
