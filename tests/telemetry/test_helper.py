"""The helper process against the stand-in library: one line a reading, unknown is null."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from .standin import FIRST, INSTANCES, SECOND, StandIn


class Helper:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def line(self) -> dict[str, Any]:
        """The next line; fails when none comes."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], 30)[0], "the helper said nothing"
        text = self.process.stdout.readline()
        assert text, "the helper ended"
        report = json.loads(text)
        assert isinstance(report, dict)
        return report

    def line_with(self, name: str, value: object) -> dict[str, Any]:
        while (report := self.line())[name] != value:
            pass
        return report


@contextmanager
def helper(interval: float = 0.01, retry: float = 0.05) -> Iterator[Helper]:
    command = [sys.executable, "-m", "andrea_engine.telemetry.helper", str(interval), str(retry)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
        try:
            yield Helper(process)
        finally:
            process.kill()


def test_two_devices(nvml: StandIn) -> None:
    with helper() as talking:
        for _ in range(3):
            assert talking.line() == {"gpus": msgspec.to_builtins([FIRST, SECOND]), "problem": ""}
    assert len(nvml.initialisations()) == 1


@pytest.mark.parametrize(("scenario", "field"), [("no-power", "power_w"), ("no-util", "utilisation")])
def test_a_reading_that_is_not_supported_is_null_and_costs_no_other(nvml: StandIn, scenario: str, field: str) -> None:
    nvml.say(scenario)
    with helper() as talking:
        first, second = talking.line()["gpus"]
    missing = {field.removesuffix("_w"): "not supported", **FIRST.missing}
    assert first == msgspec.to_builtins(msgspec.structs.replace(FIRST, missing=missing, **{field: None}))
    if scenario == "no-power":
        assert second == msgspec.to_builtins(SECOND)
    else:
        assert second["utilisation"] is None  # though this device would have said 0


@pytest.mark.parametrize(
    ("scenario", "word"), [("lost", "lost"), ("mismatch", "version mismatch"), ("no-driver", "driver is not loaded")]
)
def test_a_driver_that_goes_and_comes_back(nvml: StandIn, scenario: str, word: str) -> None:
    """Asked again in a fresh image of the same process: the stand-in refuses for good one that saw a mismatch."""
    with helper() as talking:
        assert talking.line()["problem"] == ""
        nvml.say(scenario)
        report = talking.line_with("gpus", [])
        assert report["problem"].startswith("GPU telemetry off: ")
        assert word in report["problem"]
        assert report["final"] is False
        nvml.say("ok")
        assert talking.line_with("problem", "")["gpus"] == msgspec.to_builtins([FIRST, SECOND])
        assert talking.process.poll() is None
        started = nvml.initialisations()
        assert len(started) >= 2
        assert set(started) == {talking.process.pid}


@pytest.mark.parametrize(("scenario", "word"), [("lost-inside", "lost"), ("lost-second", "lost"), ("weak", "cables")])
def test_a_device_that_cannot_be_reached_is_named_and_costs_no_other(nvml: StandIn, scenario: str, word: str) -> None:
    """Named as it was known before, and looked for anew after a while."""
    with helper() as talking:
        talking.line()
        nvml.say(scenario)
        while not (report := talking.line())["gpus"][1]["problem"]:
            pass
        first, second = report["gpus"]
        assert word in second["problem"]
        assert (second["uuid"], second["name"], second["power_w"]) == ("GPU-00000001", "Stand-in 1", None)
        assert bool(first["problem"]) == (scenario == "lost-inside")
        if scenario != "lost-inside":
            assert first == msgspec.to_builtins(FIRST)
        before = len(nvml.initialisations())
        while len(nvml.initialisations()) == before:
            talking.line()
        nvml.say("ok")
        assert talking.line_with("gpus", msgspec.to_builtins([FIRST, SECOND]))["problem"] == ""
        assert set(nvml.initialisations()) == {talking.process.pid}


def test_a_device_that_could_never_be_opened_has_its_number_for_a_name(nvml: StandIn) -> None:
    nvml.say("weak")
    with helper() as talking:
        second = talking.line()["gpus"][1]
    assert (second["uuid"], second["name"], second["index"]) == ("", "GPU 1", 1)
    assert "insufficient power" in second["problem"]


def test_what_may_not_be_read_says_so(nvml: StandIn) -> None:
    nvml.say("forbidden")
    with helper() as talking:
        first, second = talking.line()["gpus"]
    assert first["power_w"] is None
    assert first["missing"]["power"] == "no permission"
    assert second == msgspec.to_builtins(SECOND)


def test_a_driver_without_devices(nvml: StandIn) -> None:
    nvml.say("nothing")
    with helper() as talking:
        assert talking.line() == {"gpus": [], "problem": "no NVIDIA GPU: the driver knows of none", "final": False}


def test_what_holds_the_clocks_back(nvml: StandIn) -> None:
    nvml.say("hot")
    with helper() as talking:
        first, second = talking.line()["gpus"]
    assert first["throttle"] == ["power limit", "too hot"]
    assert second["throttle"] == [], "an idle device is not held back"


def test_counters_are_joules(nvml: StandIn) -> None:
    nvml.say("counter 18446744073709551")
    with helper() as talking:
        first, second = talking.line()["gpus"]
    assert first["energy_j"] == pytest.approx(18_446_744_073_709.551)
    assert second["energy_j"] == pytest.approx(2 * 18_446_744_073_709.551)
    assert first["missing"] == {}


def test_a_divided_board_is_followed_by_its_instances(nvml: StandIn) -> None:
    nvml.say("mig")
    with helper() as talking:
        board, *instances, other = talking.line()["gpus"]
    assert board["uuid"] == FIRST.uuid
    assert instances == msgspec.to_builtins(INSTANCES)
    assert other == msgspec.to_builtins(SECOND)


def test_a_mismatch_at_the_start(nvml: StandIn) -> None:
    nvml.say("mismatch")
    with helper() as talking:
        assert "mismatch" in talking.line()["problem"]
        nvml.say("ok")
        assert talking.line_with("problem", "")["gpus"]


def test_no_library(no_nvml: None) -> None:
    with helper() as talking:
        assert talking.line() == {
            "gpus": [],
            "problem": "no NVIDIA GPU: there is no NVML library",
            "final": True,
        }
        assert talking.process.wait(timeout=30) == 0


def test_a_fault_inside_the_library_ends_the_helper_only(nvml: StandIn) -> None:
    with helper() as talking:
        talking.line()
        nvml.say("segv")
        assert talking.process.wait(timeout=30) == -signal.SIGSEGV


def test_the_helper_ends_with_its_reader(nvml: StandIn) -> None:
    with helper() as talking:
        talking.line()
        assert talking.process.stdout is not None
        talking.process.stdout.close()
        assert talking.process.wait(timeout=30) == 0
        assert talking.process.stderr is not None
        assert b"Traceback" not in talking.process.stderr.read()


def test_the_helper_ends_with_its_parent(nvml: StandIn) -> None:
    """The pipe is kept open by somebody else; the parent's death alone has to be enough."""
    read, write = os.pipe()
    script = (
        "import subprocess, sys; command = [sys.executable, '-m', 'andrea_engine.telemetry.helper', '0.01', '0.05'];"
        f"print(subprocess.Popen(command, stdout={write}, pass_fds=[{write}]).pid, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[write]) as parent:
        os.close(write)
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) > 0
        with os.fdopen(read, "rb") as lines:
            assert b"Stand-in" in lines.readline()
            parent.kill()
            lines.read()  # up to its end: the helper, the last writer, is gone
