"""An engine as the console's files see it, without training: real record, real commits, real crashes."""

from __future__ import annotations

import json
import math

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.loss_entry import LossEntry, make_entry
from andrea_engine.run.loss_record import LossRecord
from andrea_tui.feed.store import Store


class Writer:
    """Appends and commits through `LossRecord`. Each loss tells its session and step, so no two entries are alike."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self.session = 0
        self.step = 0
        self.durable = [0]  # steps of the checkpoints, oldest first
        self.start()

    def start(self) -> None:
        """A new process resumes from the newest checkpoint."""
        self.session += 1
        self.record = LossRecord(self.directory)
        self.step = self.durable[-1]
        self.record.recover(self.step)

    def append(self) -> None:
        self.step += 1
        self.record.append(entry(self.step, self.session))

    def save(self, *, committed: bool = True) -> None:
        """A checkpoint becomes durable; without `committed` the process dies before the commit."""
        self.record.sync_journal()
        if self.step > self.durable[-1]:
            self.durable.append(self.step)
        if committed:
            self.record.commit(self.step)

    def crash(self, lost_checkpoints: int = 0) -> None:
        """kill -9, and a start that finds the newest `lost_checkpoints` checkpoints unreadable."""
        self.record.close()
        kept = max(1, len(self.durable) - lost_checkpoints)
        del self.durable[kept:]
        self.start()


def entry(step: int, session: int = 1, **fields: object) -> LossEntry:
    known: dict[str, object] = {"loss": 1.0 + session + step / 1000, "ema": 2.0 + session, "session": session}
    return make_entry(step=step, **(known | fields))


def on_disk(directory: RunDirectory) -> dict[int, float | None]:
    """Loss by step of what led to the present weights, read with the standard library."""
    record, journal = directory.loss_record(), directory.journal
    items = json.loads(record.read_text()) if record.exists() else []
    items += [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    branch: dict[int, float | None] = {}
    for item in items:
        step, loss = (item["step"], item["loss"]) if isinstance(item, dict) else item
        branch = {known: value for known, value in branch.items() if known < step} | {step: loss}
    return branch


def assert_shows(store: Store, branch: dict[int, float | None]) -> None:
    """The curve holds exactly these steps, each once, with these losses (None: not finite)."""
    assert len(store.loss) == len(branch)
    for step, loss in branch.items():
        found = store.loss.value_at(step)
        assert found is not None
        assert found[0] == step
        assert found[1] == loss if loss is not None else math.isnan(found[1])
    newest = max(branch, default=None)
    assert (store.last.step if store.last else None) == newest
