"""After a pivot: what is awaited, and how the samples from before it are reached."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from andrea_engine.run.samples import StoredScores
from andrea_tui.view import ViewState
from andrea_tui.widgets.sample_compare import SampleCompare, compare
from andrea_tui.widgets.sample_panel import SamplePanel
from tests.feed.test_past_samples import STOPPED, made, store_of
from tests.widgets.test_panels import braille, lines, whole

__all__ = ["braille"]  # a fixture

pytestmark = pytest.mark.usefixtures("braille")
BEFORE = made(100, 200)


def test_right_after_a_pivot_the_panel_names_what_is_awaited() -> None:
    text = whole(SamplePanel(), store_of(260, [], BEFORE, "pivot"))
    assert "the next sample comes at step 300; none since the pivot at step 250" in text
    assert "of 100" not in text, "the newest sample is not one of this policy"
    assert "[ older  newer ]" in text
    stopped = store_of(260, [], BEFORE, "pivot", condition=STOPPED)
    assert "comes at step 300, when the engine runs; none" in whole(SamplePanel(), stopped)


def test_the_way_back_leads_behind_the_pivot() -> None:
    panel, store = SamplePanel(), store_of(260, [], BEFORE, "pivot")
    panel.store = store
    for steps, words in ((1, "step 200"), (1, "step 100"), (5, "step 100"), (-1, "step 200"), (-1, "the next sample")):
        panel.walk(steps)
        assert words in whole(panel, store), (steps, words)
        assert ("before the pivot" in whole(panel, store)) is (words != "the next sample")
    panel.store = store = store_of(320, made(300), BEFORE, "pivot", "sample")
    assert "step 300" in whole(panel, store)
    panel.walk(1)
    assert "step 200, before the pivot" in whole(panel, store)
    panel.walk(1)
    panel.walk(-9)
    assert "step 300  gate" in whole(panel, store)


def test_the_time_cursor_finds_them() -> None:
    view = ViewState(cursor=236)
    panel, store = SamplePanel(view), store_of(260, [], BEFORE, "pivot")
    panel.store = store
    assert "step 200, at the cursor" in whole(panel, store)
    panel.walk(1)
    assert view.cursor == 100
    panel.walk(-1)
    assert view.cursor == 200
    view.cursor = 99
    assert "no sample is kept from step 99 or before" in whole(panel, store)


@pytest.mark.parametrize("width", [20, 28, 30, 40])
def test_no_word_of_a_message_is_cut_where_there_is_room_below(width: int) -> None:
    said = "the next sample comes at step 300; none since the pivot at step 250"
    rows = lines(SamplePanel(), store_of(260, [], BEFORE, "pivot"), width, 9)[1:-1]
    assert " ".join(" ".join(row.strip("│ ") for row in rows).split()) == said
    short = lines(SamplePanel(), store_of(260, [], BEFORE, "pivot"), width, 3)
    assert short[1].rstrip("│ ").endswith("…")
    assert {cell_len(row) for row in short} == {width}


def test_the_screen_of_samples_does_not_contradict_itself() -> None:
    text = whole(SampleCompare(), store_of(260, [], BEFORE, "pivot"), 120, 30)
    assert "samples none since the pivot at step 250" in text
    assert "the next sample comes at step 300" in text
    for absent in ("the newest sample is good", "no samples yet", "newest", "○"):
        assert absent not in text
    assert "before the pivot  36.0 of 100  step 200" in text
    text = whole(SampleCompare(), store_of(320, made(300), BEFORE, "pivot", "sample"), 120, 30)
    assert "gate 2 of 5 low in a row" in text
    assert "before  36.0 of 100  step 200" in text
    assert "newest  36.0 of 100  step 300" in text
    assert text.count("○") == 1, "the gate counts those of the present policy"
    assert "samples none yet" in whole(SampleCompare(), store_of(0, [], []), 120, 30)


def test_the_last_good_sample_may_be_one_from_before_the_pivot() -> None:
    low = replace(made(300)[0], scores=StoredScores(1, 1, 1, 1, 4.0))
    found = compare((low,), 30.0, tuple(BEFORE))
    assert (found.left, found.right, found.left_title) == (BEFORE[1], low, "last good")
    found = compare((), 30.0, (*BEFORE, low))
    assert (found.left, found.right, found.right_title) == (BEFORE[1], low, "first bad")
