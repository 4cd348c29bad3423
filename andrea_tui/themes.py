"""Colours by meaning. Widgets name a meaning; which colour that is depends on the theme.

One accent; green, amber and red only for states, and never without a word or a sign beside them.
"""

from __future__ import annotations

from rich.style import Style
from textual.theme import Theme

DARK = Theme(
    name="andrea-dark",
    primary="#7dc4e4",
    secondary="#8aadf4",
    accent="#7dc4e4",
    foreground="#d8dee9",
    background="#101419",
    surface="#161b22",
    panel="#1d242d",
    success="#8fce9b",
    warning="#e5b567",
    error="#ef7a7a",
    dark=True,
)
LIGHT = Theme(
    name="andrea-light",
    primary="#00627a",
    secondary="#33508f",
    accent="#00627a",
    foreground="#1c2128",
    background="#fbfaf7",
    surface="#f3f1ec",
    panel="#e9e6df",
    success="#1f6f3a",
    warning="#8a5300",
    error="#b3261e",
    dark=False,
)
# The terminal's own 16 colours, as its owner has set them: for palettes chosen with care, and for NO_COLOR.
ANSI = Theme(
    name="andrea-ansi",
    ansi=True,
    primary="ansi_cyan",
    secondary="ansi_blue",
    accent="ansi_cyan",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    success="ansi_green",
    warning="ansi_yellow",
    error="ansi_red",
    dark=True,
    variables={
        "ansi-background": "ansi_black",
        "ansi-foreground": "ansi_white",
        "block-cursor-foreground": "ansi_black",
        "block-cursor-background": "ansi_cyan",
        "block-cursor-blurred-text-style": "reverse",
        "input-cursor-background": "ansi_cyan",
        "input-cursor-foreground": "ansi_black",
        "input-selection-background": "ansi_blue",
        "input-selection-foreground": "ansi_white",
    },
)
THEMES = (DARK, LIGHT, ANSI)

READABLE = 4.5  # contrast of text against its background, WCAG 2.2 success criterion 1.4.3
# Lines and areas that are seen, not read: they may be softer than text.
GRAPHIC = frozenset({"frame", "band", "line", "validation", "abandoned", "axis", "grid", "bar", "bar-low"})

# meaning -> (colour of the theme, least share of it against the background, bold, reverse)
_MEANINGS: dict[str, tuple[str, float, bool, bool]] = {
    "": ("foreground", 1.0, False, False),
    "bright": ("foreground", 1.0, True, False),
    "dim": ("foreground", 0.55, False, False),
    "faint": ("foreground", 0.35, False, False),
    "frame": ("foreground", 0.28, False, False),
    "title": ("foreground", 0.75, False, False),
    "accent": ("accent", 1.0, False, False),
    "accent-bold": ("accent", 1.0, True, False),
    "good": ("success", 1.0, False, False),
    "warn": ("warning", 1.0, False, False),
    "bad": ("error", 1.0, True, False),
    "band": ("accent", 0.38, False, False),
    "line": ("accent", 1.0, True, False),
    "validation": ("success", 0.9, False, False),
    "other": ("foreground", 0.85, False, False),
    "band-text": ("accent", 0.7, False, False),
    "cursor-text": ("warning", 1.0, False, False),
    "abandoned": ("foreground", 0.3, False, False),
    "axis": ("foreground", 0.4, False, False),
    "label": ("foreground", 0.6, False, False),
    "grid": ("foreground", 0.35, False, False),
    "mark": ("foreground", 0.9, True, False),
    "nan": ("error", 1.0, True, False),
    "clip": ("warning", 1.0, False, False),
    "extreme": ("warning", 1.0, False, False),
    "match": ("warning", 1.0, False, True),
    "cursor": ("warning", 1.0, False, True),
    "message": ("foreground", 0.55, False, False),
    "bar": ("accent", 0.9, False, False),
    "bar-low": ("warning", 1.0, False, False),
    "key": ("accent", 1.0, True, False),
    "key-off": ("foreground", 0.35, False, False),
    "alarm": ("error", 1.0, True, True),
}


_styles: dict[tuple[str, str], Style] = {}


def style_of(theme: Theme, meaning: str) -> Style:
    """Rich style of a meaning in a theme. Unknown meanings look like ordinary text."""
    key = (theme.name, meaning)
    if key not in _styles:
        _styles[key] = _make_style(theme, meaning)
    return _styles[key]


def _make_style(theme: Theme, meaning: str) -> Style:
    colour, share, bold, reverse = _MEANINGS.get(meaning, _MEANINGS[""])
    background = theme.background or ("#000000" if theme.dark else "#ffffff")
    foreground = getattr(theme, colour, None) or theme.foreground or ("#e0e0e0" if theme.dark else "#202020")
    if not (foreground.startswith("#") and background.startswith("#")):
        # Terminal palettes have names and not values: there is nothing to mix, so faint becomes dim.
        return Style(bold=bold, reverse=reverse, dim=share < 0.7, color=_ansi(colour))
    while (
        meaning not in GRAPHIC
        and share < 1.0
        and contrast(_mixed(foreground, background, share), background) < READABLE
    ):
        share = min(1.0, share + 0.01)
    return Style(color=_mixed(foreground, background, share), bgcolor=background, bold=bold, reverse=reverse)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours `#rrggbb`, from 1 to 21 (WCAG 2.2)."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2), of sRGB."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _ansi(colour: str) -> str | None:
    return {"accent": "cyan", "success": "green", "warning": "yellow", "error": "red"}.get(colour)


def _mixed(foreground: str, background: str, share: float) -> str:
    """`foreground` laid over `background` with opacity `share`; both `#rrggbb`."""
    front = [int(foreground[i : i + 2], 16) for i in (1, 3, 5)]
    back = [int(background[i : i + 2], 16) for i in (1, 3, 5)]
    mixed = [round(b + (f - b) * share) for f, b in zip(front, back, strict=True)]
    return "#" + "".join(f"{value:02x}" for value in mixed)
