"""Texts that try to steer the terminal, as sample, prompt, source and note: none of their controls comes out."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import shutil
from pathlib import Path

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.loss_entry import loads_bounded
from andrea_tui.cli import run as console
from andrea_tui.plotting.raster import Kind
from andrea_tui.widgets.rows import RowsWidget, row_width
from andrea_tui.widgets.sample_panel import SamplePanel
from tests.faults.soak.shared import place, shared
from tests.screens.situations import fill
from tests.support.tiny import make_run
from tests.widgets import stores

_CONTROLS = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))
_MARKS = "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_PIECES = (
    *(
        "\x1b[2J",
        "\x1b[6n",
        "\x1b[?1049l",
        "\x1b]0;",
        "\x1b]52;c;aGk=\x07",
        "\x1b]8;;http://example.org\x1b\\",
        "\x1bc",
    ),
    *(
        "\x1bP$q",
        "\x1b_G",
        "\x9b31m",
        "\x9d0;",
        "\x9c",
        "\x1b[38;5;1m",
        "\x1b(0",
        "\x0e",
        "\x0f",
        "\x05",
        "\r\n",
        "\n\n",
    ),
    *("[/]", "[bold]", "[@click=app.quit]", ":boom:", "[link=x]", "\\[", "%s", "{}", "</b>", "&lt;", "\\u001b[2J"),
    *(
        "가나다",
        "👨\u200d👩\u200d👧",
        "🇩🇪",
        "é",
        "e\u0301\u0301",
        "\u200b",
        "\ufeff",
        "\u2028",
        "\ud800",
        "\udfff",
        "\u3000",
    ),
    *("word ", "sense ", " ", "\t", "a" * 300, "\n" * 50, "\u0301" * 40),
)
_OPTIONS = ("--once", "--json")
_DRAWINGS: tuple[Kind, ...] = ("braille", "block", "ascii")


def hostile(choice: random.Random) -> str:
    """A text of controls, sequences, marks, markup and words."""
    parts = []
    for _ in range(choice.randint(1, 25)):
        kind = choice.randrange(4)
        if kind == 0:
            parts.append(choice.choice(_CONTROLS) * choice.choice((1, 1, 9)))
        elif kind == 1:
            parts.append(choice.choice(_MARKS))
        elif kind == 2:
            parts.append(
                chr(choice.choice((choice.randrange(0x300), choice.randrange(0x11000), choice.randrange(0x110000))))
            )
        else:
            parts.append(choice.choice(_PIECES))
    return "".join(parts)


class _Panel(SamplePanel):
    """The panel without an application around it."""

    drawn: Kind = "braille"

    @property
    def kind(self) -> Kind:
        return self.drawn


@shared
def _template(stack: contextlib.ExitStack) -> Path:
    """A run with samples and arms that names its texts by a word that is easily replaced."""
    directory = make_run(place() / "hostile/run")
    fill(directory, "GARDEN")
    return directory.path


def trial(seed: int, scratch: Path) -> None:
    choice = random.Random(seed)
    text = hostile(choice)
    _drawn(text, choice)
    _printed(text, choice, scratch)


def _drawn(text: str, choice: random.Random) -> None:
    store = stores.full(text)
    panel = _Panel()
    panel.drawn = choice.choice(_DRAWINGS)
    panel.store = store
    panel.back = choice.randrange(3)
    width, height = choice.randint(8, 140), choice.randint(3, 50)
    rows = RowsWidget.lay_out(panel, store, width, height)
    assert len(rows) == height
    for row in rows:
        _harmless("".join(part for part, _ in row), f"a row of the panel for {text!r}")
        assert row_width(row) == width, f"a row of {row_width(row)} cells instead of {width} for {text!r}"


def _printed(text: str, choice: random.Random, scratch: Path) -> None:
    directory = RunDirectory(scratch / "run")
    shutil.copytree(_template(), directory.path)
    for path in (directory.samples, directory.state, directory.loss):
        told = json.dumps(text)[1:-1]
        path.write_text(path.read_text().replace("GARDEN", told))
    with (directory.events).open("a") as file:
        file.write(json.dumps({"time": 1.0, "kind": "notice", "session": 1, "text": text}) + "\n")
    option = choice.choice(_OPTIONS)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = console([str(directory.path), option])
    assert (code, err.getvalue()) == (0, ""), f"{option} ended with {code} and {err.getvalue()!r} for {text!r}"
    _harmless(out.getvalue(), f"{option} for {text!r}")
    if option == "--json":
        assert isinstance(loads_bounded(out.getvalue().encode()), dict)


def _harmless(shown: str, what: str) -> None:
    found = _FORBIDDEN.search(shown)
    assert found is None, f"{found[0]!r} comes out of {what}"
