"""Plain text of values: cleaned content, sizes and durations."""

from __future__ import annotations

import re
import unicodedata

# C0 and C1 controls (but newline), DEL, bidi controls and lone surrogates: shown as marks, never passed on.
_HOSTILE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    """Text that a terminal shows and never obeys: control characters become visible marks."""
    return _HOSTILE.sub(_mark, text)


def _mark(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if character == "\t":
        return "    "
    if character == "\r":
        return ""
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd" if unicodedata.category(character) == "Cs" else f"<U+{code:04X}>"


def size(count: int) -> str:
    """Bytes with a unit: `12.2 MB`, `1.18 GB` (decimal, as disks are sold)."""
    if count < 1000:
        return f"{count} B"
    value = count / 1000
    for unit in ("kB", "MB", "GB"):
        if value < 999.5:  # from there on three digits would round to 1e+03
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB" if value < 999.5 else f"{value:,.0f} TB"


def duration(seconds: float) -> str:
    """`8 s`, `12 min`, `3 h 20 min`, `9 d 23 h`."""
    s = int(seconds)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60} min"
    if s < 86400:
        return f"{s // 3600} h {s % 3600 // 60} min"
    return f"{s // 86400} d {s % 86400 // 3600} h"
