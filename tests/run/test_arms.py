"""Rows of the arms table from snapshots of any quality."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_engine.run.arms import arm_rows, focus_text

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["pulls", "share", "ema", "weight", "available", "zombie", "reason", "held_by", "cap", "in_focus"]


def test_a_row() -> None:
    snapshot = {
        "arms": {
            "wiki": {"pulls": 7, "share": 0.4, "held_by": "cap", "cap": 0.5, "in_focus": True, "weight": 0.5},
            "gone": {"available": False, "zombie": True, "reason": "no source", "stored_weight": 1.546, "share": 0.9},
            "chat": {"pulls": 10, "share": 0.6, "ema": float("nan"), "weight": True},
        }
    }
    rows = arm_rows(snapshot)
    assert [row.name for row in rows] == ["chat", "wiki", "gone"]
    chat, wiki, gone = rows
    assert (wiki.pulls, wiki.share, wiki.cap, wiki.held_by, wiki.in_focus) == (7, 0.4, 0.5, "cap", True)
    assert (chat.ema, chat.weight, chat.floor, chat.available) == (None, None, None, True)
    assert (gone.available, gone.zombie, gone.reason, gone.stored_weight) == (False, True, "no source", 1.546)


@pytest.mark.parametrize("snapshot", [None, 7, [], {}, {"arms": []}, {"arms": {"a": 7}}])
def test_no_rows(snapshot: object) -> None:
    assert arm_rows(snapshot) == []
    assert focus_text(snapshot, 5) == ""


@given(
    st.dictionaries(st.text(max_size=5), st.dictionaries(st.sampled_from(FIELDS), json_values) | json_values),
    json_values,
)
def test_no_content_raises(arms: dict[str, object], focus: object) -> None:
    snapshot = {"arms": arms, "focus": focus}
    for row in arm_rows(snapshot):
        assert row.share is None or math.isfinite(row.share)
    focus_text(snapshot, 5)


def test_the_focus_in_words() -> None:
    arms = {name: {"pulls": 1} for name in "abcde"} | {"z": {"available": False}}
    assert focus_text({"arms": arms, "focus": {"arms": ["a", "b"], "until": 30}}, 7) == "focus 2 of 5, 23 steps left"
    assert focus_text({"arms": arms, "focus": {"arms": ["a"], "until": 3}}, 7) == "focus 1 of 5, 0 steps left"
    assert focus_text({"arms": arms, "focus": {"arms": ["a"]}}, 7) == "focus 1 of 5"
