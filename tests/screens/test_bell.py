"""The terminal's bell rings for what has happened, once, and not for what was so before anybody looked."""

from __future__ import annotations

import pytest

from andrea_engine.run.condition import Condition
from andrea_tui.bell import Bell


def of(word: str, *, alive: bool = True) -> Condition:
    return Condition(word, alive=alive, sentence="")


TRAINING, STALLED, SUSPENDED = of("training"), of("stalled"), of("suspended")
CRASHED, FAILED, STOPPED = of("crashed", alive=False), of("failed", alive=False), of("stopped", alive=False)


@pytest.mark.parametrize(
    ("seen", "rings"),
    [
        ([TRAINING, TRAINING], [False, False]),
        ([STALLED, STALLED], [True, False]),
        ([STALLED, SUSPENDED], [True, False]),
        ([STALLED, TRAINING, STALLED], [True, False, True]),
        ([TRAINING, CRASHED, CRASHED], [False, True, False]),
        ([TRAINING, FAILED], [False, True]),
        ([CRASHED], [False]),
        ([TRAINING, STOPPED, CRASHED], [False, False, False]),
        ([STALLED, CRASHED], [True, True]),
    ],
)
def test_states(seen: list[Condition], rings: list[bool]) -> None:
    bell = Bell()
    assert [bell.rings(condition, "") for condition in seen] == rings


def test_alarms() -> None:
    bell = Bell()
    alarms = ["", "disk full", "disk full", "", "disk full", "loss is NaN", ""]
    assert [bell.rings(TRAINING, alarm) for alarm in alarms] == [False, True, False, False, True, True, False]


def test_two_reasons_at_once_ring_once_and_are_both_known_then() -> None:
    bell = Bell()
    assert bell.rings(STALLED, "disk full")
    assert not bell.rings(STALLED, "disk full")
