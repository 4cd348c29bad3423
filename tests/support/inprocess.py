"""The engine's command line inside the test process: PyTorch is loaded once, a start costs a tenth of a second."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import NamedTuple

from andrea_engine.cli import run
from andrea_engine.latch import SignalLatch


class Result(NamedTuple):
    """Exit code and what was printed."""

    code: int
    out: str
    err: str


class Bell(SignalLatch):
    """A latch that leaves the handlers of the test process alone; set its fields to ring."""

    def arm(self) -> None:
        """The tests send no signals to themselves."""

    def disarm(self) -> None:
        """Nothing was armed."""


def andrea_engine(*arguments: object, bell: Bell | None = None) -> Result:
    """`andrea-engine ARGUMENTS`."""
    out, err = io.StringIO(), io.StringIO()
    words = [str(argument) for argument in arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _threads_restored(words):
        code = run(words, bell or Bell())
    return Result(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _threads_restored(words: Sequence[str]) -> object:
    if not {"train", "sample"} & set(words[:1]):
        yield
        return
    import torch

    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
