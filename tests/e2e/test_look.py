"""How it looks where terminals are plain: no colours, no UTF-8, and every screen once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from andrea_tui.commands import COMMANDS
from tests.e2e.conftest import OpenTerminal
from tests.e2e.terminal import Terminal
from tests.screens.situations import situation

# Screens and dialogs by the key that opens them, with a word that stands on them.
VIEWS = {
    "?": "Esc",
    "e": "step",
    "p": "Esc",
    "q": "Enter",
    "f": "Enter",
    "a": "Enter",
    "b": "step",
    "v": "Esc",
    "m": "loss",
    "\x10": "Search",
}
KNOWN_KEYS = {"question_mark": "?", "ctrl+p": "\x10"}
_SGR = re.compile(rb"\x1b\[([0-9;:]*)m")


def still(terminal: Terminal) -> str:
    """The screen, once nothing was written to it for a while."""
    sizes: list[int] = []

    def unchanged() -> bool:
        sizes.append(len(terminal.raw))
        return len(sizes) > 40 and sizes[-40] == sizes[-1]

    terminal.until(unchanged, "nothing moves any more")
    return terminal.text


def walk(terminal: Terminal) -> None:
    """Every screen that a key of the registry opens, and every panel alone."""
    known = {KNOWN_KEYS.get(key, key) for command in COMMANDS for key in command.keys}
    for key, word in VIEWS.items():
        if key not in known:
            continue
        before = still(terminal)
        terminal.press(key)
        terminal.until(lambda: terminal.text != before, f"{key!r} opens something")  # noqa: B023
        terminal.until_shown(word)
        terminal.press("\x1b")
        terminal.until(lambda: terminal.text == before, f"Esc closes {key!r}")  # noqa: B023
    for key in "1122334455":
        terminal.press(key)


def colours(raw: bytes) -> set[int]:
    """Colours among the attributes that were set (SGR 30-38, 40-48, 90-107)."""
    found: set[int] = set()
    for match in _SGR.finditer(raw):
        numbers = [int(number) for number in re.split(rb"[;:]", match[1]) if number]
        found |= {n for n in numbers if 30 <= n <= 38 or 40 <= n <= 48 or 90 <= n <= 107}
    return found


@pytest.mark.parametrize("name", ["stopped", "halted"])
def test_no_color_means_none(name: str, tmp_path: Path, open_terminal: OpenTerminal) -> None:
    """Bold, dim and reverse are left; states are told by word and sign."""
    with situation(name, tmp_path / "run") as directory:
        terminal = open_terminal(directory.path, environment={"NO_COLOR": "1", "COLORTERM": "truecolor"})
        terminal.until_shown(f" {name}")
        if name == "halted":
            terminal.until_shown("Esc all panels")
            terminal.press("\x1b")
        terminal.until_shown("4 arms")
        walk(terminal)
        terminal.press("d")
        assert terminal.wait() == 0
    assert colours(bytes(terminal.raw)) == set()
    assert _SGR.search(bytes(terminal.raw)), "attributes there are"


def test_what_is_chosen_shows_without_colours(tmp_path: Path, open_terminal: OpenTerminal) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        terminal = open_terminal(directory.path, environment={"NO_COLOR": "1"})
        terminal.until_shown("4 arms", "? help")
        terminal.press("\x10")
        terminal.until_shown("Search")
        terminal.press("screenshot")
        terminal.until_shown("Screenshot")
        terminal.press("\x1b[B")
        terminal.until(lambda: "Screenshot" in terminal.reversed_text, "the choice is reversed")


def test_colours_there_are_otherwise(tmp_path: Path, open_terminal: OpenTerminal) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        terminal = open_terminal(directory.path)
        terminal.until_shown("4 arms")
        terminal.press("d")
        assert terminal.wait() == 0
    assert colours(bytes(terminal.raw)) != set()


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        (("--ascii",), {}),
        ((), {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    ],
    ids=["asked for", "by the locale"],
)
def test_not_one_byte_beyond_ascii(
    options: tuple[str, ...], environment: dict[str, str], tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    with situation("stopped", tmp_path / "run", "garden – 가나다 é 👨‍👩‍👧") as directory:
        terminal = open_terminal(directory.path, *options, environment=environment)
        terminal.until_shown("stopped", "4 arms")
        walk(terminal)
        terminal.press("q")
        terminal.until_shown("Close the console?")
        frame = [line for line in terminal.lines if "Close the console?" in line]
        assert frame[0].count("|") >= 2, "the dialog has a border"
        terminal.press("\x1b")
        terminal.until(lambda: "Close the console?" not in terminal.text, "the dialog closed")
        terminal.press("d")
        assert terminal.wait() == 0
    assert bytes(terminal.raw).isascii()


def test_a_resize_that_ends_where_it_began_draws_everything_again(tmp_path: Path, open_terminal: OpenTerminal) -> None:
    """Whoever drew over it or shrank it in between: after the size has come to rest, every cell is sent again."""
    with situation("stopped", tmp_path / "run") as directory:
        terminal = open_terminal(directory.path, size=(80, 24))
        terminal.until_shown("stopped", "4 arms", "? help")
        whole = terminal.lines
        terminal.resize(79, 24)
        terminal.resize(80, 24)
        terminal.wipe()
        terminal.until(lambda: terminal.lines == whole, "every line is there again")
