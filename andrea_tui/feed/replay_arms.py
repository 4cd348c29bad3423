"""What the record alone tells of the arms: how often each was pulled under the present policy."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter

from andrea_tui.feed.update import EntryBatch

SHARE_STEPS = 500  # of which an arm's share is taken
MOST_ARMS = 1000  # names; steps of further arms count for none
_NONE = 0xFFFF


class PulledArms:
    """Counts pulls as entries come and are taken back. 18 bytes an entry."""

    def __init__(self) -> None:
        self._steps: array[int] = array("q")
        self._policies: array[int] = array("q")
        self._ids: array[int] = array("H")
        self._names: list[str] = []
        self._known: dict[str | None, int] = {}
        self._pulls: Counter[int] = Counter()

    def take(self, batch: EntryBatch) -> None:
        """A batch of the loss record."""
        if batch.drop_from is not None:
            keep = bisect_left(self._steps, batch.drop_from)
            for column in (self._steps, self._policies, self._ids):
                del column[keep:]
            self._count_anew()
        for entry in batch.entries:
            policy = entry.policy or 0
            pivoted = bool(self._policies) and self._policies[-1] != policy
            self._steps.append(entry.step)
            self._policies.append(policy)
            self._ids.append(self._id(entry.source))
            if pivoted:
                self._count_anew()
            else:
                self._pulls[self._ids[-1]] += 1

    def _id(self, name: str | None) -> int:
        if name in self._known:
            return self._known[name]
        if name is None or len(self._names) == MOST_ARMS:
            return _NONE
        self._known[name] = len(self._names)
        self._names.append(name)
        return self._known[name]

    def _count_anew(self) -> None:
        """From the last step back to where its policy began."""
        first = len(self._policies)
        while first and self._policies[first - 1] == self._policies[-1]:
            first -= 1
        self._pulls = Counter(self._ids[first:])

    def snapshot(self) -> dict[str, object]:
        """As a state file has it: `pulls`, and `share` of the last steps. Everything else about an arm is unknown."""
        steps = min(SHARE_STEPS, self._pulls.total())
        recent = Counter(self._ids[len(self._ids) - steps :])
        arms = {
            self._names[number]: {"pulls": pulls, "share": recent[number] / steps}
            for number, pulls in self._pulls.items()
            if number != _NONE
        }
        return {"arms": arms}
