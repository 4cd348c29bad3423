"""Every panel at every size, with nothing to show, with everything, and with hostile text."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from textual.geometry import Size

from andrea_engine.run.condition import Condition
from andrea_engine.run.events import Event
from andrea_engine.run.samples import Sample, StoredScores
from andrea_tui.commands import COMMANDS
from andrea_tui.feed.event_words import describe
from andrea_tui.feed.store import Store
from andrea_tui.feed.update import Update
from andrea_tui.plotting.raster import Kind
from andrea_tui.screens.log import KEYS as LOG
from andrea_tui.screens.runs import KEYS as RUNS
from andrea_tui.view import ViewState
from andrea_tui.widgets.arms_panel import ArmsPanel
from andrea_tui.widgets.events_panel import EventsPanel
from andrea_tui.widgets.key_bar import KeyBar, KeyLine
from andrea_tui.widgets.loss_panel import LossPanel
from andrea_tui.widgets.panel import Panel
from andrea_tui.widgets.power_panel import PowerPanel
from andrea_tui.widgets.rows import Row, RowsWidget, row_width
from andrea_tui.widgets.sample_panel import SamplePanel
from andrea_tui.widgets.status_bar import WORDS, SaveBar, StatusBar
from tests.widgets.stores import HOSTILE, PHASES, full, heartbeat
from tests.widgets.test_rows import harmless, text_of

WIDTHS = [*range(14), 17, 20, 28, 29, 35, 36, 37, 43, 44, 45, 51, 52, 53, 60, 77, 78, 79, 80, 99, 100, 120, 130]
HEIGHTS = [*range(12), 13, 14, 15, 16, 20, 27, 40]
SIZES = {(w, h) for w in WIDTHS for h in (0, 1, 2, 5, 14, 40)} | {(w, h) for w in (0, 4, 30, 80, 130) for h in HEIGHTS}

MAKERS: list[Callable[[], RowsWidget]] = [
    LossPanel,
    PowerPanel,
    SamplePanel,
    ArmsPanel,
    EventsPanel,
    KeyBar,
    SaveBar,
    lambda: StatusBar("runs/120m"),
]
NAMES = ["loss", "power", "sample", "arms", "events", "keys", "savebar", "status"]
STORES = {
    "empty": Store(),
    "full": full(),
    "hostile": full(HOSTILE),
    "no gpu": full("ran", gpus=0),
    "stopped": full(word="stopped", alive=False),
}


@pytest.fixture(params=["braille", "ascii"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    """How curves are drawn, without an app that says it."""
    chosen: Kind = request.param
    monkeypatch.setattr(RowsWidget, "kind", property(lambda self: chosen))
    return chosen


@pytest.fixture
def braille(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowsWidget, "kind", property(lambda self: "braille"))


def lines(widget: RowsWidget, store: Store, width: int, height: int) -> list[str]:
    return [text_of(row) for row in widget.lay_out(store, width, height)]


def whole(widget: RowsWidget, store: Store, width: int = 100, height: int = 30) -> str:
    return "\n".join(lines(widget, store, width, height))


@pytest.mark.parametrize("make", MAKERS, ids=NAMES)
@pytest.mark.parametrize("name", STORES)
def test_any_size_is_filled_exactly(make: Callable[[], RowsWidget], name: str, kind: Kind) -> None:
    widget, store = make(), STORES[name]
    for width, height in SIZES:
        rows = widget.lay_out(store, width, height)
        assert len(rows) == height
        assert [row_width(row) for row in rows] == [width] * height, (width, height)
        assert harmless("".join(map(text_of, rows)))


@pytest.mark.parametrize("make", MAKERS[:5], ids=NAMES[:5])
@pytest.mark.parametrize("name", ["full", "hostile"])
def test_the_frame_stands_whatever_is_in_it(make: Callable[[], Panel], name: str, kind: Kind) -> None:
    """Case C20: wide, combining and control characters do not move a border."""
    corners, side = ("++++", "|") if kind == "ascii" else ("┌┐└┘", "│")
    for width in (4, 9, 30, 61, 100):
        top, *middle, bottom = make().lay_out(STORES[name], width, 14)
        assert (text_of(top)[0], text_of(top)[-1]) == (corners[0], corners[1])
        assert (text_of(bottom)[0], text_of(bottom)[-1]) == (corners[2], corners[3])
        assert all(text_of(row)[0] == side and text_of(row)[-1] == side for row in middle)
        assert all(_width_before_last(row) == width - 1 for row in middle)


def _width_before_last(row: Row) -> int:
    return row_width([*row[:-1], (row[-1][0][:-1], "")])


@pytest.mark.usefixtures("braille")
@pytest.mark.parametrize(("word", "alive"), PHASES)
def test_every_state_is_told_by_a_word_and_a_sign(word: str, alive: bool) -> None:
    store = full(word=word, alive=alive)
    for width in (40, 60, 80, 120):
        (status,) = lines(StatusBar("120m"), store, width, 1)
        assert f"{WORDS[word][0]} {word}" in status
    assert "step 400 of 5,000" in lines(StatusBar("120m"), store, 120, 1)[0] or not alive


@pytest.mark.usefixtures("braille")
def test_every_condition_has_its_sign() -> None:
    assert {word for word, _ in PHASES} <= set(WORDS)


@pytest.mark.usefixtures("braille")
def test_the_status_line_says_pace_and_the_time_left() -> None:
    (status,) = lines(StatusBar("120m"), full(), 120, 1)
    assert "120.0 steps/min" in status
    assert "ETA 9 d 12 h" in status
    assert "ago" not in status


@pytest.mark.usefixtures("braille")
def test_a_screen_that_moves_seldom_says_so_where_there_is_room() -> None:
    def status(pause: float | None, width: int) -> str:
        store = full()
        store.apply(Update(time.time(), store.condition, heartbeat(), pause=pause))
        (line,) = lines(StatusBar("120m"), store, width, 1)
        return line

    assert "updates every 4 s" in status(4.2, 200)
    assert "updates" not in status(0.3, 200) + status(None, 200)
    for width in range(20, 160):
        assert cell_len(status(4.2, width)) <= width
        assert status(4.2, width).replace("  updates every 4 s", " " * 19) == status(0.3, width)


@pytest.mark.usefixtures("braille")
@pytest.mark.parametrize("word", ["stopped", "crashed", "finished"])
def test_what_cannot_be_read_of_an_ended_run_is_told_before_how_it_ended(word: str) -> None:
    store = full(word=word, alive=False)
    store.alarm = ""
    store.apply(replace(Update(time.time(), store.condition, None), problems=("run.toml is odd", "b", "c")))
    (line,) = lines(SaveBar(), store, 200, 1)
    assert line.startswith(" run.toml is odd (and 2 more)")
    assert store.condition.sentence in line


@pytest.mark.usefixtures("braille")
def test_an_old_step_is_said_to_be_old() -> None:
    store = full()
    beat = heartbeat()
    old = type(beat)(**{name: getattr(beat, name) for name in beat.__struct_fields__} | {"step_time": time.time() - 42})
    store.apply(Update(time.time(), store.condition, old))
    assert "last step 42 s ago" in lines(StatusBar("120m"), store, 120, 1)[0]


@pytest.mark.usefixtures("braille")
@pytest.mark.parametrize("panel", [LossPanel, SamplePanel, ArmsPanel, EventsPanel])
def test_an_empty_panel_says_what_it_waits_for(panel: type[Panel]) -> None:
    store = Store()
    store.apply(Update(time.time(), Condition("training", alive=True, sentence=""), None))
    text = whole(panel(), store)
    expected = {
        LossPanel: "the first point comes with the first step",
        SamplePanel: "the first sample comes at step 100",
        ArmsPanel: "the mix is known once training begins",
        EventsPanel: "nothing has happened yet",
    }
    assert expected[panel] in text


@pytest.mark.usefixtures("braille")
def test_readings_are_watts_or_the_machines_load() -> None:
    assert "131 W of 450 W" in whole(PowerPanel(), full())
    assert "CPU 55 %" in whole(PowerPanel(), full(gpus=0))
    assert "no engine, no readings" in whole(PowerPanel(), Store())


@pytest.mark.usefixtures("braille")
def test_a_power_that_one_gpu_does_not_tell_is_no_number() -> None:
    store = full()
    beat = heartbeat()
    assert beat.telemetry is not None
    gpu = type(beat.telemetry.gpus[0])(uuid="b", name="MIG", utilisation=None)
    telemetry = type(beat.telemetry)(time=time.time(), gpus=[gpu])
    changed = {name: getattr(beat, name) for name in beat.__struct_fields__} | {"telemetry": telemetry}
    store.apply(Update(time.time(), store.condition, type(beat)(**changed)))
    text = whole(PowerPanel(), store)
    assert "N/A" in text
    assert "131" not in text


@pytest.mark.usefixtures("braille")
def test_a_sample_with_its_scores_and_the_gate() -> None:
    store = full("Bees look for bright colours.")
    text = whole(SamplePanel(), store, 100, 20)
    assert "> how do bees find flowers" in text
    assert "Bees look for bright colours." in text
    for value in ("83 of 100", "31.2 of 35", "33.0 of 35", "16.1 of 20", "3.0 of 10 low", "step 300"):
        assert value in text
    assert "gate ●●○○○ 2 low in a row" in text


@pytest.mark.usefixtures("braille")
@pytest.mark.parametrize(("total", "told"), [(99.7, "99 of 100"), (29.7, "29 of 100"), (100.0, "100 of 100")])
def test_a_score_is_cut_off_not_rounded_up(total: float, told: str) -> None:
    """A whole 100 means all points, and a score that is low must not look like the threshold of 30."""
    store = replace(full(), samples=(Sample(step=300, text="x", scores=StoredScores(34.9, 9.9, 9.9, 9.9, total)),))
    assert f" {told}" in whole(SamplePanel(), store, 100, 20)
    assert "B 34/35 T 9/35 E 9/20 C 9/10" in whole(SamplePanel(), store, 100, 8)
    store.score.append(401, total)
    assert f"score {told}" in text_of(StatusBar("120m")._brief(store, 120))


@pytest.mark.usefixtures("braille")
def test_walking_the_samples_stops_at_both_ends() -> None:
    panel, store = SamplePanel(), full("new")
    panel.store = store
    panel.walk(-1)
    assert "step 300" in whole(panel, store)
    panel.walk(1)
    assert "not scored" in whole(panel, store)
    assert "1 before the newest" in whole(panel, store)
    panel.walk(50)
    assert "region region" in whole(panel, store)
    assert "step 100" in whole(panel, store)


@pytest.mark.usefixtures("braille")
def test_a_sample_that_is_cut_says_so() -> None:
    scores = StoredScores(35, 35, 20, 10, 100)
    store = replace(full(), samples=(Sample(step=1, text="word " * 2000, scores=scores),))
    assert "…" in whole(SamplePanel(), store, 60, 12)


@pytest.mark.usefixtures("braille")
def test_arms_with_what_holds_them_and_the_zombie() -> None:
    text = whole(ArmsPanel(), full("arm"), 100, 30)
    assert "focus 2 of 16, 23 steps left" in text
    assert "held by" in text
    assert "arm 0" in text
    assert "50 %" in text
    assert "✕ arm, a saved weight of 1.546 has no effect" in text
    assert "+ 10 more" in whole(ArmsPanel(), full("arm"), 100, 11)


@pytest.mark.usefixtures("braille")
def test_events_newest_first() -> None:
    text = whole(EventsPanel(), full("garden"), 100, 40)
    assert text.index("engine ended: garden") < text.index("NOT saved step 300: garden") < text.index("engine started")
    assert "saved step 300 (12.0 MB, 0.4 s)" in text


@pytest.mark.parametrize("kind_of_event", [*WORDS, "save_durable", "save_failed", "sample", "gate", "start", "removed"])
def test_an_event_without_its_facts_is_still_told(kind_of_event: str) -> None:
    text, _ = describe(Event(1.0, kind_of_event, 1, {}))
    assert text


@pytest.mark.usefixtures("braille")
def test_the_key_bar_shows_what_can_be_done_and_always_the_help() -> None:
    bar = KeyBar()
    for width in (40, 60, 80, 120):
        (line,) = lines(bar, full(), width, 1)
        assert line.rstrip().endswith("all")
        assert "? help" in line
    assert "c checkpoint" in lines(bar, full(), 120, 1)[0]
    assert "r resume" in lines(bar, full(word="stopped", alive=False), 120, 1)[0]
    assert "r resume" not in lines(bar, full(), 120, 1)[0]


LINES = {"runs": (*RUNS, ("Esc", "back")), "log": LOG}


@pytest.mark.parametrize("screen", LINES)
@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
@pytest.mark.usefixtures("braille")
def test_a_line_of_keys_leaves_out_whole_keys_and_never_the_way_out(screen: str, width: int) -> None:
    (line,) = lines(KeyLine(LINES[screen]), full(), width, 1)
    shown = line.split("  ")
    assert {f"{key} {label}" for key, label in LINES[screen]} >= {key.strip() for key in shown if key.strip()}
    assert "Esc back" in line
    assert ("q close" if screen == "runs" else "? help") in line


@pytest.mark.usefixtures("braille")
def test_a_click_meets_the_command_that_stands_there() -> None:
    bar = KeyBar()
    (line,) = lines(bar, full(), 120, 1)
    labels = {command.id: command.label for command in COMMANDS}
    assert len(bar._places) >= 5
    for start, end, command in bar._places:
        assert line[start:end].rstrip().endswith(labels[command])


@pytest.mark.usefixtures("braille")
def test_alarms_come_first_on_the_save_line() -> None:
    store = full()
    store.alarm = "disk full"
    assert lines(SaveBar(), store, 60, 1)[0].startswith(" ALARM  disk full")


@pytest.mark.usefixtures("braille")
def test_two_hundred_thousand_points_keep_their_spike() -> None:
    """Case C14: one value of 50 among 200,000 is on the chart and named."""
    store = Store()
    store.loss.extend(range(1, 200_001), [50.0 if step == 123_456 else 3.0 for step in range(1, 200_001)])
    text = whole(LossPanel(), store, 120, 20)
    assert "50.0 at 123,456" in text


@pytest.mark.usefixtures("braille")
def test_zero_and_negative_losses_on_a_logarithmic_axis() -> None:
    """Case C13."""
    store = Store()
    store.loss.extend(range(1, 6), [1.0, 0.0, -0.5, 1e-12, 3.0])
    panel = LossPanel(ViewState(log_y=True))
    assert "▾" in whole(panel, store, 100, 20)
    assert whole(panel, store, *Size(3, 1))


@pytest.mark.usefixtures("braille")
@pytest.mark.parametrize(("width", "told"), [(60, "B 31/35 T 33/35 E 16/20 C 7/10"), (24, "B 31 T 33 E 16 C 7")])
def test_the_axes_of_a_sample_in_one_line_are_all_there(width: int, told: str) -> None:
    store = full()
    sample = store.samples[-1]
    scores = StoredScores(bigram=31.2, trigram=33.0, english=16.1, character=7.7, total=88.0)
    store.apply(Update(time.time(), store.condition, heartbeat(), samples=(replace(sample, scores=scores),)))
    assert f"│ {told} " in "\n".join(lines(SamplePanel(ViewState()), store, width + 4, 6))
