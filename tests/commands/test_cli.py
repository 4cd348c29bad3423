"""The command line itself: help, usage errors, exit codes, and what a closed pipe or an interrupt does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from andrea_engine import __version__
from andrea_engine.cli import COMMANDS
from tests.conftest import TrainedRun
from tests.support.inprocess import andrea_engine

PYTHON = [sys.executable, "-m", "andrea_engine"]


def test_help_lists_every_command() -> None:
    result = andrea_engine("--help")
    assert result.code == 0
    assert all(f"\n    {command} " in result.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    result = andrea_engine(command, "--help")
    assert result.code == 0
    assert result.out.startswith(f"usage: andrea-engine {command} ")
    assert result.err == ""


def test_version() -> None:
    assert andrea_engine("--version").out == f"andrea-engine {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [[], ["dance"], ["train"], ["train", "x", "--steps", "many"], ["status", "x", "--jsn"]]
)
def test_a_usage_error_is_exit_code_2(arguments: list[str]) -> None:
    result = andrea_engine(*arguments)
    assert result.code == 2
    assert "usage: andrea-engine" in result.err


@pytest.mark.parametrize("command", ["train", "sample", "chat"])
def test_a_path_that_is_no_run_is_one_sentence(tmp_path: Path, command: str) -> None:
    result = andrea_engine(command, tmp_path / "nothing")
    assert result.code == 2
    assert result.err == (
        f"andrea-engine: {tmp_path / 'nothing'} is not a run directory; "
        f"create it with: andrea-engine init {tmp_path / 'nothing'}\n"
    )


@pytest.mark.parametrize("steps", ["0", "-5"])
def test_train_refuses_a_target_below_1(trained: TrainedRun, steps: str) -> None:
    result = andrea_engine("train", trained.directory.path, "--steps", steps)
    assert result.code == 2
    assert f"--steps must be 1 or more, got {steps}" in result.err


def test_a_reader_that_leaves_early_is_no_error(trained: TrainedRun) -> None:
    """As with `andrea-engine status RUN | head -1`."""
    command = [*PYTHON, "status", str(trained.directory.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_standard_input_is_scored_by_a_real_process() -> None:
    result = subprocess.run(
        [*PYTHON, "score", "-"], input=b"region " * 100, capture_output=True, timeout=60, check=False
    )
    assert result.returncode == 0
    assert b"bigram       0.35 of 35" in result.stdout
