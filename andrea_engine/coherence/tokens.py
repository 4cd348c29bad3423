"""Split any text into the word tokens that the coherence score counts.

One token is
- a run of letters and digits, with apostrophes inside it kept (`don't`),
- one character, with its vowel signs, of a script written without spaces (Han, kana, Hangul, Thai, Khmer ...),
- one emoji cluster (skin tone, family, flag),
- or any other single visible character.

Hangul is split by syllable although Korean uses spaces: a model that loops often drops them, and then a whole
loop would count as one word.
"""

from __future__ import annotations

import re
import unicodedata

_ZWJ = "\u200d"
_LAST_GENERAL_MARK = 0x0482  # the marks up to here go on any letter, so they never belong to a script

# Scripts without spaces between words; only letters and letter-like numbers in these ranges are meant.
_SPACELESS = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1100, 0x11FF),  # Hangul jamo
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x3005, 0x318F),  # iteration marks, kana, bopomofo, Hangul letters
    (0x31A0, 0x31FF),  # bopomofo and kana extensions
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0xA4CF),  # Han, Yi
    (0xA960, 0xA97F),  # Hangul jamo
    (0xA9E0, 0xA9FF),  # Myanmar
    (0xAA60, 0xAADF),  # Myanmar, Tai Viet
    (0xAC00, 0xD7FF),  # Hangul syllables
    (0xF900, 0xFAFF),  # Han, compatibility
    (0xFF66, 0xFFDC),  # half-width kana and Hangul
    (0x1B000, 0x1B16F),  # kana, historic
    (0x20000, 0x3FFFF),  # Han, later extensions
)
_EMOJI = (
    (0x2190, 0x21FF),
    (0x2300, 0x23FF),
    (0x2600, 0x27BF),
    (0x2B00, 0x2BFF),
    (0x1F000, 0x1F1E5),
    (0x1F200, 0x1F3FA),
    (0x1F400, 0x1FAFF),
)
_SKIN_TONE = (0x1F3FB, 0x1F3FF)
_REGIONAL = (0x1F1E6, 0x1F1FF)
# Invisible, though Unicode calls them letters or marks: Hangul fillers, the grapheme joiner, Khmer inherent
# vowels and the variation selectors.
_INVISIBLE = frozenset({0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0}).union(
    range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)
)
_APOSTROPHES = frozenset("\u2019\u02bc\uff07")
_BLANKS = frozenset("\u2800")  # the empty braille cell is a symbol that nobody can see


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= code <= last for first, last in ranges)


class _CleanTable(dict[int, str | None]):
    """For `str.translate`: drops what has no width and unifies apostrophes and blanks; fills itself on demand."""

    def __missing__(self, code: int) -> str | None:
        char = chr(code)
        category = unicodedata.category(char)
        result: str | None = char
        if char == _ZWJ:
            pass  # decided later: between two emoji it makes them one
        elif char.isspace() or char in _BLANKS:
            result = char if char == "\n" else " "
        elif category in {"Cc", "Cf"} or code in _INVISIBLE:
            result = None
        elif char in _APOSTROPHES:
            result = "'"
        self[code] = result
        return result


class _ShapeTable(dict[int, str]):
    """For `str.translate`: one class letter per character, so that the token pattern needs no Unicode classes."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        shape = "p"
        if char.isspace():
            shape = " "
        elif char == "'":
            shape = "a"
        elif char == _ZWJ:
            shape = "j"
        elif _within(code, (_SKIN_TONE,)):
            shape = "k"
        elif _within(code, (_REGIONAL,)):
            shape = "r"
        elif _within(code, _EMOJI):
            shape = "e"
        elif category[0] == "M":
            shape = "m"
        # Cn: an older Unicode table may not know the newest ideographs, and scores must not depend on that.
        elif category in {"Lo", "Lm", "Nl", "Cn"} and _within(code, _SPACELESS):
            shape = "c"
        elif category[0] in "LN":
            shape = "w"
        self[code] = shape
        return shape


_CLEAN = _CleanTable()
_SHAPE = _ShapeTable()
_TOKEN = re.compile(r"rr?|ek?(?:jek?)*|cm*|[wm]+(?:a[wm]+)*|[^ ]")
_EMOJI_CHARS, _TONE_CHARS = (
    "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges) for ranges in (_EMOJI, (_SKIN_TONE,))
)
_STRAY_JOINER = re.compile(
    f"(?<![{_EMOJI_CHARS}])(?<![{_EMOJI_CHARS}][{_TONE_CHARS}]){_ZWJ}|{_ZWJ}(?![{_EMOJI_CHARS}])"
)


def _without_foreign_marks(text: str) -> str:
    """Keep a combining mark only on a letter of its own script; elsewhere it is decoration that makes equal
    words look different."""
    kept = []
    script = -1  # upper bits of the letter that may carry marks
    for char in text:
        code = ord(char)
        shape = _SHAPE[code]
        if shape == "m":
            if code <= _LAST_GENERAL_MARK or code >> 8 != script:
                continue
        else:
            script = code >> 8 if shape in "wc" else -1
        kept.append(char)
    return "".join(kept)


def normalise(text: str) -> str:
    """`text` as a reader sees it: NFC, white space as blanks and newlines, one kind of apostrophe.

    Zero-width, control and variation characters are dropped, and so are combining marks that do not belong to
    the script of their letter.
    """
    text = text.translate(_CLEAN)
    if text.isascii():
        return text
    if _ZWJ in text:
        text = _STRAY_JOINER.sub("", text)
    text = unicodedata.normalize("NFC", text)
    if "m" in text.translate(_SHAPE):
        text = _without_foreign_marks(text)
    return text


def split(normalised: str) -> list[str]:
    """The tokens of a text that went through `normalise`."""
    shape = normalised.translate(_SHAPE)
    return [normalised[match.start() : match.end()] for match in _TOKEN.finditer(shape)]


def tokenise(text: str) -> list[str]:
    """The word tokens of `text`, in order (see the module's docstring). Never raises; blank text has none."""
    return split(normalise(text))
