"""From the driver to the screen: each failure of NVML is shown as what it is (reliability, H1 to H7)."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import pytest

from andrea_engine.run.condition import Condition
from andrea_engine.run.heartbeat import Heartbeat
from andrea_engine.telemetry.energy import EnergyMeter
from andrea_engine.telemetry.monitor import Monitor
from andrea_tui.feed.store import Store
from andrea_tui.feed.update import Update
from andrea_tui.widgets.power_panel import PowerPanel
from andrea_tui.widgets.rows import RowsWidget

from .standin import StandIn
from .test_monitor import NO_LIBRARY, quick, wait_for

__all__ = ["quick"]  # a fixture


@pytest.fixture(autouse=True)
def braille(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowsWidget, "kind", property(lambda self: "braille"))


def screen(monitor: Monitor) -> str:
    """The panel, after the readings went through a heartbeat on disk."""
    now = time.time()
    beat = Heartbeat(
        pid=1,
        process_start=1,
        boot_id="",
        host="",
        session=1,
        phase="training",
        phase_since=now,
        time=now,
        telemetry=monitor.telemetry,
    )
    store = Store()
    read = msgspec.json.decode(msgspec.json.encode(beat), type=Heartbeat)
    store.apply(Update(now, Condition("training", alive=True, sentence=""), read))
    return "\n".join("".join(text for text, _ in row) for row in PowerPanel().lay_out(store, 90, 30))


def shows(monitor: Monitor, *words: str) -> Callable[[], bool]:
    return lambda: all(word in screen(monitor) for word in words)


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("no-driver", ("GPU telemetry off: the NVIDIA driver is not loaded", "ago: 130 W", "ago: 96 W")),
        ("mismatch", ("GPU telemetry off: version mismatch", "ago: 130 W", "ago: 96 W")),
        ("lost", ("GPU telemetry off: lost", "ago: 130 W")),
        ("lost-second", ("GPU 1: lost, the driver cannot reach it", "GPU 0  130 W", "ago: 96 W")),
        ("no-power", ("N/A (not supported)", "GPU 0  N/A W", "GPU 1  96 W")),
        ("forbidden", ("N/A (no permission)", "GPU 0  N/A W", "GPU 1  96 W")),
        ("no-util", ("util N/A", "226 W of 900 W")),
        ("weak", ("GPU 1: insufficient power, look at its cables", "GPU 0  130 W", "ago: 96 W")),
        ("hot", ("held back: power limit, too hot",)),
        ("mig", ("MIG 1g.5gb", "MIG 1g.10gb", "util N/A")),
        ("segv", ("GPU telemetry helper ended", "ago: 130 W")),
    ],
)
def test_after_good_readings(scenario: str, words: tuple[str, ...], nvml: StandIn, quick: None) -> None:
    monitor = Monitor(EnergyMeter())
    monitor.counted_uuids = None
    monitor.start()
    try:
        wait_for(shows(monitor, "226 W of 900 W", "GPU 0  130 W", "GPU 1  96 W"), "good readings")
        nvml.say(scenario)
        wait_for(shows(monitor, *words), f"{words}")
        nvml.say("ok")
        wait_for(shows(monitor, "226 W of 900 W"), "recovery")
    finally:
        monitor.stop()


def test_a_helper_that_hangs(nvml: StandIn, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("andrea_engine.telemetry.monitor.DEADLINE_SECONDS", 0.2)
    monitor = Monitor(EnergyMeter())
    monitor.start()
    try:
        wait_for(shows(monitor, "226 W"), "good readings")
        nvml.say("hang")
        wait_for(shows(monitor, "GPU telemetry helper does not answer", "ago: 130 W"), "the silence")
    finally:
        monitor.stop()


def test_without_a_library(no_nvml: None, quick: None) -> None:
    monitor = Monitor(EnergyMeter())
    monitor.start()
    try:
        wait_for(shows(monitor, NO_LIBRARY, "host  CPU"), "the word that there is none")
    finally:
        monitor.stop()
