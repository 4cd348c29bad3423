"""Who a process is."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

from andrea_engine.run.process import boot_id, is_alive, lock_holders, process_state, start_time

from .helpers import killed, wait_for


def test_this_process() -> None:
    assert is_alive(os.getpid())
    assert process_state(os.getpid()) == "R"
    assert boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip() != ""
    started = start_time(os.getpid())
    assert started is not None
    assert started / os.sysconf("SC_CLK_TCK") <= float(Path("/proc/uptime").read_text().split()[0]) + 1


def test_a_name_with_brackets_and_blanks_is_no_obstacle() -> None:
    script = "import ctypes, sys; ctypes.CDLL(None).prctl(15, b') R 1 (x'); print('up', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script]
    with killed(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert b") R 1 (x" in Path(f"/proc/{child.pid}/stat").read_bytes()
        wait_for(lambda: process_state(child.pid) == "S", "the child to wait")
        assert start_time(child.pid) is not None


def test_states_of_a_child_until_its_end() -> None:
    with killed(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)) as child:
        child.send_signal(signal.SIGSTOP)
        wait_for(lambda: process_state(child.pid) == "T", "the child to stop")
        assert is_alive(child.pid)
        child.kill()
        wait_for(lambda: process_state(child.pid) == "Z", "the child to end")
        os.kill(child.pid, 0)  # succeeds on a zombie, and means nothing
        assert not is_alive(child.pid)
    assert process_state(child.pid) is None
    assert not is_alive(child.pid)
    assert start_time(child.pid) is None


def test_numbers_that_no_process_has() -> None:
    for pid in (0, -1, 2**31, 2**70):
        assert not is_alive(pid)


def test_holders_of_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert lock_holders(path) == []
    with path.open("w") as file:
        assert lock_holders(path) == []
        fcntl.flock(file, fcntl.LOCK_EX)
        assert lock_holders(path) == [os.getpid()]
        (tmp_path / "other").write_text("")
        assert lock_holders(tmp_path / "other") == []
    assert lock_holders(path) == []
