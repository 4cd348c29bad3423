"""Numbers as text for a live screen: short, with the unit behind, right-aligned to a fixed width where one is given.

Every function takes `width` (0 = as long as needed) and answers `MISSING` for None, NaN and infinities, so a panel
never has to ask first. Counts are cut, not rounded, in their short form: a step is not shown before it is reached.
"""

from __future__ import annotations

import math
from typing import TypeGuard
from unicodedata import combining, east_asian_width

MISSING = "–"

_ASCII = {
    "–": "-", "—": "-", "−": "-", "·": ".", "…": ".", "×": "x", "✕": "x", "°": "o", "²": "2", "µ": "u", "→": ">",
    "←": "<", "▲": "^", "▼": "v", "▴": "^", "▾": "v", "▶": ">", "◀": "<", "◆": "*", "◇": "o", "●": "*", "○": "o",
    "■": "#", "□": "o", "✓": "+", "│": "|", "┆": "!", "─": "-", "└": "+", "┤": "+", "┬": "+", "▇": "#", "▏": "|",
    "\u2800": " ",
}  # fmt: skip


def to_ascii(text: str) -> str:
    """The same number of characters, all ASCII: known signs by a look-alike, the rest by '?'."""
    if text.isascii():
        return text
    return "".join(char if char.isascii() else _ASCII.get(char, "?") for char in text)


def one_cell(text: str) -> str:
    """The same number of characters, each exactly one terminal cell wide: any other becomes '?'."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char
        if char == "\u2800" or (char.isprintable() and not combining(char) and east_asian_width(char) not in "WF")
        else "?"
        for char in text
    )


def human_count(value: float | None, width: int = 0) -> str:
    """112619 -> '112,619'; a fraction is cut off."""
    return (f"{int(value):,}" if _known(value) else MISSING).rjust(width)


def short_count(value: float | None, width: int = 0) -> str:
    """112619 -> '112k', 1500 -> '1.5k', 98698752 -> '98.6M'; at most five characters below a thousand T."""
    if not _known(value):
        return MISSING.rjust(width)
    size = int(abs(value))
    sign = "-" if value < 0 and size else ""
    unit = 1
    for letter in ("", "k", "M", "G", "T"):
        if size < unit * 1000 or letter == "T":
            break
        unit *= 1000
    tenths = size * 10 // unit
    text = f"{tenths // 10}" if unit == 1 or tenths >= 1000 or not tenths % 10 else f"{tenths / 10:.1f}"
    return f"{sign}{text}{letter}".rjust(width)


def rounded_count(value: float | None, width: int = 0) -> str:
    """98698752 -> '98.7 M': three digits, for sizes that do not grow under the eye (parameters, tokens)."""
    if not _known(value):
        return MISSING.rjust(width)
    return (str(int(value)) if abs(value) < 1000 else _scaled(value, ("", " k", " M", " G", " T"))).rjust(width)


def compact_number(value: float | None, width: int = 0) -> str:
    """A measured value in about four characters: '50.0', '3.41', '131', '112k', '1.6e-4'. Non-finite values are
    named ('NaN', '+inf', '-inf'), for here they are the finding."""
    if value is None:
        return MISSING.rjust(width)
    if not math.isfinite(value):
        return ("NaN" if math.isnan(value) else f"{value:+}").rjust(width)
    size = abs(value)
    if size == 0:
        text = "0"
    elif size < 9.995e-4 or size >= 999.5e12:
        text = scientific(value)
    elif size < 0.9995:
        text = f"{value:.{2 if size < 0.0995 else 3}g}"
    elif size < 999.5:
        text = _three_digits(value)
    else:
        text = _scaled(value, ("", "k", "M", "G", "T"))
    return text.rjust(width)


def scientific(value: float, digits: int = 1) -> str:
    """1.6e-4 rather than 1.6e-04, 5e-5 rather than 5.0e-05."""
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def fixed(value: float | None, decimals: int, width: int = 0) -> str:
    """3.412 with a constant number of decimals, for the number in a title; NaN and infinities are named."""
    if value is None:
        return MISSING.rjust(width)
    if not math.isfinite(value):
        return ("NaN" if math.isnan(value) else f"{value:+}").rjust(width)
    return f"{value:.{decimals}f}".rjust(width)


def points(score: float | None, width: int = 0) -> str:
    """99.7 -> '99': cut, so that 100 means all of them, and a score below the gate's threshold looks like one."""
    if score is None or not math.isfinite(score):
        return fixed(score, 0, width)
    return str(math.floor(score)).rjust(width)


def percent(fraction: float | None, width: int = 0) -> str:
    """0.563 -> '56 %'; cut, so that 100 % means done."""
    if not _known(fraction):
        return MISSING.rjust(width)
    return f"{math.floor(max(-1e9, min(1e9, fraction)) * 100 + 1e-9)} %".rjust(width)


def duration(seconds: float | None, width: int = 0) -> str:
    """'1.4 s', '12 s', '3 min', '2 h 05 min', '9 d 23 h', '120 d'; at most eleven characters."""
    if not _known(seconds) or seconds < 0:
        return MISSING.rjust(width)
    whole = int(seconds)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3600)
    if seconds < 9.95:
        text = f"{seconds:.1f} s"
    elif whole < 60:
        text = f"{whole} s"
    elif whole < 3600:
        text = f"{whole // 60} min"
    elif not days:
        text = f"{hours} h {rest // 60:02d} min"
    elif days < 100:
        text = f"{days} d {hours:02d} h"
    else:
        text = f"{days} d" if days < 36_525 else "> 100 years"
    return text.rjust(width)


def size_bytes(count: float | None, width: int = 0) -> str:
    """1184385032 -> '1.18 GB' (decimal units, as disks are sold and `df -H` counts)."""
    if not _known(count):
        return MISSING.rjust(width)
    return (f"{int(count)} B" if abs(count) < 1000 else _scaled(count, (" B", " kB", " MB", " GB", " TB"))).rjust(width)


def energy(joules: float | None, width: int = 0) -> str:
    """150120000 -> '41.7 kWh'; below 0.1 kWh in Wh."""
    if not _known(joules):
        return MISSING.rjust(width)
    kwh = joules / 3.6e6
    return (f"{_three_digits(kwh)} kWh" if abs(kwh) >= 0.1 else f"{_three_digits(kwh * 1000)} Wh").rjust(width)


def watts(value: float | None, width: int = 0) -> str:
    """131.4 -> '131 W', 3.42 -> '3.4 W', 12400 -> '12.4 kW'."""
    if not _known(value):
        return MISSING.rjust(width)
    if abs(value) >= 9999.5:
        return f"{_three_digits(value / 1000)} kW".rjust(width)
    return f"{value:.{1 if abs(value) < 9.95 else 0}f} W".rjust(width)


def _three_digits(value: float) -> str:
    size = abs(value)
    return f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:,.0f}"


def _scaled(value: float, units: tuple[str, ...]) -> str:
    step = 0
    while abs(value) >= 999.5 and step < len(units) - 1:
        value /= 1000
        step += 1
    return _three_digits(value) + units[step]


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)
