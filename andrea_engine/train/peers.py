"""Who else trains this run, and do they still live? A broken connection becomes a sentence that names who has gone.

gloo fails as soon as a connection breaks. NCCL may wait for ever for a process that has died, with the host inside of
CUDA: so a thread looks after the others of this machine, too, and ends a process that waits in vain.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence

from andrea_engine.run.errors import ExitCode, RunError
from andrea_engine.run.process import is_alive

GONE_SECONDS = 3.0  # a process that is killed first closes its connections, and is gone a little later
LOST_SECONDS = 10.0  # from the end of another process to the end of this one, where no connection has told it
LOOK_SECONDS = 1.0


def identity() -> tuple[int, int]:
    """Number of this process, and of its machine."""
    return os.getpid(), zlib.crc32(socket.gethostname().encode())


class Peers:
    """`members`: the identity of each rank; `rank` is this one's. `on_lost`, called by the thread with a sentence, has
    to end the process."""

    def __init__(self, members: Sequence[tuple[int, int]], rank: int) -> None:
        self._here = [
            (number, pid)
            for number, (pid, host) in enumerate(members)
            if number != rank and host == members[rank][1]  # those of other machines are looked after there
        ]
        self.on_lost: Callable[[str], None] = _end
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peers", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """From now on they may end."""
        self._done.set()

    @contextlib.contextmanager
    def expected(self) -> Iterator[None]:
        """Around what all do together: RunError says who has gone instead of how the connection broke."""
        try:
            yield
        except RunError:
            raise
        except RuntimeError as error:
            self.stop()  # this process ends by itself, and may have to save before
            deadline = time.monotonic() + GONE_SECONDS
            while not (gone := self._gone()) and time.monotonic() < deadline:
                time.sleep(0.02)
            first_line = (str(error).splitlines() or [""])[0]
            raise RunError(_sentence(gone, f"a process of this run cannot be reached ({first_line})")) from error

    def _gone(self) -> list[str]:
        return [f"rank {number} (process {pid})" for number, pid in self._here if not is_alive(pid)]

    def _watch(self) -> None:
        since: float | None = None
        while not self._done.wait(LOOK_SECONDS):
            now = time.monotonic()
            gone = self._gone()
            since = (now if since is None else since) if gone else None
            if since is not None and now - since >= LOST_SECONDS:
                self.on_lost(_sentence(gone, ""))
                return


def _sentence(gone: list[str], otherwise: str) -> str:
    who = f"{' and '.join(gone)} {'has' if len(gone) == 1 else 'have'} ended" if gone else otherwise
    return f"{who}; start the run again, it goes on from its last checkpoint"


def _end(sentence: str) -> None:
    print(f"andrea-engine: {sentence}", file=sys.stderr, flush=True)
    os._exit(int(ExitCode.FAILED))  # the main thread may be inside of CUDA, where no exception reaches it
