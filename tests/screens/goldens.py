"""The dashboard of a recorded run as text: what stands in each cell, and in which style.

    python -m tests.screens.goldens

writes the golden files anew, after a change that was meant. Look at their difference: a golden says what the screen
was, not what it should be.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import string
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from rich.segment import Segment
from rich.style import Style

FOLDER = Path(__file__).with_name("goldens")
SIZES = ((60, 20), (80, 24), (120, 40), (200, 50), (300, 80))
LOOKS = ("dark", "light", "no-color", "ascii")
_LETTERS = string.ascii_letters + string.digits + "!#$%&*+-/:;<=>?@^_~"
_MAKE = Path(__file__).parents[2] / "screenshots" / "make.py"


def name_of(size: tuple[int, int], look: str) -> str:
    return f"{size[0]}x{size[1]}-{look}.txt"


def screen(size: tuple[int, int], look: str) -> str:
    """The dashboard of the recorded demo run: the text, then a letter for the style of each cell, then the styles."""
    with tempfile.TemporaryDirectory() as scratch, _surroundings(scratch, no_color=look == "no-color"):
        return asyncio.run(_screen(size, look, Path(scratch)))


async def _screen(size: tuple[int, int], look: str, scratch: Path) -> str:
    make = _pictures()
    app = make.RecordedApp(make.as_it_stood("demo", scratch), "ascii" if look == "ascii" else "braille")
    async with app.run_test(size=size) as pilot:
        if look == "light":
            app.theme = "andrea-light"
        await pilot.pause()
        app.screen.redraw()
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
    return _described([list(strip) for strip in strips])


def _described(rows: list[list[Segment]]) -> str:
    letters: dict[str, str] = {}
    texts, styles = [], []
    for row in rows:
        texts.append("".join(segment.text for segment in row))
        named = [(letters.setdefault(_words(segment.style), _LETTERS[len(letters)]), segment) for segment in row]
        styles.append("".join(letter * segment.cell_length for letter, segment in named))
    legend = [f"{letter}  {words}" for words, letter in letters.items()]
    return "\n".join(line.rstrip() for line in [*texts, "", *styles, "", *legend]) + "\n"


def _words(style: Style | None) -> str:
    """A style as text: colour, attributes, background."""
    if style is None:
        return "default"
    attributes = [name for name in ("bold", "dim", "italic", "underline", "reverse") if getattr(style, name)]
    colour = style.color.name if style.color is not None else "default"
    return " ".join([colour, *attributes, *([f"on {style.bgcolor.name}"] if style.bgcolor is not None else [])])


@contextmanager
def _surroundings(scratch: str, *, no_color: bool) -> Iterator[None]:
    """Nobody's layout and time zone; colours or none."""
    before = {name: os.environ.get(name) for name in ("TZ", "XDG_STATE_HOME", "NO_COLOR")}
    wanted = {"TZ": "UTC", "XDG_STATE_HOME": scratch, "NO_COLOR": "1" if no_color else None}
    _set(wanted)
    try:
        yield
    finally:
        _set(before)


def _set(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    time.tzset()


def _pictures() -> ModuleType:
    """`screenshots/make.py`, which belongs to no package."""
    specification = importlib.util.spec_from_file_location("pictures", _MAKE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules.setdefault("pictures", module)
    specification.loader.exec_module(module)
    return module


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for size in SIZES:
        for look in LOOKS:
            (FOLDER / name_of(size, look)).write_text(screen(size, look), encoding="utf-8")


if __name__ == "__main__":
    main()
