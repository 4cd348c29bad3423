"""Consoles that die, or lose their terminal, at any moment: the engine goes on, and the next console takes over."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGHUP, SIGKILL, SIGTERM, Signals

from andrea_engine.run.launch import engine_status
from andrea_engine.run.process import is_alive
from tests.e2e.terminal import Terminal
from tests.faults.soak.shared import place, shared
from tests.support.engines import Engine, Engines, wait_until
from tests.support.tiny import RARELY, make_run

ADOPTION_SECONDS = 3.0
SIZES = ((80, 24), (120, 40))
KEYS = ("", "q", "?", "5", "p", "v", ":")  # what is open when it dies
ALTERNATE_SCREEN = 1049
TARGETS = ("console", "parent", "both")


@shared
def living(stack: contextlib.ExitStack) -> Engine:
    """An engine that trains for ever, launched as the console does it; it saves only when asked."""
    directory = make_run(place() / "living", RARELY)
    engine = stack.enter_context(Engines()).launch(directory)
    engine.wait_step(20)
    return engine


def killed(seed: int, scratch: Path) -> None:
    """SIGKILL, SIGTERM or SIGHUP to the console, to its parent, or to both."""
    choice = random.Random(seed)
    number = choice.choice((SIGKILL, SIGKILL, SIGTERM, SIGHUP))
    target = choice.choice(TARGETS)
    engine, asked = living(), living().saves_asked()
    with _console(choice) as terminal:
        console = terminal.console_pid
        _open(terminal, choice)
        _strike(terminal, number, target)
        code = terminal.wait()
        wait_until(lambda: not is_alive(console), "the end of the console")
        terminal.until_quiet()
        everybody = number == SIGKILL and target == "both"
        alone = number == SIGKILL and target != "console"
        assert code == (-SIGKILL if alone else 128 + number), f"{number.name} to {target} ended it with {code}"
        if not everybody:  # then nobody is left to give the terminal back
            terminal.assert_sane()
    _unharmed(engine, asked)
    _adopted(engine)


def hung_up(seed: int, scratch: Path) -> None:
    """Both sides of the terminal are closed; the hang-up comes as a signal, is ignored, or never comes."""
    choice = random.Random(seed)
    options = choice.choice(({}, {"ignore_hup": True}, {"controlling": False}))
    engine, asked = living(), living().saves_asked()
    with _console(choice, **options) as terminal:
        console = terminal.console_pid
        _open(terminal, choice)
        terminal.hang_up()
        code = terminal.wait()
        assert code == 128 + SIGHUP, f"a hang-up {options} ended the console with {code}"
        wait_until(lambda: not is_alive(console), "the end of the console")
    _unharmed(engine, asked)
    _adopted(engine)


@contextlib.contextmanager
def _console(choice: random.Random, **options: bool) -> Iterator[Terminal]:
    terminal = Terminal(living().directory.path, size=choice.choice(SIZES), **options)  # type: ignore[arg-type]
    try:
        terminal.until(lambda: terminal.modes.get(ALTERNATE_SCREEN), "the console's screen")
        yield terminal
    finally:
        terminal.close()


def _open(terminal: Terminal, choice: random.Random) -> None:
    """Go to a random moment of its life: while it begins, or with something open."""
    if choice.random() < 0.4:
        time.sleep(choice.uniform(0.0, 0.8))
        return
    terminal.until_shown("● training")
    terminal.press(choice.choice(KEYS))
    time.sleep(choice.uniform(0.0, 0.3))


def _strike(terminal: Terminal, number: Signals, target: str) -> None:
    with contextlib.suppress(ProcessLookupError, ValueError):  # the first one took the other with it
        if target == "both" and number == SIGKILL:
            console = terminal.console_pid
            terminal.send(number)
            os.kill(console, number)
        elif target == "both":
            terminal.send_console(number)
            terminal.send(number)
        elif target == "console":
            terminal.send_console(number)
        else:
            terminal.send(number)


def _unharmed(engine: Engine, asked: int) -> None:
    """It trains, and was asked for nothing."""
    engine.goes_on()
    assert engine.saves_asked() == asked, "the engine was asked for a save"


def _adopted(engine: Engine) -> None:
    """The next console finds the engine, is in charge, and may leave again."""
    assert engine_status(engine.directory).alive, "the engine is not found any more"
    started = time.monotonic()
    terminal = Terminal(engine.directory.path)
    try:
        terminal.until_shown("● training")
        seconds = time.monotonic() - started - _queued(terminal.console_pid)
        assert "watching" not in terminal.text, "the dead console is still in charge"
        owner = json.loads(engine.directory.console.read_bytes())
        assert owner["pid"] == terminal.console_pid, "another process is in charge"
        assert seconds <= ADOPTION_SECONDS, f"the next console took {seconds:.1f} s to adopt the engine"
        terminal.press("d")
        assert terminal.wait() == 0
    finally:
        terminal.close()


def _queued(pid: int) -> float:
    """Seconds that a process could have run while others had the processors: what the load of the machine costs it."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except OSError:  # a kernel that does not count it
        return 0.0
