"""Child process: reads a loss record to its present end and writes it to standard output as frames of columns.

    python -m andrea_tui.feed.record_process RECORD

It ends without a last word where the record is no file of lines, or is replaced meanwhile: its reader then reads for
itself.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from pathlib import Path
from typing import IO

from andrea_engine.run.loss_reader import LossReader
from andrea_tui.feed.branch import BranchFollower
from andrea_tui.feed.columns import Header, write_frame


def send(path: Path, output: IO[bytes]) -> None:
    """Everything that is complete now. Raises BrokenPipeError when nobody wants it any more."""
    reader = LossReader(path)
    follower = BranchFollower()
    while True:
        before = reader.state
        batches = follower.follow(reader.read(), [])
        if reader.restarted or not reader.lines_format:
            return
        for batch in batches:
            # Whoever goes on behind one of several batches reads them all once more: none is lost.
            state = reader.state if batch is batches[-1] else before
            write_frame(output, Header(state=state, drop_from=batch.drop_from), batch.as_columns())
        if reader.end == before.end:
            write_frame(output, Header(state=reader.state, done=True), None)
            return


if __name__ == "__main__":
    gc.disable()  # entries hold no circles
    with contextlib.suppress(BrokenPipeError):
        send(Path(sys.argv[1]), sys.stdout.buffer)
        sys.stdout.buffer.flush()
