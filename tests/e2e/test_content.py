"""What comes out at the terminal, byte by byte: hostile content, plain terminals, no colours."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.conftest import OpenTerminal
from tests.e2e.terminal import Terminal, console
from tests.screens.situations import situation
from tests.widgets.stores import HOSTILE

# Case C19. What the console itself writes never looks like these.
PAYLOADS = [
    b"\x1b]52",
    b"\x1b]0;title",
    b"\x1b]8;",
    b"\x1bc",
    b"\x1b[6n",
    b"\x1bP$q",
    "\x9b31m".encode(),
    "\x9d0;x".encode(),
    b"\x9b31m",
    "\u202e".encode(),
    "\u2066".encode(),
    b"\x0e",
    b"\x00",
    b"\x7f",
    "\x85".encode(),
]
LINK = "\x1b]8;;http://example.org\x1b\\click\x1b]8;;\x1b\\ \x1b]0;unterminated"


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
@pytest.mark.parametrize("name", ["failed", "halted"])
def test_no_byte_of_a_hostile_run_reaches_the_terminal(
    name: str, size: tuple[int, int], tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    with situation(name, tmp_path / "run", HOSTILE + LINK) as directory:
        terminal = open_terminal(directory.path, size=size)
        terminal.until_shown(f" {name}")
        if name == "halted":  # what happened is shown first
            terminal.until_shown("Esc all panels")
            terminal.press("\x1b")
        terminal.until_shown("4 arms")
        terminal.press("3")
        terminal.until(lambda: terminal.text.count("┌─ ") == 1, "the sample is alone")
        terminal.until_shown("[/INST] [/] [/ [bold]x [red on :boom: [@click=app.quit]x[/]")
        _assert_frames(terminal)
        for key in ("5", "5", "4", "4"):
            terminal.press(key)
        terminal.until_shown("4 arms", "3 sample")
        _assert_frames(terminal)
        for key, title in (("q", "nothing to stop"), ("?", "Esc closes")):
            terminal.press(key)
            terminal.until_shown(title)
            terminal.press("\x1b")
            terminal.until(lambda: title not in terminal.text, "it closed")  # noqa: B023
        terminal.press("d")
        assert terminal.wait() == 0
        terminal.assert_sane()
        assert len(terminal.farewell) == 1
        assert [payload for payload in PAYLOADS if payload in terminal.raw] == []
        shapes = re.compile(rb"\x1b\]22;[a-z-]*\x07")  # of the mouse pointer
        assert shapes.sub(b"", bytes(terminal.raw)).count(b"\x07") <= 2, "bells for the alarms, none of the content"


def _assert_frames(terminal: Terminal) -> None:
    terminal.until(lambda: _frames_hold(terminal), "every right border is in the last column")


def _frames_hold(terminal: Terminal) -> bool:
    frames = [line for line in terminal.lines if line.startswith(("┌", "│", "└"))]
    return bool(frames) and all(line[-1] in "┐│┘" for line in frames)


@pytest.mark.parametrize("option", ["--once", "--json"])
@pytest.mark.parametrize("name", ["failed", "halted", "crashed", "recorded", "rubbish"])
def test_printed_facts_of_a_hostile_run(name: str, option: str, tmp_path: Path) -> None:
    with situation(name, tmp_path / "run", HOSTILE + LINK) as directory:
        result = console(directory.path, option)
    assert (result.returncode, result.stderr) == (0, "")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", result.stdout)
    if option == "--json":
        assert json.loads(result.stdout)["state"] in (name, "empty")


def test_ascii_only(tmp_path: Path, open_terminal: OpenTerminal) -> None:
    """Case C24."""
    with situation("stopped", tmp_path / "run", HOSTILE.replace("\ud800", "")) as directory:
        terminal = open_terminal(directory.path, "--ascii", size=(80, 24))
        terminal.until_shown("stopped", "4 arms")
        assert "\n".join(terminal.lines).isascii()
        assert any(line.startswith("+-") for line in terminal.lines)
        terminal.press("d")
        assert terminal.wait() == 0


def test_a_locale_without_utf_8(tmp_path: Path, open_terminal: OpenTerminal) -> None:
    strange = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with situation("stopped", tmp_path / "run", "garden – 가나다") as directory:
        terminal = open_terminal(directory.path, size=(80, 24), environment=strange)
        terminal.until_shown("stopped", "4 arms")
        assert "\n".join(terminal.lines).isascii()
        terminal.press("d")
        assert terminal.wait() == 0
        terminal.assert_sane()
        assert len(terminal.farewell) == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_printed_facts_in_any_encoding(encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    with situation("stopped", tmp_path / "run", "garden – 가나다") as directory:
        for option in ("--once", "--json"):
            result = console(directory.path, option, encoding=encoding)
            assert (result.returncode, result.stderr) == (0, "")
            assert "garden" in result.stdout


def test_states_without_colours(tmp_path: Path, open_terminal: OpenTerminal) -> None:
    """Case C22: a word and a sign tell the state."""
    with situation("crashed", tmp_path / "run") as directory:
        terminal = open_terminal(directory.path, size=(80, 24), environment={"NO_COLOR": "1", "TERM": "xterm"})
        terminal.until_shown("✕ crashed", "4 arms")
        assert any(line.startswith("┌─") for line in terminal.lines)
        colours = re.findall(rb"\x1b\[[0-9;]*[34]8;2;(\d+);(\d+);(\d+)", bytes(terminal.raw))
        assert [rgb for rgb in colours if len(set(rgb)) > 1] == [], "nothing but shades of grey"
        terminal.press("d")
        assert terminal.wait() == 0
