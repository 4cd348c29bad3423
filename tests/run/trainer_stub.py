"""A process to be killed: trains nothing, but saves and records as an engine does.

    python trainer_stub.py RUN SESSION

Every seventh step is a checkpoint; its step is written to standard output once it is durable.
"""

from __future__ import annotations

import array
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from andrea_engine.run.checkpoint import choose_checkpoint, write_checkpoint
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.loss_entry import make_entry
from andrea_engine.run.loss_record import LossRecord

COUNT = 20_000


def main() -> None:
    run, session = RunDirectory(Path(sys.argv[1])), int(sys.argv[2])
    chosen = choose_checkpoint(run.path, COUNT, {}, lambda path: None)
    step = chosen.file.step if chosen else 0
    record = LossRecord(run)
    record.recover(step)
    while True:
        step += 1
        record.append(make_entry(step=step, loss=1.0 / step, source="x" * 300, session=session))
        if step % 7 == 0:
            record.sync_journal()
            write_checkpoint(run.path, step, [array.array("f", [step]).tobytes() * COUNT] * 3)
            (run.path / f"step_{step - 21:06d}.bin").unlink(missing_ok=True)
            record.commit(step)
            print(step, flush=True)


if __name__ == "__main__":
    main()
