"""Which arms were trained on shortly before a moment, as far as the record tells."""

from __future__ import annotations

from collections import Counter

from andrea_tui.feed.record import NO_SOURCE, Record
from andrea_tui.feed.replay_arms import SHARE_STEPS


class SharesAt:
    """Shares of the `steps` entries up to and including the one at an index: up to `SHARE_STEPS`.

    `shares` is empty where none of them names its arm. The same index is counted once: entries before it never change
    unless some are taken back.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.shares: dict[str, float] = {}
        self._counted: object = None

    def count(self, record: Record, index: int) -> None:
        """Bring the shares to this index."""
        key = (record, record.generation, index)
        if key == self._counted:
            return
        recent = record.sources[max(0, index + 1 - SHARE_STEPS) : index + 1]
        pulls = Counter(recent)
        pulls.pop(NO_SOURCE, None)
        self._counted, self.steps = key, len(recent)
        self.shares = {record.source_names[number]: count / self.steps for number, count in pulls.items()}
