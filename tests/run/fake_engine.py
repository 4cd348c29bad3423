"""Stand-in engine: arms the real latch, holds the real lock, reports, and notes which requests reached it.

    python fake_engine.py RUN [await-go] [no-lock]

`await-go`: wait for a file `go` before arming, as a slow start does. `no-lock`: report without the lock.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from andrea_engine.latch import SignalLatch
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import Heartbeat, write_heartbeat
from andrea_engine.run.io import append_line
from andrea_engine.run.lock import EngineLock
from andrea_engine.run.process import boot_id, start_time


def main() -> int:
    directory, words = RunDirectory(Path(sys.argv[1])), sys.argv[2:]
    seen = directory.path / "seen"
    parent = os.getppid()
    print("words on standard output", flush=True)
    while "await-go" in words and not (directory.path / "go").exists():
        time.sleep(0.005)
    latch = SignalLatch()
    latch.arm()
    lock = None if "no-lock" in words else EngineLock(directory)
    now = time.time()
    write_heartbeat(
        directory.heartbeat,
        Heartbeat(
            pid=os.getpid(),
            process_start=start_time(os.getpid()),
            boot_id=boot_id(),
            host=socket.gethostname(),
            session=1,
            phase="training",
            phase_since=now,
            time=now,
            step=7,
        ),
    )
    while latch.stop_asked is None and os.getppid() == parent:
        if latch.take_save() is not None:
            append_line(seen, b"save")
        time.sleep(0.005)
    if latch.take_save() is not None:
        append_line(seen, b"save")
    append_line(seen, b"stop")
    if lock is not None:
        lock.release()
    return 0


if __name__ == "__main__":
    sys.exit(main())
