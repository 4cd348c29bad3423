"""A process that has loaded PyTorch and the engine once, and forks an engine for every order.

    python -m tests.faults.soak.nursery

An order is a line of JSON on standard input: `arguments` of `andrea-engine`, `log` and `acknowledged`, files outside of
the run, and `kill_at`: the number of the operation on a file before which the engine is killed, 0 for never. The
answers are two lines: the engine's process number, and once it has ended its exit code, negative for a signal.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback

from andrea_engine.cli import run
from andrea_engine.coherence.words import english_words
from andrea_engine.latch import LATCH
from andrea_engine.run.events import EventLog
from tests.run.faults import Faults, kill

REQUESTS = {signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_write = os.write  # the real one, whatever the faults put in its place


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, REQUESTS)  # as who starts an engine does; arming it lets them through
    _load()
    answers = os.dup(1)
    while line := sys.stdin.buffer.readline():
        child = os.fork()
        if child == 0:
            _live(json.loads(line), answers)
        _write(answers, b"%d\n" % child)
        _, status = os.waitpid(child, 0)
        _write(answers, b"%d\n" % os.waitstatus_to_exitcode(status))


def _load() -> None:
    for name in ("commands.train", "train.preparation", "train.trainer"):
        importlib.import_module(f"andrea_engine.{name}")
    english_words()


def _live(order: dict[str, object], answers: int) -> None:
    code = 1
    try:
        os.close(answers)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(str(order["log"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        _acknowledge(os.open(str(order["acknowledged"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT))
        arguments, kill_at = order["arguments"], order["kill_at"]
        assert isinstance(arguments, list)
        assert isinstance(kill_at, int)
        LATCH.arm()
        if kill_at:
            with Faults(kill_at, kill):
                code = run(arguments, LATCH)
        else:
            code = run(arguments, LATCH)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _acknowledge(descriptor: int) -> None:
    """From now on every save that is called durable is also told outside of the run: its step and digest."""
    append = EventLog.append

    def told(log: EventLog, kind: str, *, at: float | None = None, **facts: object) -> None:
        append(log, kind, at=at, **facts)
        if kind == "save_durable":
            # A kill can cut it off where a page of the file ends: the line after it begins anew.
            _write(descriptor, f"\n{facts['step']} {facts['sha256']}\n".encode())

    EventLog.append = told  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    main()
