"""From what record and journal hold to the one curve of the run."""

from __future__ import annotations

from itertools import islice
from operator import lt

from andrea_engine.run.loss_entry import LossEntry, current_branch
from andrea_tui.feed.update import EntryBatch


class BranchFollower:
    """Keeps a curve equal to the current branch of record and journal, with each entry handed out once.

    What is shown beyond the record's last entry comes from the journal and is provisional: a commit confirms it, and
    a crash takes it back. `stale`: entries that are on no screen any more belong to the branch again, so the record
    has to be read from its start with a new follower.
    """

    def __init__(self) -> None:
        self.recorded: LossEntry | None = None  # the record's last entry
        self.stale = False
        self._beyond: list[LossEntry] = []

    def follow(self, recorded: list[LossEntry], journal: list[LossEntry]) -> list[EntryBatch]:
        """Batches for `recorded`, the new entries of the record, and for `journal`, all that the journal holds now.

        The journal has to be read before the record: a commit between the two then shows an entry twice, and that is
        recognised; the other way round it would hide some.
        """
        before, shown = self.recorded, self._beyond
        if recorded:
            self.recorded = recorded[-1]
        self._beyond = [entry for entry in current_branch(journal) if self._uncommitted(entry)]
        wanted = recorded + self._beyond
        same = _common(shown, wanted)
        rest, taken_back = wanted[same:], shown[same:]
        left = shown[same - 1] if same else before
        drop_from = taken_back[0].step if taken_back else None
        if drop_from is not None and left is not None and drop_from <= left.step:
            self.stale = not rest or rest[0].step > drop_from
        return _batches(rest, left, drop_from)

    def _uncommitted(self, entry: LossEntry) -> bool:
        last = self.recorded
        return last is None or (entry.session or 0, entry.step) > (last.session or 0, last.step)


def _common(one: list[LossEntry], other: list[LossEntry]) -> int:
    """Length of the common beginning."""
    if one == other[: len(one)]:  # the usual case, and fast: mostly the very same objects
        return len(one)
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _batches(entries: list[LossEntry], left: LossEntry | None, drop_from: int | None) -> list[EntryBatch]:
    """Cut where steps go back. `left` is the last entry that stays on the screen."""
    if not entries:
        return [] if drop_from is None else [EntryBatch((), drop_from, left)]
    found: list[EntryBatch] = []
    if left is not None and entries[0].step <= left.step:
        drop_from = entries[0].step if drop_from is None else min(drop_from, entries[0].step)
    steps = [entry.step for entry in entries]
    if all(map(lt, steps, islice(steps, 1, None))):
        return [EntryBatch(tuple(entries), drop_from)]
    run: list[LossEntry] = []
    for entry in entries:
        if run and entry.step <= run[-1].step:
            found.append(EntryBatch(tuple(run), drop_from))
            run, drop_from = [], entry.step
        run.append(entry)
    found.append(EntryBatch(tuple(run), drop_from))
    return found
