"""The latch in a process of its own: nothing is lost before it is armed, nothing kills after it is retired."""

from __future__ import annotations

import subprocess
import sys

from andrea_engine.latch import SignalLatch

PREAMBLE = """
import os, signal, sys
from andrea_engine.latch import SignalLatch
latch = SignalLatch()
def ring(number, times=1):
    for _ in range(times):
        os.kill(os.getpid(), number)
"""


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PREAMBLE + code], capture_output=True, text=True, timeout=60, check=False
    )


def _runs(code: str) -> None:
    result = _run(code)
    assert result.returncode == 0, result.stderr


def test_what_was_sent_before_the_arming_waits() -> None:
    _runs("""
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
ring(signal.SIGUSR1, 500)
ring(signal.SIGTERM)
assert not latch.interrupting
latch.arm()
assert latch.save_asked is not None and latch.stop_asked is not None
assert signal.pthread_sigmask(signal.SIG_BLOCK, set()) == set(), "nothing stays blocked"
""")


def test_each_signal_sets_its_flag() -> None:
    _runs("""
latch.arm()
ring(signal.SIGUSR1)
assert latch.save_asked is not None and latch.stop_asked is None
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    latch.stop_asked = None
    ring(number)
    assert latch.stop_asked is not None, number
""")


def test_a_hang_up_that_was_ignored_stays_ignored() -> None:
    _runs("""
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
latch.arm()
ring(signal.SIGHUP)
assert not latch.interrupting
latch.disarm()
ring(signal.SIGHUP)
""")


def test_a_retired_latch_lives_through_everything() -> None:
    _runs("""
latch.arm()
latch.retire()
for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    ring(number)
assert not latch.interrupting
""")


def test_the_short_commands_can_be_ended() -> None:
    assert _run("latch.arm()\nlatch.disarm()\nring(signal.SIGTERM)").returncode == -15
    result = _run(
        "latch.arm()\nlatch.disarm()\ntry:\n    ring(signal.SIGINT)\nexcept KeyboardInterrupt:\n    sys.exit(9)"
    )
    assert result.returncode == 9


def test_a_request_is_taken_once() -> None:
    latch = SignalLatch()
    assert latch.take_save() is None
    latch.save_asked = 5.0
    assert latch.interrupting
    assert latch.take_save() == 5.0
    assert latch.take_save() is None
    assert not latch.interrupting
