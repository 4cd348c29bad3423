"""When the terminal's bell rings."""

from __future__ import annotations

from andrea_engine.run.condition import Condition


class Bell:
    """Of one run: once for each alarm, each stall, and each crash that was seen to happen."""

    def __init__(self) -> None:
        self._rung_for = ""
        self._was_stuck = self._was_alive = False

    def rings(self, condition: Condition, alarm: str) -> bool:
        """Whether what is known now is a reason that was not there before."""
        word = condition.word
        stuck = word in ("stalled", "suspended")
        crashed = self._was_alive and word in ("crashed", "failed")
        reason = (stuck and not self._was_stuck) or crashed or (bool(alarm) and alarm != self._rung_for)
        self._was_stuck, self._was_alive, self._rung_for = stuck, condition.alive, alarm
        return reason
