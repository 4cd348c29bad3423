"""A long loss record is read by a process of its own, on a core of its own, while the console opens its screen.

Parsing two million entries takes several seconds of one Python interpreter, and the one that draws has better things to
do. What comes over the pipe are columns, which are only appended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import subprocess
import threading
from pathlib import Path
from typing import IO

from andrea_engine.run.loss_reader import ReaderState
from andrea_engine.run.module_command import module_command
from andrea_tui.feed.columns import Columns, Header, read_frame

WORTHWHILE = 4 << 20  # bytes of a record: a shorter one is read before the process has started
LATER = 10  # steps of priority below the console
FRAMES_AHEAD = 16  # of about a megabyte each, that wait for the console
_PIPE_BYTES = 1 << 20
FIRST_PATIENCE = 2.0  # seconds that `take` waits for the first frame: an interpreter has to start
PATIENCE = 0.2  # and for each later one

Frame = tuple[Header, Columns | None]


class ReadAhead:
    """The frames of one record, in order. `ended`: there are no more; `state`: of the reader behind the last one taken.

    Where the process ends early, what has come so far is good, and the rest is to be read in another way.
    """

    def __init__(self, record: Path) -> None:
        """Raises OSError when the process cannot be started."""
        self.ended = False
        self.state: ReaderState | None = None
        self._stopped = False
        command = module_command("andrea_tui.feed.record_process", record)
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=-1
        )
        with contextlib.suppress(OSError):  # where there is no core for both, the screen opens first
            os.setpriority(os.PRIO_PROCESS, self._process.pid, os.getpriority(os.PRIO_PROCESS, 0) + LATER)
        self._frames: queue.Queue[Frame | None] = queue.Queue(FRAMES_AHEAD)
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    @classmethod
    def of(cls, record: Path) -> ReadAhead | None:
        """For a record that is long enough; None where it is not, or where there can be no process."""
        try:
            return cls(record) if record.stat().st_size >= WORTHWHILE else None
        except OSError:
            return None

    def _read(self, output: IO[bytes]) -> None:
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):  # the system may allow less
                fcntl.fcntl(output.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        with output:
            while not self._stopped:
                try:
                    frame = read_frame(output)
                except (ValueError, MemoryError):  # not what our process writes: the rest is read in another way
                    frame = None
                self._frames.put(frame)
                if frame is None or frame[0].done:
                    break
        self._process.wait()

    def take(self) -> tuple[Header, Columns] | None:
        """The next frame that holds entries, after a short wait; None when none has come, or none will."""
        try:
            frame = self._frames.get(timeout=FIRST_PATIENCE if self.state is None else PATIENCE)
        except queue.Empty:
            return None
        if frame is None:
            self.ended = True
            return None
        header, columns = frame
        self.ended, self.state = header.done, header.state
        return None if columns is None else (header, columns)

    def stop(self) -> None:
        """Nobody wants the rest."""
        self._stopped = True
        self._process.kill()
        with contextlib.suppress(queue.Empty):  # the thread may be waiting for room
            while True:
                self._frames.get_nowait()
        self._reader.join(timeout=1.0)
