"""The monitor: readings pass through; a helper that hangs or dies is replaced with growing pauses."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from andrea_engine.telemetry import monitor as module
from andrea_engine.telemetry.energy import EnergyMeter
from andrea_engine.telemetry.monitor import Monitor
from andrea_engine.telemetry.rapl import PackageEnergy

from .standin import FIRST, INSTANCES, SECOND, StandIn, make_package, plain

NO_LIBRARY = "no NVIDIA GPU: there is no NVML library"


class Meter(EnergyMeter):
    """Keeps what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.watts: list[float | None] = []

    def add(self, time: float, watts: float | None, counters: Mapping[str, float] | None = None) -> None:
        super().add(time, watts, counters)
        self.watts.append(watts)


@contextmanager
def running(counted: frozenset[str] | None = None) -> Iterator[Monitor]:
    one = Monitor(Meter())
    one.counted_uuids = counted
    one.start()
    try:
        yield one
    finally:
        one.stop()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.005)


def watts(one: Monitor) -> list[float | None]:
    assert isinstance(one.energy, Meter)
    return one.energy.watts


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses of a real monitor, shortened; the helper's interpreter still gets the time it needs."""
    for name, seconds in {
        "POLL_SECONDS": 0.01,
        "INTERVAL_SECONDS": 0.01,
        "RETRY_SECONDS": 0.05,
        "DEADLINE_SECONDS": 1.0,
        "FIRST_BACKOFF": 0.01,
        "LONGEST_BACKOFF": 0.05,
    }.items():
        monkeypatch.setattr(module, name, seconds)


# -- with the real helper ---------------------------------------------------------------------------------------------


def test_readings_and_power_of_the_counted_devices(nvml: StandIn, quick: None) -> None:
    with running(frozenset({"GPU-00000001"})) as one:
        assert one.telemetry.gpus == []
        wait_for(lambda: len(watts(one)) > 3 and bool(one.telemetry.gpus), "readings")
        reading = one.telemetry
        helper = nvml.initialisations()[0]
    assert plain(reading.gpus) == [FIRST, SECOND]
    assert [gpu.used for gpu in reading.gpus] == [False, True]
    assert all(abs(gpu.time - time.time()) < 60 for gpu in reading.gpus)
    assert one.power_w == 95.5
    assert reading.gpu_problem == ""
    assert set(watts(one)) == {95.5}
    assert one.energy.joules is not None
    assert one.energy.complete
    assert reading.memory_total == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert reading.process_rss is not None
    assert reading.process_rss > 1_000_000
    assert abs(reading.time - time.time()) < 60
    assert not os.path.exists(f"/proc/{helper}"), "the helper outlived its monitor"


def test_all_devices_or_none_may_be_counted(nvml: StandIn, quick: None) -> None:
    with running(None) as one:
        wait_for(lambda: len(watts(one)) > 1, "readings")
    assert set(watts(one)) == {130.25 + 95.5}
    with running(frozenset()) as one:
        wait_for(lambda: len(watts(one)) > 1, "readings")
    assert set(watts(one)) == {None}
    assert (one.energy.joules, one.energy.complete) == (None, True)


def test_one_card_without_power_readings(nvml: StandIn, quick: None) -> None:
    """Case C26: that one field is unknown, and a sum that would need it as well."""
    nvml.say("no-power")
    with running(None) as one:
        wait_for(lambda: bool(one.telemetry.gpus), "readings")
        missing = {"power": "not supported", **FIRST.missing}
        assert plain(one.telemetry.gpus) == [msgspec.structs.replace(FIRST, power_w=None, missing=missing), SECOND]
    assert set(watts(one)) == {None}
    assert one.energy.joules is None


def test_one_device_is_lost_and_the_other_goes_on(nvml: StandIn, quick: None) -> None:
    """The lost one keeps its last values, with their age and the reason; what it uses is unknown from then on."""
    with running(None) as one:
        wait_for(lambda: bool(one.telemetry.gpus), "readings")
        nvml.say("lost-second")
        wait_for(lambda: any(gpu.problem for gpu in one.telemetry.gpus), "the loss to be told")
        first, second = one.telemetry.gpus
        assert one.telemetry.gpu_problem == ""
        assert plain([first]) == [FIRST]
        assert "lost" in second.problem
        assert plain([second]) == [msgspec.structs.replace(SECOND, problem=second.problem)]
        assert 0 < second.time < first.time
        assert one.power_w is None
        seen = len(nvml.initialisations())
        wait_for(lambda: len(nvml.initialisations()) > seen, "the helper to begin anew")
        nvml.say("ok")
        wait_for(lambda: plain(one.telemetry.gpus) == [FIRST, SECOND], "recovery")


def test_a_divided_board_shows_its_instances_and_its_power_is_nobodys(nvml: StandIn, quick: None) -> None:
    nvml.say("mig")
    with running(frozenset({"GPU-00000000"})) as one:
        wait_for(lambda: len(one.telemetry.gpus) == 4, "readings")
        board, *instances, other = plain(one.telemetry.gpus)
        assert (board.utilisation, board.power_w) == (None, 130.25)
        assert board.missing["utilisation"] == "not supported"
        assert instances == INSTANCES
        assert other.uuid == SECOND.uuid
    assert set(watts(one)) == {None}


def test_counters_bridge_what_nobody_read(nvml: StandIn, quick: None) -> None:
    """From 1,000 J to 9,000 J while the helper was dead; the second device's counter runs twice as fast."""
    nvml.say("counter 1000000")
    with running(None) as one:
        wait_for(lambda: one.energy.joules == 0.0, "two readings")
        nvml.say("segv")
        wait_for(lambda: one.telemetry.gpu_problem == "GPU telemetry helper ended", "the end of the helper")
        assert not one.energy.complete
        nvml.say("counter 9000000")
        wait_for(lambda: bool(one.energy.joules), "recovery")
        assert one.energy.joules == 8000.0 * 3
        assert (one.energy.complete, one.energy.estimated) == (True, False)


def test_without_a_gpu_the_packages_of_the_cpu_count(no_nvml: None, quick: None, tmp_path: Path) -> None:
    zone = make_package(tmp_path, 0, 5_000_000)
    one = Monitor(Meter(), PackageEnergy(tmp_path))
    one.counts_cpu = True
    one.start()
    try:
        wait_for(lambda: one.energy.joules == 0.0, "two looks")
        (zone / "energy_uj").write_text("7500000")
        wait_for(lambda: one.energy.joules == 2.5, "the counter")
        assert (one.energy.complete, one.energy.estimated) == (True, False)
        wait_for(lambda: one.telemetry.cpu_power_w == 0.0, "a look without use")
        assert one.telemetry.counts_cpu
    finally:
        one.stop()


def test_good_then_lost_then_a_fault_then_good(nvml: StandIn, quick: None) -> None:
    """Case C25."""
    with running(None) as one:
        wait_for(lambda: bool(one.telemetry.gpus), "readings")
        nvml.say("lost")
        wait_for(lambda: "lost" in one.telemetry.gpu_problem, "the loss to be told")
        kept = [msgspec.structs.replace(gpu, problem=one.telemetry.gpu_problem) for gpu in (FIRST, SECOND)]
        assert plain(one.telemetry.gpus) == kept, "the last values stay, with the reason"
        assert all(0 < gpu.time <= time.time() for gpu in one.telemetry.gpus)
        assert watts(one)[-1] is None
        assert not one.energy.complete
        nvml.say("segv")
        wait_for(lambda: one.telemetry.gpu_problem == "GPU telemetry helper ended", "the end of the helper")
        nvml.say("ok")
        wait_for(lambda: plain(one.telemetry.gpus) == [FIRST, SECOND], "recovery")
        assert one.telemetry.gpu_problem == ""
    assert len(set(nvml.initialisations())) >= 2


def test_a_driver_update_under_a_running_job(nvml: StandIn, quick: None) -> None:
    """Case C28."""
    with running(None) as one:
        wait_for(lambda: bool(one.telemetry.gpus), "readings")
        nvml.say("mismatch")
        wait_for(lambda: "mismatch" in one.telemetry.gpu_problem, "the mismatch to be told")
        nvml.say("ok")
        wait_for(lambda: plain(one.telemetry.gpus) == [FIRST, SECOND], "recovery")


def test_a_helper_that_hangs_is_killed_each_time(nvml: StandIn, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEADLINE_SECONDS", 0.2)
    with running(None) as one:
        wait_for(lambda: bool(one.telemetry.gpus), "readings")
        monkeypatch.setattr(module, "START_SECONDS", 1.0)  # from here on also in its first call
        nvml.say("hang")
        wait_for(lambda: one.telemetry.gpu_problem == "GPU telemetry helper does not answer", "the silence")
        seen = len(nvml.initialisations())
        wait_for(lambda: len(nvml.initialisations()) >= seen + 2, "a second helper to hang and be replaced")
        assert one.telemetry.cpu_percent is not None  # the rest went on
        monkeypatch.setattr(module, "START_SECONDS", 20.0)
        nvml.say("ok")
        wait_for(lambda: plain(one.telemetry.gpus) == [FIRST, SECOND], "recovery")
        alive = [pid for pid in set(nvml.initialisations()) if os.path.exists(f"/proc/{pid}")]
        assert len(alive) <= 1


def test_no_library_is_one_line_and_no_restarts(no_nvml: None, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[object] = []
    real = subprocess.Popen

    def counted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        starts.append(arguments)
        return real(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", counted)
    with running(None) as one:
        wait_for(lambda: one.telemetry.gpu_problem == NO_LIBRARY, "the word that there is none")
        before = one.telemetry.time
        wait_for(lambda: one.telemetry.time > before + 0.2, "twenty more polls")
        assert one.telemetry.gpu_problem == NO_LIBRARY
        assert one.telemetry.memory_used is not None
    assert len(starts) == 1
    assert one.energy.joules is None


# -- with a clock of our own ------------------------------------------------------------------------------------------


class Clock:
    """Seconds that pass when a poll is made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


class FakeHelper:
    """Says `words` at once, and ends at once unless it `hangs`. A kill may take its time."""

    def __init__(self, words: bytes, *, hangs: bool, unkillable: bool = False) -> None:
        read, write = os.pipe()
        os.write(write, words)
        self._write = write
        self.stdout = os.fdopen(read, "rb")
        self._hangs = hangs
        self._unkillable = unkillable
        if not hangs:
            os.close(write)

    def poll(self) -> int | None:
        return None if self._hangs else 0

    def kill(self) -> None:
        if self._hangs:
            os.close(self._write)
            self._hangs = False

    def wait(self, timeout: float | None = None) -> int:
        if self._unkillable:
            assert timeout is not None, "the monitor would wait for ever"
            raise subprocess.TimeoutExpired("helper", timeout)
        return 0


def starts_within(
    monkeypatch: pytest.MonkeyPatch, seconds: int, start: Callable[[], object]
) -> tuple[list[float], Monitor]:
    """Poll once a second; at which second each helper was started."""
    clock, times = Clock(monkeypatch), []

    def popen(*_: object, **__: object) -> object:
        times.append(clock.now - 1000.0)
        return start()

    monkeypatch.setattr(subprocess, "Popen", popen)
    one = Monitor(Meter())
    one.counted_uuids = None
    for _ in range(seconds):
        one._poll_helper()
        clock.now += 1.0
    one._end_helper()
    return times, one


GOOD = msgspec.json.encode({"gpus": [FIRST], "problem": ""}) + b"\n"


@pytest.mark.parametrize("words", [b"", GOOD, b"garbage\n"], ids=["mute", "one-good-line", "garbage"])
def test_helpers_that_die_are_replaced_with_growing_pauses(monkeypatch: pytest.MonkeyPatch, words: bytes) -> None:
    times, one = starts_within(monkeypatch, 300, lambda: FakeHelper(words, hangs=False))
    assert times == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]
    assert one._report.problem == "GPU telemetry helper ended"


def test_half_a_line_of_a_dead_helper_does_not_spoil_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = iter([FakeHelper(b'{"gpus": [', hangs=False), FakeHelper(GOOD, hangs=True)])
    times, one = starts_within(monkeypatch, 3, lambda: next(helpers))
    assert times == [0, 1]
    assert plain(one._report.gpus) == [FIRST]


def test_a_helper_that_cannot_be_started_is_tried_with_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> object:
        raise OSError(11, "Resource temporarily unavailable")

    times, one = starts_within(monkeypatch, 70, refuse)
    assert times == [0, 1, 3, 7, 15, 31, 63]
    assert one._report.problem == "GPU telemetry helper cannot be started"


def test_the_last_words_of_a_helper_count(monkeypatch: pytest.MonkeyPatch) -> None:
    final = msgspec.json.encode({"gpus": [], "problem": "no NVIDIA GPU", "final": True}) + b"\n"
    times, one = starts_within(monkeypatch, 1000, lambda: FakeHelper(final, hangs=False))
    assert times == [0]
    assert one._report.problem == "no NVIDIA GPU"


def test_silence_has_a_deadline_from_the_very_start(monkeypatch: pytest.MonkeyPatch) -> None:
    times, one = starts_within(monkeypatch, 46, lambda: FakeHelper(b"", hangs=True))
    assert times == [0, 22, 45]  # 20 s for the first line, then pauses of 1 s and 2 s
    assert one._report.problem == "GPU telemetry helper does not answer"


def test_after_a_line_the_deadline_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    times, one = starts_within(monkeypatch, 6, lambda: FakeHelper(GOOD, hangs=True))
    assert times == [0, 5]  # 1 s between two lines, 2 s of patience, a pause of 1 s
    assert watts(one) == [130.25, None, 130.25]


def test_a_helper_that_said_it_will_ask_again_is_left_alone_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = msgspec.json.encode({"gpus": [], "problem": "GPU telemetry off: GPU is lost", "final": False}) + b"\n"
    times, one = starts_within(monkeypatch, 82, lambda: FakeHelper(gone, hangs=True))
    assert times == [0]
    assert one._report.problem == "GPU telemetry off: GPU is lost"
    times, one = starts_within(monkeypatch, 85, lambda: FakeHelper(gone, hangs=True))
    assert times == [0, 84]  # but it is not waited for for ever


def test_after_a_good_while_the_pauses_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, times = Clock(monkeypatch), []
    alive: list[FakeHelper] = []

    def popen(*_: object, **__: object) -> FakeHelper:
        times.append(clock.now - 1000.0)
        alive.append(FakeHelper(b"", hangs=len(times) == 4))
        return alive[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    one = Monitor(Meter())
    for second in range(110):
        if len(times) == 4 and second < 100:
            os.write(alive[3]._write, GOOD)
        elif second == 100:
            alive[3].kill()
        one._poll_helper()
        clock.now += 1.0
    assert times == [0, 1, 3, 7, 101, 103, 107]
    one._end_helper()


def test_a_helper_in_a_driver_call_that_cannot_be_killed_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    times, _ = starts_within(monkeypatch, 9, lambda: FakeHelper(GOOD, hangs=True, unkillable=True))
    assert times == [0, 5]
