"""Consoles come and go in real terminals; the engine does not notice."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGCONT, SIGHUP, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM, Signals

import pytest

from andrea_engine.run.loss_entry import LossEntry
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.process import is_alive
from tests.e2e.conftest import OpenTerminal
from tests.e2e.terminal import Terminal, console
from tests.support import records
from tests.support.engines import Engine, Engines, wait_until
from tests.support.tiny import CHECKPOINT_BYTES, RARELY, make_run

SIZES = [(80, 24), (120, 40)]


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine started as the console does it; it saves only when asked."""
    directory = make_run(tmp_path_factory.mktemp("living") / "run", RARELY)
    with Engines() as factory:
        engine = factory.launch(directory)
        engine.wait_step(60)
        yield engine


@pytest.fixture
def attached(living: Engine, open_terminal: OpenTerminal) -> Terminal:
    """A console that shows the living engine."""
    terminal = open_terminal(living.directory.path)
    terminal.until_shown("● training", "EMA ")
    return terminal


@pytest.mark.parametrize("size", SIZES)
def test_c_saves_and_training_goes_on(size: tuple[int, int], living: Engine, open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(living.directory.path, size=size)
    terminal.until_shown("● training", "c checkpoint")
    before = living.step
    known = len(living.events("save_durable"))
    terminal.press("c")
    durable = living.wait_for(lambda: living.events("save_durable")[known:], "a save")[-1]
    assert durable.step is not None
    assert durable.step > before
    terminal.until_shown(f"saved step {durable.step:,} (")
    assert records.checkpoint(living.directory, durable.step).stat().st_size == CHECKPOINT_BYTES
    assert durable.facts["pinned"] is True
    living.goes_on()
    later = int(terminal.search(r"(?:step )?([\d,]+)(?: of |/)1")[1].replace(",", ""))
    assert later >= before


@pytest.mark.parametrize("size", SIZES)
def test_d_leaves_the_terminal_as_it_was_and_the_engine_training(
    size: tuple[int, int], living: Engine, open_terminal: OpenTerminal
) -> None:
    asked = living.saves_asked()
    terminal = open_terminal(living.directory.path, size=size)
    terminal.until_shown("● training")
    terminal.press("d")
    assert terminal.wait() == 0
    terminal.assert_sane()
    (farewell,) = terminal.farewell
    assert f"the engine goes on (pid {living.pid})" in farewell
    assert f"come back with: andrea-tui {living.directory.path}" in farewell
    assert not living.directory.console.exists()
    living.goes_on()
    assert living.saves_asked() == asked


def test_coming_back_shows_the_history(living: Engine, attached: Terminal, open_terminal: OpenTerminal) -> None:
    attached.press("c")
    step = living.wait_event("save_durable").step
    assert step is not None
    attached.press("d")
    attached.wait()
    again = open_terminal(living.directory.path)
    again.until_shown("● training")
    again.press("5")
    again.until_shown(
        f"engine started, session 1, pid {living.pid}", f"saved step {step:,} (", "asked for by you, pinned"
    )
    again.press("5")
    known = {f"{entry.ema:.3f}" for entry in _entries(living)}
    assert again.search(r"EMA (\d\.\d{3})")[1] in known | {f"{entry.ema:.3f}" for entry in _entries(living)}
    shown = int(again.search(r"(?:step )?([\d,]+)(?: of |/)1")[1].replace(",", ""))
    assert step <= shown <= living.step


def _entries(engine: Engine) -> list[LossEntry]:
    directory = engine.directory
    return [e for path in (directory.loss, directory.journal) for e in LossReader(path).read_all() if e.ema is not None]


def test_killing_the_console_leaves_the_engine_training(
    living: Engine, attached: Terminal, open_terminal: OpenTerminal
) -> None:
    asked = living.saves_asked()
    attached.send_console(SIGKILL)
    assert attached.wait() == 128 + SIGKILL
    attached.assert_sane()
    assert attached.farewell == ["andrea-tui: the console was killed by SIGKILL; the engine was not touched"]
    living.goes_on()
    assert living.saves_asked() == asked
    again = open_terminal(living.directory.path)
    again.until_shown("● training")
    assert "watching" not in again.text, "a dead console is not in charge"


def test_a_console_whose_parent_is_killed_leaves_and_tidies_up(living: Engine, attached: Terminal) -> None:
    console = attached.console_pid
    attached.send(SIGKILL)
    assert attached.wait() == -SIGKILL
    living.wait_for(lambda: not is_alive(console), "the console left")
    attached.until_quiet()
    attached.assert_sane()
    living.goes_on()


@pytest.mark.parametrize("to_the_console_itself", [False, True])
@pytest.mark.parametrize("number", [SIGTERM, SIGHUP, SIGQUIT])
def test_a_signal_ends_the_console_cleanly(
    number: Signals, to_the_console_itself: bool, living: Engine, attached: Terminal
) -> None:
    asked = living.saves_asked()
    (attached.send_console if to_the_console_itself else attached.send)(number)
    assert attached.wait() == 128 + number
    attached.assert_sane()
    assert len(attached.farewell) == 1
    living.goes_on()
    assert living.saves_asked() == asked


@pytest.mark.parametrize("number", [SIGTERM, SIGHUP])
def test_a_signal_while_the_screen_is_being_opened(
    number: Signals, living: Engine, open_terminal: OpenTerminal
) -> None:
    """The console's handlers stand only after Textual has changed the terminal; its parent cannot help, it is gone."""
    terminal = open_terminal(living.directory.path)
    terminal.until(lambda: terminal.modes.get(1049), "the console's screen")
    pid = terminal.console_pid
    terminal.send_console(number)
    terminal.send(SIGKILL)
    assert terminal.wait() == -SIGKILL
    wait_until(lambda: not is_alive(pid), "the end of the console")
    terminal.until_quiet()
    terminal.assert_sane()
    living.goes_on()


@pytest.mark.parametrize(
    "options", [{}, {"ignore_hup": True}, {"controlling": False}], ids=["hang-up", "ignored hang-up", "no hang-up"]
)
def test_a_lost_terminal_ends_the_console_and_not_the_engine(
    options: dict[str, bool], living: Engine, open_terminal: OpenTerminal
) -> None:
    """Case C17."""
    terminal = open_terminal(living.directory.path, **options)
    terminal.until_shown("● training")
    terminal.hang_up()
    assert terminal.wait(20) == 128 + SIGHUP
    living.goes_on()


def test_q_twice_does_nothing_and_esc_goes_back(living: Engine, attached: Terminal) -> None:
    asked = living.saves_asked()
    attached.press("q")
    attached.until_shown("Stop this run?", "Enter", "checkpoint after this step")
    attached.press("q")
    attached.press("q")
    living.goes_on()
    assert "Stop this run?" in attached.text
    attached.press("\x1b")
    attached.until(lambda: "Stop this run?" not in attached.text, "the dialog closed")
    living.goes_on()
    assert living.saves_asked() == asked
    attached.press("\x11")  # ctrl+q
    assert attached.wait() == 0
    attached.assert_sane()
    living.goes_on()
    assert living.saves_asked() == asked


def test_a_storm_of_sizes(living: Engine, attached: Terminal) -> None:
    for columns, rows in [(1, 1), (2, 3), (5, 60), (300, 1), (60, 20), (500, 100), (20, 5), (80, 24)] * 2:
        attached.resize(columns, rows)
    attached.until_shown("● training", "? help", "4 arms")
    lines = attached.lines
    assert len(lines) == 24
    panel = [line for line in lines if line.startswith(("┌", "│", "└"))]
    assert len(panel) > 10
    attached.until(
        lambda: all(line[-1] in "┐│┘" for line in attached.lines if line.startswith(("┌", "│", "└"))),
        "the right border is in the last column",
    )
    living.goes_on()


def test_a_suspended_console_does_not_hold_the_engine(living: Engine, attached: Terminal) -> None:
    attached.send_console(SIGSTOP)
    living.wait_step(living.step + 30)
    attached.send_console(SIGCONT)
    step = living.step
    attached.until(lambda: _shown_step(attached) >= step, "the console caught up")


def _shown_step(terminal: Terminal) -> int:
    found = re.search(r"(?:step )?([\d,]+)(?: of |/)1", terminal.text)
    return int(found[1].replace(",", "")) if found else -1


def test_the_second_console_watches_until_it_takes_over(
    living: Engine, attached: Terminal, open_terminal: OpenTerminal
) -> None:
    second = open_terminal(living.directory.path, size=(80, 24))
    second.until_shown("watching", "t take over")
    asked = living.saves_asked()
    second.press("c")
    second.until_shown("c: not now", str(attached.console_pid))
    living.goes_on()
    assert living.saves_asked() == asked
    second.press("t")
    second.until(lambda: "watching" not in second.text, "the second is in charge")
    attached.until_shown("watching")
    second.press("c")
    living.wait_for(lambda: living.saves_asked() > asked, "the second one's request")


def test_watch_sends_nothing(living: Engine, open_terminal: OpenTerminal) -> None:
    asked, owner = living.saves_asked(), _owner(living)
    terminal = open_terminal(living.directory.path, "--watch")
    terminal.until_shown("watching", "● training")
    terminal.press("c")
    terminal.until_shown("(--watch)")
    terminal.press("q")
    living.goes_on()
    assert living.saves_asked() == asked
    terminal.press("d")
    assert terminal.wait() == 0
    assert _owner(living) == owner


def _owner(engine: Engine) -> bytes | None:
    path = engine.directory.console
    return path.read_bytes() if path.exists() else None


def test_once_and_json_on_a_running_run(living: Engine) -> None:
    before = living.step
    text = console(living.directory.path, "--once")
    assert (text.returncode, text.stderr) == (0, "")
    assert "state       training" in text.stdout
    found = console(living.directory.path, "--json")
    facts = json.loads(found.stdout)
    assert (found.returncode, facts["alive"], facts["pid"]) == (0, True, living.pid)
    assert before <= facts["step"] <= living.step
    assert facts["entries"] >= before
    assert facts["time"] <= time.time()


def test_nothing_of_the_engine_hangs_on_a_terminal(living: Engine) -> None:
    """Its own session, no terminal, output to the log."""
    assert os.getsid(living.pid) == living.pid
    fields = Path(f"/proc/{living.pid}/stat").read_text().rpartition(")")[2].split()
    assert fields[4] == "0", "no controlling terminal"
    targets = {os.readlink(f"/proc/{living.pid}/fd/{number}") for number in (0, 1, 2)}
    assert targets == {"/dev/null", str(living.directory.log)}
