"""Terminals and engines that never outlive their test."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal, engines_of

OpenTerminal = Callable[..., Terminal]


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[OpenTerminal]:
    """Makes terminals; at the end they are closed, and engines that consoles started for this test are killed."""
    with contextlib.ExitStack() as stack:

        def make(*arguments: object, **options: object) -> Terminal:
            terminal = Terminal(*arguments, **options)  # type: ignore[arg-type]
            stack.callback(terminal.close)
            return terminal

        yield make
    for path in tmp_path.iterdir():
        for pid in engines_of(path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
