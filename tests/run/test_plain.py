"""Text for people: content that a terminal would obey becomes marks; sizes and durations."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_engine.run.plain import clean, duration, size

hostile = st.text(st.characters(), max_size=80) | st.text(st.characters(max_codepoint=0xA0), max_size=80)


@given(hostile)
def test_no_control_character_survives_but_newline(text: str) -> None:
    cleaned = clean(text)
    assert not [c for c in cleaned if unicodedata.category(c) in {"Cc", "Cs"} and c != "\n"]
    assert not set(cleaned) & set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    assert cleaned.count("\n") == text.count("\n")
    data = cleaned.encode()  # a lone surrogate would raise here
    assert not [b for b in data if (b < 0x20 and b != 0x0A) or b == 0x7F]
    assert clean(cleaned) == cleaned


@given(st.text(st.characters(categories=["L", "M", "N", "P", "S", "Zs"]), max_size=80))
def test_ordinary_text_is_exact(text: str) -> None:
    assert clean(text) == text


BIDI = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0), *BIDI, 0xD800, 0xDFFF])
def test_every_control_leaves_a_mark(code: int) -> None:
    cleaned = clean(f"a{chr(code)}b")
    if chr(code) == "\n":
        assert cleaned == "a\nb"
    elif chr(code) == "\r":
        assert cleaned == "ab"
    else:
        assert len(cleaned) >= 3
        assert chr(code) not in cleaned
        assert cleaned[0] + cleaned[-1] == "ab"


def test_the_marks() -> None:
    assert clean("\x1b]52;c;eA==\x07") == "\u241b]52;c;eA==\u2407"
    assert clean("\x9b31m\x7f\t\ud800\u202e") == "<U+009B>31m\u2421    \ufffd<U+202E>"
    assert clean("[/INST] [red]x") == "[/INST] [red]x"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (12_240_000, "12.2 MB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (999_999, "1 MB"),
        (1_184_385_032, "1.18 GB"),
        (5_766_156_296, "5.77 GB"),
        (999_999_999_999, "1 TB"),
        (2_900_000_000_000, "2.9 TB"),
        (12_345_000_000_000_000, "12,345 TB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


@given(st.integers(0, 10**17))
def test_every_size_is_readable_and_near(count: int) -> None:
    number, unit = size(count).split(" ")
    value = float(number.replace(",", "")) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]
    assert abs(value - count) <= 0.005 * count
    assert "e" not in number


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (8.9, "8 s"),
        (59.99, "59 s"),
        (60, "1 min"),
        (720, "12 min"),
        (3599, "59 min"),
        (3600, "1 h 0 min"),
        (12_000, "3 h 20 min"),
        (86_400, "1 d 0 h"),
        (860_400, "9 d 23 h"),
        (1_391_040, "16 d 2 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
