"""What no terminal may get, whoever drew it: control codes; without UTF-8 other than ASCII; with NO_COLOR colours."""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len
from rich.color import ColorType
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from andrea_engine.run.plain import clean
from andrea_tui.plotting.format import to_ascii

# What ready-made widgets draw frames, scroll bars and signs with.
_FRAMES = str.maketrans(
    {
        **dict.fromkeys("─━═╌┄┈▁▂▔▄▀▃🬂🬭", "-"),
        **dict.fromkeys("│┃║╎┆▌▐▏▕▎▊┊", "|"),
        **dict.fromkeys("┌┐└┘╭╮╰╯├┤┬┴┼╔╗╚╝╠╣╦╩╬┏┓┗┛▖▗▘▝▛▜▙▟", "+"),
        **dict.fromkeys("█▇▆▅▓▒░", "#"),
        **dict.fromkeys("❯›»⏵", ">"),
    }
)


class ControlGuard(LineFilter):
    """Blanks out what a terminal would obey. Our own widgets show it as marks before; ready-made ones do not."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(clean(segment.text) == segment.text for segment in segments):
            return segments
        return [Segment(_blanked(segment.text), segment.style, segment.control) for segment in segments]


def _blanked(text: str) -> str:
    """As many cells as before, so that the layout stays."""
    return "".join(char if clean(char) == char else " " * cell_len(char) for char in text)


class AsciiOnly(LineFilter):
    """Look-alikes for everything that is not ASCII, in as many cells."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(segment.text.isascii() for segment in segments):
            return segments
        return [Segment(ascii_cells(segment.text), segment.style, segment.control) for segment in segments]


def ascii_cells(text: str) -> str:
    """Only ASCII, as wide as before."""
    if text.isascii():
        return text
    plain = to_ascii(text.translate(_FRAMES))
    return "".join(
        new if cell_len(old) == 1 else new.ljust(cell_len(old))[: cell_len(old)]
        for old, new in zip(text, plain, strict=True)
    )


class Colourless(LineFilter):
    """No colours at all, as NO_COLOR asks for: bold, dim and reverse are left, and what stood on one of the terminal's
    own colours (a choice, a selection) is reversed."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, None if style is None else _without_colour(style), control)
            for text, style, control in segments
        ]


@lru_cache(1024)
def _without_colour(style: Style) -> Style:
    ground = style.bgcolor is not None and style.bgcolor.type is ColorType.STANDARD
    return Style(
        bold=style.bold,
        dim=style.dim,
        italic=style.italic,
        underline=style.underline,
        strike=style.strike,
        reverse=bool(style.reverse) or ground,
        link=None,
        meta=style.meta,
    )
