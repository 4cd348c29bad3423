"""Running text in lines of a panel's width."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size

from andrea_tui.widgets.rows import Row, visible

SHOWN_CHARACTERS = 4000
SHOWN_LINES = 200


def message(text: str, width: int, height: int) -> list[Row]:
    """What a panel says in place of its content: no word is cut where there is room for a further line, and an
    ellipsis tells where there is none."""
    return [[(line, "message")] for line in filled(text, width, height)]


def filled(text: str, width: int, height: int) -> list[str]:
    """At most `height` lines; the last one ends in an ellipsis where there is more."""
    lines = list(wrapped(text, width, height + 1))
    if len(lines) > height:
        lines = lines[:height]
        if lines:
            lines[-1] = set_cell_size(lines[-1], max(0, width - 1)).rstrip() + "…"
    return lines


def wrapped(text: str, width: int, most: int) -> Iterator[str]:
    """Lines of at most `width` cells, broken at spaces where that is possible; at most `most` of them."""
    if width <= 0:
        return
    count = 0
    for paragraph in visible(text[:SHOWN_CHARACTERS]).splitlines()[:SHOWN_LINES]:
        line = ""
        for word in paragraph.split(" "):
            piece = word
            while piece or not line:
                joined = f"{line} {piece}" if line else piece
                if cell_len(joined) <= width:
                    line = joined
                    break
                if line:
                    yield line
                    count += 1
                    line = ""
                else:  # one word wider than the panel
                    head = _head(piece, width)
                    yield head
                    count += 1
                    piece = piece[len(head) :]
                if count >= most:
                    return
                if not piece:
                    break
        yield line
        count += 1
        if count >= most:
            return


def _head(text: str, width: int) -> str:
    """The longest beginning of at most `width` cells, at least one character."""
    end = min(len(text), width)
    while end > 1 and cell_len(text[:end]) > width:
        end -= 1
    return text[:end]
