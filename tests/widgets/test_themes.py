"""Text can be read: contrast by the formula of WCAG 2.2, computed here on its own."""

from __future__ import annotations

import pytest
from rich.color import ColorType
from textual.theme import Theme

from andrea_tui.themes import _MEANINGS, ANSI, DARK, GRAPHIC, LIGHT, THEMES, contrast, style_of

STATES = ("good", "warn", "bad", "alarm", "nan", "clip", "key", "accent", "accent-bold")


def ratio(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """Contrast ratio, from 8-bit sRGB."""

    def luminance(rgb: tuple[int, int, int]) -> float:
        linear = [v / 3294.6 if v <= 10.31475 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in rgb]
        return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def test_the_formula_at_known_points() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#777777") == pytest.approx(1.0)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)  # the grey that just passes on white
    for one, other in (("#7dc4e4", "#101419"), ("#00627a", "#fbfaf7")):
        assert contrast(one, other) == pytest.approx(ratio(rgb(one), rgb(other)))


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
@pytest.mark.parametrize("meaning", sorted(set(_MEANINGS) - GRAPHIC))
def test_whatever_is_read_has_a_contrast_of_4_5(theme: Theme, meaning: str) -> None:
    style = style_of(theme, meaning)
    assert style.color is not None
    assert style.bgcolor is not None
    assert style.color.triplet is not None
    assert style.bgcolor.triplet is not None
    assert ratio(tuple(style.color.triplet), tuple(style.bgcolor.triplet)) >= 4.5


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
@pytest.mark.parametrize("ground", ["background", "surface", "panel"])
@pytest.mark.parametrize("front", ["foreground", "accent", "success", "warning", "error"])
def test_text_and_states_in_dialogs_and_notices_too(theme: Theme, ground: str, front: str) -> None:
    assert ratio(rgb(getattr(theme, front)), rgb(getattr(theme, ground))) >= 4.5


def test_what_is_less_important_stays_softer() -> None:
    for theme in (DARK, LIGHT):
        background = rgb(str(theme.background))
        shades = []
        for meaning in ("", "title", "dim"):
            colour = style_of(theme, meaning).color
            assert colour is not None
            assert colour.triplet is not None
            shades.append(ratio(tuple(colour.triplet), background))
        assert shades == sorted(shades, reverse=True)
        assert len(set(shades)) == 3


@pytest.mark.parametrize("meaning", sorted(_MEANINGS))
def test_the_terminals_own_colours_are_left_to_it(meaning: str) -> None:
    style = style_of(ANSI, meaning)
    assert style.bgcolor is None
    assert style.color is None or (style.color.type is ColorType.STANDARD and (style.color.number or 0) < 16)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_states_do_not_look_alike(theme: Theme) -> None:
    assert len({str(style_of(theme, meaning)) for meaning in ("good", "warn", "bad", "", "dim")}) == 5
    assert all(str(style_of(theme, meaning)) != str(style_of(theme, "")) for meaning in STATES)
