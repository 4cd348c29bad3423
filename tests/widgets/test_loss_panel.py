"""The chart at work: what is on which cell, by arithmetic, and every key in front of any data."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import pytest

from andrea_engine.run.condition import Condition
from andrea_engine.run.config import parse_config
from andrea_engine.run.events import Event
from andrea_engine.run.loss_entry import LossEntry, make_entry
from andrea_tui.commands import COMMANDS
from andrea_tui.feed.store import Store
from andrea_tui.feed.update import EntryBatch, OtherUpdate, Update
from andrea_tui.plotting.chart import layout
from andrea_tui.plotting.raster import Kind, dots_per_cell
from andrea_tui.view import SMOOTHINGS, ViewState, Window
from andrea_tui.widgets.loss.frame import steady_width
from andrea_tui.widgets.loss.keys import ChartKeys
from andrea_tui.widgets.loss.series import offers
from andrea_tui.widgets.loss_panel import LossPanel
from andrea_tui.widgets.rows import Row, RowsWidget, row_width
from tests.widgets.test_rows import harmless, text_of

KINDS: list[Kind] = ["braille", "block", "ascii"]
TRAINING = Condition("training", alive=True, sentence="")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    chosen: Kind = request.param
    monkeypatch.setattr(RowsWidget, "kind", property(lambda self: chosen))
    return chosen


@pytest.fixture
def braille(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowsWidget, "kind", property(lambda self: "braille"))


def store_of(losses: list[float], *, first: int = 1, **facts: object) -> Store:
    store = Store()
    grow(store, losses, first, **facts)
    return store


def grow(store: Store, losses: list[float], first: int, **facts: object) -> None:
    known: dict[str, object] = {"seconds": 2.0, "lr": 3e-4, "grad_norm": 0.5, "source": "chat", "ema": 3.0}
    entries = tuple(make_entry(step=s, loss=y, **known | facts) for s, y in enumerate(losses, first))
    take(store, entries)


def take(store: Store, entries: tuple[LossEntry, ...] = (), events: tuple[Event, ...] = (), **more: object) -> None:
    config = parse_config('preset = "demo"', "run.toml")
    batches = (EntryBatch(entries),) if entries else ()
    store.apply(Update(time.time(), TRAINING, None, batches=batches, events=events, config=config, **more))  # type: ignore[arg-type]


def draw(panel: LossPanel, store: Store, width: int = 80, height: int = 20) -> list[Row]:
    panel.store = store
    return panel.lay_out(store, width, height)


def lines(panel: LossPanel, store: Store, width: int = 80, height: int = 20) -> list[str]:
    return [text_of(row) for row in draw(panel, store, width, height)]


def styled(rows: list[Row]) -> list[list[tuple[str, str]]]:
    """Each cell with its meaning."""
    return [[(char, meaning) for text, meaning in row for char in text] for row in rows]


def column_of(step: float, first: float, last: float, width: int, kind: Kind) -> int:
    """Column of the panel that a step of the whole view belongs to."""
    plot = layout(width - 4, 18)
    dots = dots_per_cell(kind)[0]
    dot = steady_width((last - first) / (plot.width * dots))
    start = math.floor(first / dot) * dot
    return 2 + plot.left + int((step - start) / (dot * dots))


@cache
def _long() -> Store:
    losses = [5.0 - i / 100_000 + (i % 10) / 100 for i in range(200_000)]
    losses[123_455] = 50.0
    losses[149_999:150_010] = [math.nan] * 11
    return store_of(losses)


def test_a_spike_of_one_step_and_a_run_of_nan_among_200_000_at_80_columns(kind: Kind) -> None:
    store, panel = _long(), LossPanel()
    cells = styled(draw(panel, store, 80, 20))
    spike, bad = (column_of(step, 1, 200_000, 80, kind) for step in (123_456, 150_000))
    reached = [row[spike][1] in ("band", "line", "clip") for row in cells[1:10]]
    assert all(reached), "a bar from the curve to the upper edge"
    beside = [row[spike - 1][1] == "band" for row in cells[1:8]]
    assert not any(beside), "and nowhere else"
    assert cells[1][bad] == ("x" if kind == "ascii" else "×", "nan")
    text = "\n".join(lines(panel, store, 80, 20))
    assert "50.0 at 123,456" in text
    assert "11 not finite" in text
    assert cells[1][column_of(100_000, 1, 200_000, 80, kind)][1] != "nan"


def test_step_1_is_in_the_default_view_however_long_the_record(kind: Kind) -> None:
    store, panel = Store(), LossPanel()
    for start in (0, 3, 100, 5000, 20_000):
        grow(store, [9.0 if s == 1 else 3.0 for s in range(len(store.loss) + 1, start + 2)], len(store.loss) + 1)
        rows = styled(draw(panel, store, 80, 20))
        frame = panel.frame
        assert frame is not None
        assert frame.lo <= 1 <= len(store.loss) <= frame.hi
        plot = layout(76, 18)
        assert any(row[2 + plot.left][1] in ("line", "band", "clip") for row in rows[1:17])


def test_finished_columns_stand_still_in_the_default_and_in_the_following_view(kind: Kind) -> None:
    def value(i: int) -> float:
        return 4.0 + math.sin(i * 0.7) + (i * 7919 % 13) / 13

    for window in (None, Window("step", 4000, 5000, follows=True)):
        store = store_of([value(i) for i in range(1, 5001)])
        panel = LossPanel(ViewState(window=window, smoothing="0.9"))
        before = [line[9:] for line in lines(panel, store, 80, 20)[1:17]]
        was = panel.frame
        grow(store, [value(i) for i in range(5001, 5041)], 5001)
        after = [line[9:] for line in lines(panel, store, 80, 20)[1:17]]
        assert was is not None
        assert panel.frame is not None
        moved = round((panel.frame.lo - was.lo) / was.cell)
        assert panel.frame.cell == was.cell
        assert panel.frame.lo == was.lo + moved * was.cell
        assert (moved > 0) == (window is not None)
        done = int((4999 - was.lo) / was.cell)  # columns that were finished before
        # The join into the left edge's first column is not there before its neighbour has left the view.
        assert [row[moved + 1 : done] for row in before] == [row[1 : done - moved] for row in after]


DATA: dict[str, Callable[[], Store]] = {
    "nothing": Store,
    "one point": lambda: store_of([4.0]),
    "one nan": lambda: store_of([math.nan]),
    "all nan": lambda: store_of([math.nan] * 300, ema=None),
    "zeros": lambda: store_of([0.0] * 20),
    "huge": lambda: store_of([1e300, -1e300, 1e-300, 5.0]),
    "steps far apart": lambda: _far_apart(1.0),
    "one step far out": lambda: store_of([4.0], first=2**62),
    "impossible times": lambda: _far_apart(1e300),
}


def _far_apart(size: float) -> Store:
    store = Store()
    take(store, tuple(make_entry(step=s, loss=1.0, seconds=size, energy_j=size) for s in (0, 5, 2**62)))
    return store


@pytest.mark.parametrize("name", DATA)
def test_every_key_with_any_data(name: str, kind: Kind) -> None:
    store = DATA[name]()
    panel = LossPanel()
    keys = [command.id for command in COMMANDS if hasattr(ChartKeys, command.id)]
    assert len(keys) >= 14
    for key in [*keys, *reversed(keys), "zoom_in", "zoom_in", "pan_left", "x_axis", "zoom_in", "cursor_left", *keys]:
        getattr(ChartKeys(panel), key)()
        for size in ((80, 20), (40, 6), (9, 4)):
            rows = draw(panel, store, *size)
            assert [row_width(row) for row in rows] == [size[0]] * size[1]
            assert harmless("".join(map(text_of, rows)))
    for offer in offers(store):
        panel.view.series = offer.key
        draw(panel, store)
        for key in keys:
            getattr(ChartKeys(panel), key)()


@pytest.mark.usefixtures("braille")
def test_keys_before_the_first_drawing_do_nothing() -> None:
    panel = LossPanel()
    for command in COMMANDS:
        if hasattr(ChartKeys, command.id):
            getattr(ChartKeys(panel), command.id)()
    assert panel.view.window is None
    assert panel.view.cursor is None


@pytest.mark.usefixtures("braille")
def test_zoom_keeps_the_newest_point_and_follows_it() -> None:
    store, panel = store_of([4.0] * 1000), LossPanel()
    draw(panel, store)
    keys = ChartKeys(panel)
    keys.zoom_in()
    draw(panel, store)
    assert panel.view.window == Window("step", 1000 - 999 / 2, 1000, follows=True)
    assert panel.frame is not None
    assert 0 < 500.5 - panel.frame.lo < 0.25 * 499.5, "a little more, for columns that stand still"
    assert f"steps {math.ceil(panel.frame.lo)} to 1,000, follows" in lines(panel, store)[0]
    grow(store, [4.0] * 100, 1001)
    assert "to 1,100, follows" in lines(panel, store)[0]
    keys.pan_left()
    draw(panel, store)
    assert panel.view.window == Window("step", 1100 - 1.25 * 999 / 2, 1100 - 0.25 * 999 / 2)
    assert "steps 476 to 975, stands still" in lines(panel, store)[0]
    grow(store, [4.0] * 100, 1101)
    assert "steps 476 to 975, stands still" in lines(panel, store)[0]
    keys.last()
    assert "to 1,200, follows" in lines(panel, store)[0]
    keys.first()
    assert "steps 1 to 500, stands still" in lines(panel, store)[0]
    keys.zoom_out()
    draw(panel, store)
    keys.zoom_out()
    draw(panel, store)
    keys.zoom_out()
    assert panel.view.window is None
    keys.pan_left()
    assert panel.view.window is None


@pytest.mark.usefixtures("braille")
def test_zoom_about_the_cursor_keeps_its_column() -> None:
    store = store_of([4.0] * 10_000)
    panel = LossPanel(ViewState(cursor=2500, window=Window("step", 2000, 4000)))
    draw(panel, store)
    ChartKeys(panel).zoom_in()
    assert panel.view.window == Window("step", 2250, 3250)
    for _ in range(40):
        draw(panel, store)
        ChartKeys(panel).zoom_in()
    assert panel.view.window is not None
    assert panel.view.window.lo <= 2500 <= panel.view.window.hi
    assert panel.view.window.hi - panel.view.window.lo == pytest.approx(4)


@pytest.mark.usefixtures("braille")
def test_the_cursor_goes_column_by_column_and_reads_out_the_raw_values() -> None:
    losses = [3.0 + (i % 7) / 7 for i in range(1, 20_001)]
    losses[19_999] = 5.5
    store, panel = store_of(losses), LossPanel()
    draw(panel, store)
    keys = ChartKeys(panel)
    keys.cursor_left()
    assert panel.view.cursor == 20_000
    title = lines(panel, store)[0]
    assert "step 20,000  5.500  line 3.000  161 steps here 3.000 to 5.500" in title, "the line is the recorded EMA"
    cell = panel.frame.cell if panel.frame else 0
    keys.cursor_left()
    assert panel.view.cursor == 20_000 - round(cell)
    cells = styled(draw(panel, store))
    assert {
        meaning for row in cells[1:17] for _, meaning in [row[column_of(panel.view.cursor, 1, 20_000, 80, "braille")]]
    } == {"cursor"}
    for _ in range(300):
        keys.cursor_left()
    assert panel.view.cursor == 1
    for _ in range(300):
        keys.cursor_right()
    assert panel.view.cursor == 20_000
    assert "from chat" in "\n".join(lines(panel, store, 200))


@pytest.mark.usefixtures("braille")
def test_the_cursor_pushes_the_window_before_it() -> None:
    store = store_of([4.0] * 1000)
    panel = LossPanel(ViewState(cursor=505, window=Window("step", 500, 600)))
    keys = ChartKeys(panel)
    for _ in range(10):
        draw(panel, store)
        keys.cursor_left()
    assert panel.view.cursor is not None
    assert panel.view.window == Window("step", panel.view.cursor, panel.view.cursor + 100)


@pytest.mark.usefixtures("braille")
def test_i_finds_the_highest_point_in_view_on_any_axis() -> None:
    losses = [3.0] * 5000
    losses[1233], losses[4000] = 50.0, 60.0
    store = store_of(losses)
    for axis in ("step", "tokens", "active"):
        panel = LossPanel(ViewState(x_axis=axis))
        draw(panel, store)
        ChartKeys(panel).highest()
        assert panel.view.cursor == 4001
        scale = {"step": 1, "tokens": store.record.tokens_per_step or 0, "active": 2}[axis]
        panel.view.window = Window(axis, 1000 * scale, 2000 * scale)
        draw(panel, store)
        ChartKeys(panel).highest()
        assert panel.view.cursor == 1234


@pytest.mark.usefixtures("braille")
def test_x_goes_round_the_axes_that_are_known_and_the_window_goes_with_it() -> None:
    store = store_of([4.0] * 1000)
    panel = LossPanel(ViewState(window=Window("step", 100, 300)))
    told = []
    for _ in range(3):
        draw(panel, store)
        told.append(ChartKeys(panel).x_axis())
        draw(panel, store)
    assert panel.view.x_axis == "step"
    assert told[0] == "x: tokens"
    assert told[1].startswith("x: active time")
    assert "wall time is left out, no start is in the event log" in told[2]
    assert "kWh is left out, the record has no energy" in told[2]
    assert panel.view.window is not None
    assert (panel.view.window.lo, panel.view.window.hi) == (pytest.approx(100), pytest.approx(300))


@pytest.mark.usefixtures("braille")
def test_an_axis_that_this_run_does_not_know_is_replaced_and_said() -> None:
    store = store_of([4.0] * 100)
    text = "\n".join(lines(LossPanel(ViewState(x_axis="energy")), store, 120))
    assert "over steps: the record has no energy" in text
    assert " step " in text


@pytest.mark.usefixtures("braille")
@pytest.mark.parametrize(("axis", "unit"), [("tokens", "tokens"), ("active", "active time"), ("energy", "kWh")])
def test_ticks_carry_their_units(axis: str, unit: str) -> None:
    store = Store()
    take(store, tuple(make_entry(step=s, loss=3.0, seconds=3600.0, energy_j=s * 3.6e6) for s in range(1, 101)))
    last = lines(LossPanel(ViewState(x_axis=axis)), store, 100, 13)[-2]
    assert unit in last
    expected = {"tokens": "k", "active": "72 h", "energy": "100"}[axis]
    assert expected in last


@pytest.mark.usefixtures("braille")
def test_the_legend_says_which_smoothing_is_shown_and_the_band_stays() -> None:
    store = store_of([4.0 + (i % 2) for i in range(500)])
    panel = LossPanel(ViewState(smoothing=SMOOTHINGS[0]))
    keys = ChartKeys(panel)
    found = []
    for _ in SMOOTHINGS:
        rows = draw(panel, store)
        found.append(text_of(rows[-1]))
        banded = any(meaning == "band" for row in rows for _, meaning in row)
        assert banded == (panel.view.smoothing != "off")
        keys.smooth_more()
    for text, words in zip(found, ("line loss", "EMA 0.9 ", "EMA 0.99, recorded", "EMA 0.999", "0.9999"), strict=True):
        assert words in text
    assert "strongest" in keys.smooth_more()
    panel.view.series = "lr"
    draw(panel, store)
    assert "as it is" in keys.smooth_less()


@pytest.mark.usefixtures("braille")
def test_without_a_recorded_average_it_is_computed() -> None:
    store = store_of([4.0, 2.0], ema=None)
    title, *_, legend = lines(LossPanel(), store)
    expected = (0.99 * 0.01 * 4 + 0.01 * 2) / (1 - 0.99**2)
    assert f"EMA 0.99 {expected:.3f}" in title
    assert "recorded" not in legend


@pytest.mark.usefixtures("braille")
def test_every_series_is_drawn_over_the_same_axis() -> None:
    store = store_of([4.0] * 300)
    facts = {"step": 200, "loss": 3.3, "arms": {"chat": 3.1}}
    take(store, events=(Event(9.0, "sample", 1, {"step": 100, "total": 80.0}), Event(9.0, "validation", 1, facts)))
    for key, value in (
        ("lr", "3e-4"),
        ("grad_norm", "0.500"),
        ("rate", ""),
        ("arm:chat", "4.000"),
        ("validation", "3.300"),
        ("validation:chat", "3.100"),
        ("score", "last 80.0 of 100"),
        ("power_w", "4.000"),  # nothing known: the loss instead
    ):
        rows = lines(LossPanel(ViewState(series=key)), store)
        assert value in rows[0].replace("3.00e-4", "3e-4").replace("3.000", "4.000" if key == "power_w" else "3.000"), (
            key
        )
        assert "step" in rows[-2] or "step" in rows[-5]
    assert "nothing known for power_w" in "\n".join(lines(LossPanel(ViewState(series="power_w")), store, 120))


def test_a_second_run_is_drawn_dashed_and_named(kind: Kind) -> None:
    store = store_of([4.0] * 1000)
    entries = tuple(make_entry(step=s, loss=6.0, ema=6.0) for s in range(1, 501))
    take(store, other=OtherUpdate("before [/]\x1b[2J", (EntryBatch(entries),)))
    panel = LossPanel(ViewState(smoothing="0.99"))
    rows = draw(panel, store, 120, 20)
    drawn = [[c for c, (_, meaning) in enumerate(row) if meaning == "other"] for row in styled(rows)[1:17]]
    curve = next(columns for columns in drawn if len(columns) > 8)
    assert all(b - a == 2 for a, b in pairwise(curve)), "every other cell"
    assert curve[-1] <= column_of(500, 1, 1000, 120, kind) + 1
    assert "dashes before [/]" in text_of(rows[-1])
    assert harmless("".join(map(text_of, rows)))
    panel.view.cursor = 300
    assert "before [/]" in lines(panel, store, 160)[0]
    assert "6.000" in lines(panel, store, 160)[0]
    panel.view.x_axis = "active"
    assert "does not tell how long" in lines(panel, store, 160)[-1]


@pytest.mark.usefixtures("braille")
def test_an_empty_second_run_is_said_to_be_empty() -> None:
    store = store_of([4.0] * 10)
    take(store, other=OtherUpdate("young"))
    assert "young: no steps yet" in lines(LossPanel(), store, 120)[-1]


@pytest.mark.usefixtures("braille")
def test_one_policy_alone_and_all_again() -> None:
    store = store_of([4.0] * 1000)
    take(store, events=tuple(Event(1.0, "pivot", 1, {"step": step, "generation": 1}) for step in (300, 600)))
    panel = LossPanel()
    found = []
    for _ in range(4):
        draw(panel, store)
        ChartKeys(panel).policy_view()
        found.append(lines(panel, store, 120)[0])
    for text, steps in zip(found, ("601 to 1,000", "301 to 600", "1 to 300"), strict=False):
        assert f"steps {steps} (one policy)" in text
    assert "policy" not in found[3]


def test_settings_are_remembered_and_rubbish_is_not() -> None:
    view = ViewState(cursor=5, x_axis="energy", smoothing="0.999", log_y=True, series="arm:chat")
    other = ViewState()
    other.restore(view.settings())
    assert other.settings() == view.settings()
    assert other.cursor is None
    for rubbish in ({"x_axis": 3, "smoothing": None, "log_y": "yes", "series": ["x"]}, {"x_axis": "banana"}, {}):
        other.restore(rubbish)
        assert other.settings() == view.settings()
