"""One of several processes that want the lock: answers each line on standard input with one line.

go: try to take the lock    fork: leave a child behind    release: give it back
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.lock import EngineLock


def main() -> None:
    directory, lock = RunDirectory(Path(sys.argv[1])), None
    print("up", flush=True)
    for line in sys.stdin:
        word = line.strip()
        if word == "go":
            try:
                lock = EngineLock(directory)
                print("won", flush=True)
            except RunError as error:
                print(f"{int(error.exit_code)} {error}", flush=True)
        elif word == "release" and lock is not None:
            lock.release()
            print("released", flush=True)
        elif word == "fork" and os.fork() == 0:
            print(os.getpid(), flush=True)
            signal.pause()


if __name__ == "__main__":
    main()
