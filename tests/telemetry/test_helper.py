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

from .standin import FIRST, SECOND, StandIn


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
    assert first == msgspec.to_builtins(msgspec.structs.replace(FIRST, **{field: None}))
    if scenario == "no-power":
        assert second == msgspec.to_builtins(SECOND)
    else:
        assert second["utilisation"] is None  # though this device would have said 0


@pytest.mark.parametrize(("scenario", "word"), [("lost", "lost"), ("lost-inside", "lost"), ("mismatch", "mismatch")])
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


def test_a_mismatch_at_the_start(nvml: StandIn) -> None:
    nvml.say("mismatch")
    with helper() as talking:
        assert "mismatch" in talking.line()["problem"]
        nvml.say("ok")
        assert talking.line_with("problem", "")["gpus"]


def test_no_library(no_nvml: None) -> None:
    with helper() as talking:
        assert talking.line() == {"gpus": [], "problem": "no NVIDIA GPU", "final": True}
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
