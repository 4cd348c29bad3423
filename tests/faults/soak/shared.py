"""What the trials of one process share: made by the first that needs it, ended with the process."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_stack = contextlib.ExitStack()
_made: dict[Callable[[contextlib.ExitStack], object], object] = {}


def shared(make: Callable[[contextlib.ExitStack], T]) -> Callable[[], T]:
    """Decorator: `make` is called once a process, with the stack of what has to be ended."""

    def get() -> T:
        if make not in _made:
            _made[make] = make(_stack)
        return _made[make]  # type: ignore[return-value]

    return get


def close() -> None:
    """End everything that is shared; what is needed again is made again."""
    _made.clear()
    _stack.close()


Finalize(None, close, exitpriority=10)  # also heard at the end of a worker process, unlike atexit


def memory() -> str | None:
    """A folder in memory, for what makes many small files; None: wherever temporary files go."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@shared
def place(stack: contextlib.ExitStack) -> Path:
    """A folder of this process, in memory where possible."""
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-shared-", dir=memory())))
