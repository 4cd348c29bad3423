"""The console's parent, where a terminal alone does not show what it does."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from signal import SIGHUP

from tests.run.helpers import killed


def test_a_parent_that_ended_before_it_could_be_watched() -> None:
    """The kernel tells of a death only who asked before it: so the console looks once, and leaves as at a hang-up."""
    code = "import os; from andrea_tui.parent import _end_with; _end_with(os.getppid() + {}); os._exit(3)"
    for off, expected in ((0, 3), (1, 128 + SIGHUP)):
        done = subprocess.run([sys.executable, "-c", code.format(off)], check=False, timeout=60)
        assert done.returncode == expected


def test_a_console_ends_with_a_parent_that_leads_no_session() -> None:
    """As under a shell: then no hang-up of the terminal comes to its help. The pipe closes when the last one ends."""
    code = """
import os, time
from andrea_tui.parent import _end_with
parent = os.getpid()
if os.fork():
    os.wait()
else:
    _end_with(parent)
    os.write(1, b"up\\n")
    time.sleep(30)
"""
    with killed(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        parent.kill()
        assert parent.communicate(timeout=15)[0] == b""


def test_the_parent_waits_for_signals_and_the_console_does_not() -> None:
    code = """
import signal
from andrea_tui.parent import guarded
def console():
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, set())
    print("blocked:", len(blocked))
    return 0
raise SystemExit(guarded(console))
"""
    master, slave = pty.openpty()
    done = subprocess.run([sys.executable, "-c", code], stdin=slave, stdout=slave, check=False, timeout=60)
    os.close(slave)
    with os.fdopen(master, "rb", buffering=0) as terminal:
        assert (done.returncode, terminal.read(100).strip()) == (0, b"blocked: 0")
