"""The panels beside the chart at the time cursor: what they tell is of that moment, or not told."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from andrea_engine.run.condition import Condition
from andrea_engine.run.loss_entry import make_entry
from andrea_tui.feed.store import Store
from andrea_tui.feed.update import EntryBatch, Update
from andrea_tui.plotting.raster import Kind
from andrea_tui.view import ViewState
from andrea_tui.widgets.arms_panel import ArmsPanel
from andrea_tui.widgets.panel import Panel
from andrea_tui.widgets.power_panel import PowerPanel
from andrea_tui.widgets.rows import row_width
from andrea_tui.widgets.sample_panel import SamplePanel
from tests.widgets.stores import HOSTILE, full
from tests.widgets.test_panels import SIZES, braille, kind, lines, whole
from tests.widgets.test_rows import harmless, text_of

__all__ = ["braille", "kind"]  # fixtures


@pytest.mark.parametrize("make", [PowerPanel, SamplePanel, ArmsPanel])
@pytest.mark.parametrize("name", ["empty", "full", "hostile"])
def test_at_the_cursor_any_size_is_filled_too(make: Callable[..., Panel], name: str, kind: Kind) -> None:
    store = {"empty": Store(), "full": full(), "hostile": full(HOSTILE)}[name]
    for cursor in (1, 250):
        panel = make(view=ViewState(cursor=cursor))
        for width, height in SIZES:
            rows = panel.lay_out(store, width, height)
            assert [row_width(row) for row in rows] == [width] * height, (width, height)
            assert harmless("".join(map(text_of, rows)))


def trained_on(*sources: str | None) -> Store:
    """A store whose arms are b and then a now, and whose steps from 1 on were trained on these."""
    store = Store()
    entries = tuple(make_entry(step=i, loss=3.0, ema=3.0, source=name) for i, name in enumerate(sources, 1))
    now = {"arms": {"a": {"share": 0.1, "weight": 7.77, "held_by": "floor"}, "b": {"share": 0.9}}}
    training = Condition("training", alive=True, sentence="")
    store.apply(Update(time.time(), training, None, batches=(EntryBatch(entries),), snapshot=now))
    return store


@pytest.mark.usefixtures("braille")
@pytest.mark.parametrize("width", [40, 60, 100])
def test_at_the_cursor_the_arms_are_those_of_that_moment(width: int) -> None:
    """What the record does not tell of the past, as the weights, is not shown: those of now are not those of then."""
    store = trained_on(*["gone"] * 100, *["a"] * 400, *["b"] * 600)
    panel = ArmsPanel(ViewState(cursor=500))
    title, _, *rows = lines(panel, store, width, 12)
    assert "at step 500, " in title
    assert width < 60 or "share of the 500 steps before" in title
    assert [row.split()[1] for row in rows[:3]] == ["b", "a", "gone"], "as they stand now, then what is gone"
    assert ["  0 %" in rows[0], "80 %" in rows[1], "20 %" in rows[2]] == [True] * 3
    panel.view.cursor = 1000
    text = whole(panel, store, width, 12)
    assert "100 %" in text.split(" b ")[1]
    for absent in ("gone", "7.77", "floor", "held by", "pulls"):
        assert absent not in text
    panel.view.cursor = 50
    assert "50 steps" in lines(panel, store, width, 12)[0]
    assert "100 %" in whole(panel, store, width, 12).split("gone")[1]
    panel.view.cursor = None
    assert "floor" in whole(panel, store, width, 12)


@pytest.mark.usefixtures("braille")
def test_arms_of_the_past_are_counted_anew_only_for_another_moment_or_record() -> None:
    store = trained_on(*["a"] * 10)
    panel = ArmsPanel(ViewState(cursor=4))
    whole(panel, store)
    first = panel._then.shares
    entry = make_entry(step=11, loss=3.0, ema=3.0, source="b")
    store.apply(Update(time.time(), store.condition, None, batches=(EntryBatch((entry,)),)))
    whole(panel, store)
    assert panel._then.shares is first, "a new step changes nothing before it"
    again = make_entry(step=4, loss=3.0, ema=3.0, source="b")
    store.apply(Update(time.time(), store.condition, None, batches=(EntryBatch((again,), 4),)))
    assert "25 %" in whole(panel, store)
    assert "not tell which" in whole(ArmsPanel(ViewState(cursor=1)), trained_on(None, None))
