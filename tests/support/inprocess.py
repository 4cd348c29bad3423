"""The engine's command line inside the test process: PyTorch is loaded once, a start costs a tenth of a second."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from andrea_engine.cli import run
from andrea_engine.latch import SignalLatch


class Result(NamedTuple):
    """Exit code and what was printed."""

    code: int
    out: str
    err: str


class Bell(SignalLatch):
    """A latch that leaves the handlers of the test process alone; set its fields to ring.

    `stop_when`: the stop is asked for as soon as this turns true.
    """

    def __init__(self, stop_when: Callable[[], object] | None = None) -> None:
        self._stop: float | None = None
        self._stop_when = stop_when
        super().__init__()

    @property
    def stop_asked(self) -> float | None:  # type: ignore[override]
        if self._stop is None and self._stop_when is not None and self._stop_when():
            self._stop = time.time()
        return self._stop

    @stop_asked.setter
    def stop_asked(self, value: float | None) -> None:
        self._stop = value

    def arm(self) -> None:
        """The tests send no signals to themselves."""

    def disarm(self) -> None:
        """Nothing was armed."""

    def retire(self) -> None:
        """The test process goes on."""


def andrea_engine(*arguments: object, bell: Bell | None = None) -> Result:
    """`andrea-engine ARGUMENTS`."""
    out, err = io.StringIO(), io.StringIO()
    words = [str(argument) for argument in arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _threads_restored(words):
        code = run(words, bell or Bell())
    return Result(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _threads_restored(words: Sequence[str]) -> Iterator[None]:
    if not {"train", "sample"} & set(words[:1]):
        yield
        return
    import torch

    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
