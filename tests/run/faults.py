"""Stop a process at its n-th operation on files: by an error, as if it were dead, or dead indeed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import TracebackType
from typing import Any

VISIBLE = ("open", "write", "pwrite", "ftruncate", "rename", "replace", "mkdir", "unlink")
EVERY = (*VISIBLE, "fsync", "posix_fallocate")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Death(BaseException):
    """The process is dead from here on: nothing it tries has an effect any more."""


def fail() -> None:
    raise OSError(5, "Input/output error")


def die() -> None:
    raise Death


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Faults:
    """While active, counts the operations `names` that change files and calls `act` before number `stop_at`.

    Operations of EVERY that are not counted have no effect on what others see, and are left out.
    """

    def __init__(self, stop_at: int = 0, act: Callable[[], None] = die, names: tuple[str, ...] = EVERY) -> None:
        self.count = 0
        self._stop_at = stop_at
        self._act = act
        self._names = names
        self._dead = False
        self._real = {name: getattr(os, name) for name in EVERY}

    def __enter__(self) -> Faults:
        for name, real in self._real.items():
            setattr(os, name, self._counted(name, real) if name in self._names else _without_effect)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            if name == "open" and not arguments[1] & _WRITING:
                return real(*arguments, **keywords)
            if self._dead:
                raise Death
            self.count += 1
            if self.count == self._stop_at:
                self._dead = self._act is die
                self._act()
            return real(*arguments, **keywords)

        return call


def _without_effect(*arguments: object) -> None:
    """Not counted: a process that ends before it or after it leaves the same behind."""
