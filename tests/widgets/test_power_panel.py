"""What it costs: devices, failures, energy and price, in words that say what is known."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from andrea_engine.run.condition import Condition
from andrea_engine.run.config import parse_config
from andrea_engine.run.energy_facts import EnergyQuality
from andrea_engine.run.events import Event
from andrea_engine.run.heartbeat import Gpu, Telemetry
from andrea_engine.run.loss_entry import make_entry
from andrea_tui.feed.load import MOST_DEVICES, POWER_SECONDS, LoadHistory, run_gpus, total_power
from andrea_tui.feed.store import Store
from andrea_tui.feed.update import EntryBatch, Update
from andrea_tui.plotting.format import MISSING
from andrea_tui.view import ViewState
from andrea_tui.widgets.power_panel import PowerPanel
from andrea_tui.widgets.rows import RowsWidget, row_width
from tests.widgets.stores import HOSTILE, full, heartbeat
from tests.widgets.test_rows import harmless, text_of

NOW = 1_000_000.0
TRAINING = Condition("training", alive=True, sentence="training")
DEMO = parse_config('preset = "demo"', "run.toml")
READINGS = {
    "power_w": 131.0,
    "limit_w": 450.0,
    "utilisation": 97.0,
    "memory_used": 1_400_000_000,
    "memory_total": 24_000_000_000,
    "temperature_c": 61.0,
    "sm_mhz": 2520.0,
    "memory_mhz": 10_501.0,
    "throttle": [],
}


@pytest.fixture(autouse=True)
def braille(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowsWidget, "kind", property(lambda self: "braille"))


def gpu(index: int = 0, **fields: object) -> Gpu:
    known = {"uuid": f"GPU-{index}", "name": f"GeForce {index}", "index": index, "time": NOW, **READINGS}
    return Gpu(**(known | fields))  # type: ignore[arg-type]


def store_of(*gpus: Gpu, at: float = NOW, **fields: object) -> Store:
    """A running engine whose machine says this."""
    store = Store()
    take(store, *gpus, at=at, **fields)
    return store


def take(store: Store, *gpus: Gpu, at: float = NOW, **fields: object) -> None:
    telemetry = Telemetry(**({"time": at, "gpus": list(gpus), "cpu_percent": 55.0} | fields))  # type: ignore[arg-type]
    beat = heartbeat()
    changed = {name: getattr(beat, name) for name in beat.__struct_fields__} | {"telemetry": telemetry}
    store.apply(Update(at, TRAINING, type(beat)(**changed), config=DEMO))


def shown(store: Store, width: int = 60, height: int = 24) -> str:
    rows = PowerPanel().lay_out(store, width, height)
    assert [row_width(row) for row in rows] == [width] * height
    assert harmless("".join(map(text_of, rows)))
    return "\n".join(map(text_of, rows))


def styles_of(store: Store, word: str) -> set[str]:
    rows = PowerPanel().lay_out(store, 60, 24)
    return {meaning for row in rows for text, meaning in row if word in text}


def test_one_device() -> None:
    text = shown(store_of(gpu()))
    for words in (
        "131 W of 450 W",
        "util 97 %",
        "61 °C",
        "1.40 GB of 24.0 GB",
        "clock 2,520 MHz",
        "memory 10,501 MHz",
    ):
        assert words in text, words
    assert "GPU 0" not in text, "one device needs no number"


def test_several_devices_have_a_line_a_label_and_a_sum() -> None:
    store = Store()
    for second in range(0, 500, 5):
        take(store, gpu(0), gpu(1, power_w=70.0), at=NOW + second)
    text = shown(store)
    assert "201 W of 900 W  2 GPUs" in text
    assert "GPU 0  131 W" in text
    assert "GPU 1  70 W" in text
    assert set(store.load.series()) == {"GPU-0", "GPU-1"}
    chart = [line for line in text.splitlines() if "┤" in line or "│  " in line]
    assert any("GPU 0" in line for line in chart), "labels stand at the lines"
    assert any("GPU 1" in line for line in chart)


def test_devices_that_the_run_does_not_use_are_shown_and_not_summed() -> None:
    store = store_of(gpu(0, used=False), gpu(1, used=True, power_w=70.0))
    text = shown(store)
    assert "power  70 W of 450 W" in text
    assert "GPU 0  131 W" in text
    assert styles_of(store, "GPU 0  ") == {"dim"}


def test_devices_are_followed_by_uuid_when_their_numbers_change() -> None:
    store = store_of(gpu(0), gpu(1, power_w=70.0))
    take(store, gpu(0, uuid="GPU-1", power_w=71.0), gpu(1, uuid="GPU-0", power_w=132.0), at=NOW + 1)
    lines = {name: series.value_at(NOW + 1) for name, series in store.load.series().items()}
    assert lines == {"GPU-0": (NOW + 1, 132.0), "GPU-1": (NOW + 1, 71.0)}


def test_what_holds_the_clocks_back() -> None:
    store = store_of(gpu(throttle=["power limit", "too hot"]))
    assert "clock 2,520 MHz  held back: power limit, too hot" in shown(store)
    assert styles_of(store, "held back") == {"warn"}


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ({"power": "not supported"}, "N/A (not supported)"),
        ({"power": "no permission"}, "N/A (no permission)"),
        ({}, "N/A (not told)"),
    ],
)
def test_power_that_is_not_told_says_why(missing: dict[str, str], words: str) -> None:
    text = shown(store_of(gpu(power_w=None, missing=missing)))
    assert f"power  {words}" in text
    assert "0 W" not in text.replace("450 W", "")


def test_readings_that_are_missing_are_not_zero() -> None:
    nothing = dict.fromkeys(READINGS)
    text = shown(store_of(gpu(**nothing)))
    assert "N/A °C" in text
    assert "util N/A" in text
    assert "clock N/A MHz" in text
    assert "  0 " not in text.split("run ")[0].split("└")[-1]


def test_a_lost_device_keeps_its_last_values_with_their_age() -> None:
    store = store_of(gpu(0), gpu(1, problem="lost, the driver cannot reach it", time=NOW - 45))
    text = shown(store)
    assert "power  GPU 1: lost ─" in text
    assert "45 s ago: 131 W" in text
    assert styles_of(store, "GPU 1: lost") == {"bad"}
    assert styles_of(store, "45 s ago") == {"dim"}
    assert "GPU 0  131 W" in text, "the other one goes on"


def test_a_device_that_never_answered_has_no_last_values() -> None:
    text = shown(store_of(gpu(0), Gpu(uuid="", name="GPU 1", index=1, problem="insufficient power")))
    assert "GPU 1: insufficient power" in text
    assert "ago" not in text


def test_a_driver_that_went_away_is_told_once() -> None:
    gone = "GPU telemetry off: version mismatch"
    text = shown(store_of(gpu(problem=gone, time=NOW - 7), gpu_problem=gone))
    assert text.count(gone) == 2  # in the title, and above the last values
    assert "7.0 s ago: 131 W" in text


def test_a_divided_board() -> None:
    board = gpu(0, utilisation=None, missing={"utilisation": "not supported"}, used=False)
    parts = [
        Gpu(uuid=f"MIG-{i}", name="A100 MIG 1g.5gb", index=0, board="GPU-0", memory_used=10**9, memory_total=5 * 10**9)
        for i in (0, 1)
    ]
    text = shown(store_of(board, *parts), 70, 30)
    assert text.count("MIG 1g.5gb") == 2
    assert "util N/A" in text
    assert "1.00 GB of 5.00 GB" in text
    used = [*parts[:1], Gpu(uuid="MIG-1", name="A100 MIG 1g.5gb", index=0, board="GPU-0", used=True)]
    assert "N/A, only the whole board tells" in shown(store_of(board, *used))


def test_many_devices_leave_room_for_the_chart_and_the_cost() -> None:
    store = store_of(*(gpu(i) for i in range(12)))
    text = shown(store, 60, 20)
    assert "+ " in text
    assert "run " in text
    assert "┤" in text
    assert "1572 W of 5400 W  12 GPUs" in text


def test_no_more_devices_than_can_be_followed() -> None:
    store = store_of(*(gpu(i) for i in range(2000)))
    assert len(store.load.series()) == MOST_DEVICES
    shown(store)


def test_without_a_gpu_the_packages_or_the_load() -> None:
    text = shown(store_of(gpu_problem="no NVIDIA GPU: there is no NVML library", load_1m=1.5))
    assert "host  CPU 55 %" in text
    assert "no NVIDIA GPU: there is no NVML library" in text
    assert "load 1.5" in text
    assert "CPU power  65 W" in shown(store_of(cpu_power_w=65.0, counts_cpu=True))
    assert "CPU power  65 W" in shown(store_of(gpu(), cpu_power_w=65.0, counts_cpu=True)), "the run is on the CPU"


def test_hostile_names() -> None:
    many = [gpu(i, name=HOSTILE, problem=HOSTILE if i else "", throttle=[HOSTILE]) for i in range(3)]
    for width, height in ((60, 24), (36, 12), (28, 3), (5, 5)):
        shown(store_of(*many, gpu_problem=HOSTILE), width, height)


# -- energy and cost --------------------------------------------------------------------------------------------------


def measured(store: Store, joules: float, *, complete: bool | None = None, estimated: bool | None = None) -> Store:
    """A hundred more steps with `joules` between the first and the last, and how they were measured."""
    first = store.step if store.last else 0
    entries = [make_entry(step=first + s, loss=3.0, ema=3.0, energy_j=j) for s, j in ((1, 0.0), (101, joules))]
    facts: dict[str, object] = {"complete": complete, "estimated": estimated}
    events = () if complete is None else (Event(NOW, "energy", 1, facts),)
    store.apply(replace(Update(NOW, TRAINING, None), batches=(EntryBatch(tuple(entries)),), events=events))
    return store


def test_energy_and_joules_a_token() -> None:
    tokens = 100 * DEMO.tokens_per_step
    text = shown(measured(store_of(), 3.0 * tokens, complete=True, estimated=False))
    assert "3.00 J/token" in text
    assert "estimated" not in text
    assert "at least" not in text


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("estimated", [True, False])
def test_how_well_the_energy_is_known(complete: bool, estimated: bool) -> None:
    text = shown(measured(store_of(), 3.6e6 * 41.7, complete=complete, estimated=estimated))
    assert "41.7 kWh" in text
    assert ("at least 41.7 kWh" in text) == (not complete)
    assert ("41.7 kWh estimated" in text) == estimated


def test_energy_is_known_from_the_last_word_about_it() -> None:
    store = measured(measured(store_of(), 10.0, complete=False, estimated=True), 20.0, complete=True, estimated=True)
    assert store.energy_quality == EnergyQuality(True, True)


def test_energy_of_steps_that_were_given_up_is_forgotten_with_them() -> None:
    store = measured(store_of(), 10.0)
    store.apply(replace(Update(NOW, TRAINING, None), batches=(EntryBatch((), drop_from=0),)))
    assert store.energy_j is None


def test_cost_needs_a_price() -> None:
    store = measured(store_of(), 3.6e6 * 50)
    assert "EUR" not in shown(store)
    store.config = parse_config('preset = "demo"\n[power]\nprice_per_kwh = 0.30\ncurrency = "EUR"', "run.toml")
    assert "15.00 EUR" in shown(store)
    store.config = parse_config('preset = "demo"\n[power]\nprice_per_kwh = 0', "run.toml")
    assert "0.00" in shown(store)


def test_an_unknown_share_of_the_cpu_is_not_none_of_it() -> None:
    known, unknown = shown(store_of(cpu_percent=0.0)), shown(store_of(cpu_percent=None))
    assert known.count("CPU 0 %") == 2
    assert "0 %" not in unknown
    assert unknown.count(f"CPU {MISSING}") == 2


# -- the history ------------------------------------------------------------------------------------------------------


def test_readings_of_ten_minutes_each_once() -> None:
    load = LoadHistory()
    for second in [*range(900), 899]:
        load.take(Telemetry(time=float(second), cpu_percent=float(second % 100)))
    line = load.series()["CPU"]
    assert (line.x_min, line.x_max) == (899.0 - POWER_SECONDS, 899.0)
    assert len(line) == POWER_SECONDS + 1
    assert load.version == 900


def test_a_clock_that_was_set_back_begins_anew() -> None:
    load = LoadHistory()
    for second in (1000.0, 1001.0, 5.0, 6.0):
        load.take(Telemetry(time=second, cpu_percent=1.0))
    line = load.series()["CPU"]
    assert (line.x_min, line.x_max) == (5.0, 6.0)


def test_watts_and_percent_do_not_share_a_line() -> None:
    load = LoadHistory()
    load.take(Telemetry(time=1.0, cpu_percent=50.0))
    assert not load.is_power
    load.take(Telemetry(time=2.0, gpus=[gpu()], cpu_percent=50.0))
    assert load.is_power
    assert set(load.series()) == {"GPU-0"}


def test_a_device_that_fell_silent_leaves_the_chart_in_time() -> None:
    load = LoadHistory()
    load.take(Telemetry(time=0.0, gpus=[gpu(0), gpu(1)]))
    for second in range(1, 700, 50):
        load.take(Telemetry(time=float(second), gpus=[gpu(0), gpu(1, problem="lost")]))
    assert set(load.series()) == {"GPU-0"}


@pytest.mark.parametrize(
    ("gpus", "total"),
    [
        ([gpu(0, used=True), gpu(1, used=False)], 131.0),
        ([gpu(0), gpu(1)], 262.0),
        ([gpu(0), gpu(1, problem="lost")], None),
        ([gpu(0), gpu(1, power_w=None)], None),
        ([gpu(0), Gpu(uuid="MIG-0", name="MIG", board="GPU-0")], 131.0),
        ([], None),
    ],
)
def test_the_sum_is_of_what_the_run_uses_and_never_with_holes(gpus: list[Gpu], total: float | None) -> None:
    telemetry = Telemetry(gpus=gpus)
    assert total_power(telemetry) == total
    assert all(not g.board for g in run_gpus(telemetry))


def test_the_chart_is_drawn_once_a_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    store, panel, drawn = full(), PowerPanel(), []
    original = PowerPanel._draw
    monkeypatch.setattr(PowerPanel, "_draw", lambda *a: drawn.append(1) or original(*a))
    for _ in range(5):
        panel.lay_out(store, 60, 24)
    assert len(drawn) == 1
    take(store, gpu(), at=time.time() + 1)
    panel.lay_out(store, 60, 24)
    assert len(drawn) == 2


def test_at_the_cursor_stands_what_the_record_tells_of_that_step() -> None:
    """The devices' readings are those of now, and not shown then."""
    store = store_of(gpu(), at=NOW)
    entries = tuple(
        make_entry(
            step=step,
            loss=3.0,
            ema=3.0,
            lr=1e-3 * step,
            grad_norm=0.5 * step,
            seconds=0.5,
            power_w=100.0 * step if step != 3 else None,
            energy_j=50_000.0 * step if step != 3 else None,
        )
        for step in (1, 2, 3)
    )
    store.apply(Update(NOW, TRAINING, store.heartbeat, batches=(EntryBatch(entries),), config=DEMO))
    view = ViewState(cursor=2)

    def panel(height: int = 24) -> str:
        rows = PowerPanel(view=view).lay_out(store, 60, height)
        assert [row_width(row) for row in rows] == [60] * height
        return "\n".join(map(text_of, rows))

    tokens = DEMO.tokens_per_step
    assert tokens / 0.5 == 4096, "the demo's 8 sequences of 256 tokens in half a second"
    for words in (
        "power  200 W  at step 2",
        "tok/s     4,096",
        "27.8 Wh up to then",
        "grad norm 1.00",
        "lr        2.00e-03",
    ):
        assert words in panel(), words
    assert "util" not in panel()
    view.cursor = 3
    for words in ("power  unknown  at step 3", "energy unknown", "grad norm 1.50"):
        assert words in panel(), words
    assert "tok/s 4,096" in panel(3)
    view.cursor = None
    assert "util 97 %" in panel()


@pytest.mark.parametrize("height", range(3, 20))
@pytest.mark.parametrize("width", [36, 60])
def test_at_the_cursor_no_chart_of_now_is_drawn(height: int, width: int) -> None:
    """Its axis would say `now` above the numbers of another moment."""
    store = store_of(gpu())
    entry = make_entry(step=1, loss=3.0, ema=3.0, lr=1e-3, grad_norm=0.5, seconds=0.5, energy_j=50_000.0)
    store.apply(Update(NOW, TRAINING, store.heartbeat, batches=(EntryBatch((entry,)),), config=DEMO))
    rows = PowerPanel(view=ViewState(cursor=1)).lay_out(store, width, height)
    assert [row_width(row) for row in rows] == [width] * height
    text = "\n".join(map(text_of, rows))
    for absent in ("now\n", "┤", "9 min", "util"):
        assert absent not in text
    assert "4,096" in text
    for words, least in (("13.9 Wh up to then", 4), ("grad norm", 5), ("lr", 5), ("1.00e-03", 5)):
        assert words in text or height < least, words


@pytest.mark.parametrize("word", ["starting", "training"])
def test_an_engine_that_has_not_told_yet_is_an_engine(word: str) -> None:
    store = Store()
    store.apply(Update(NOW, Condition(word, alive=True, sentence=""), None))
    for width in (36, 60):
        assert "no readings yet" in shown(store, width)
        assert "no engine" not in shown(store, width)
        assert "one reading a second" in shown(store, width)
    store.apply(Update(NOW, Condition("stopped", alive=False, sentence=""), None))
    assert "no engine, no readings" in shown(store)
