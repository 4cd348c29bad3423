"""A whole life in a real terminal: start, first loss, save, stop, come back; and a run that does not exist yet."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from andrea_engine.run.checkpoint import checkpoint_bytes
from andrea_engine.run.config import load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.launch import engine_status
from tests.conftest import TrainedRun
from tests.e2e.conftest import OpenTerminal
from tests.e2e.terminal import Terminal, console, engine, engines_of
from tests.support import records
from tests.support.engines import wait_until
from tests.support.tiny import RARELY, make_run

FIRST_LOSS = r"EMA \d+\.\d{3}"


def stop(terminal: Terminal) -> str:
    """`q` Enter; returns the farewell."""
    terminal.press("q")
    terminal.until_shown("Stop this run?", "checkpoint after this step")
    terminal.press("\r")
    assert terminal.wait() == 0
    terminal.assert_sane()
    (farewell,) = terminal.farewell
    return farewell


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
def test_from_the_start_to_the_stop(size: tuple[int, int], tmp_path: Path, open_terminal: OpenTerminal) -> None:
    directory = make_run(tmp_path / "run", RARELY)
    terminal = open_terminal(directory.path, "--start", size=size)
    terminal.search(FIRST_LOSS)
    terminal.until_shown("● training")
    terminal.press("c")
    terminal.search(r"saved step [\d,]+ \(\d+ kB")
    (asked,) = records.events(directory, "save_durable", reason="operator")
    assert asked.step in records.checkpoints(directory)
    farewell = stop(terminal)
    wait_until(lambda: not engines_of(directory.path), "the engine's end")
    last = records.checkpoints(directory)[-1]
    assert last > (asked.step or 0)
    assert f"stopped, saved at step {last:,}" in farewell or f"step {last:,}" in farewell
    assert f"step_{last:06d}.bin" in farewell
    assert records.steps(directory) == list(range(1, last + 1))
    (ended,) = records.events(directory, "stop")
    assert (ended.step, ended.integer("exit_code")) == (last, 0)
    checked = engine("check", directory.path)
    assert (checked.returncode, checked.stderr) == (0, "")
    again = open_terminal(directory.path, size=size)
    again.until_shown("□ stopped", "r resume")
    again.press("r")
    again.until_shown("● training")
    again.until(lambda: len(records.events(directory, "resumed", step=last)) == 1, "it resumed where it was")
    stop(again)
    assert records.checkpoints(directory)[-1] > last


def test_a_run_that_does_not_exist(tmp_path: Path, open_terminal: OpenTerminal) -> None:
    """The real demo: Enter creates it, and its first loss comes within a minute."""
    directory = RunDirectory(tmp_path / "demo")
    terminal = open_terminal(directory.path)
    terminal.until_shown("A new run", "[demo]", "Enter")
    assert not directory.path.exists()
    terminal.press("\r")
    terminal.search(FIRST_LOSS)
    config = load_config(directory)
    stop(terminal)
    last = records.checkpoints(directory)[-1]
    assert records.checkpoint(directory, last).stat().st_size == checkpoint_bytes(config.n_params)
    assert engine("check", directory.path).returncode == 0


def test_esc_on_the_new_run_screen_leaves_no_trace(tmp_path: Path, open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(tmp_path / "deep" / "120m", size=(80, 24))
    terminal.until_shown("A new run", "[120m]")
    terminal.press("\x1b")
    assert terminal.wait() == 0
    terminal.assert_sane()
    assert terminal.farewell == []
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_is_killed_is_told_and_can_be_resumed(
    run_copy: RunDirectory, open_terminal: OpenTerminal
) -> None:
    run_copy.config.write_text(run_copy.config.read_text().replace("every = 10\n", "every = 1000000\n"))
    before = max(records.checkpoints(run_copy))
    terminal = open_terminal(run_copy.path, "--start")
    terminal.until_shown("● training")
    pid = engine_status(run_copy).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    terminal.until_shown("✕ crashed", "killed from outside", "r resume")
    claimed = re.search(r"saved step ([\d,]+)", terminal.lines[-2])
    assert claimed is None or int(claimed[1].replace(",", "")) == before, "that of the session before, which was saved"
    terminal.press("r")
    terminal.until_shown("● training")
    stop(terminal)
    assert engine("check", run_copy.path).returncode == 0


# -- without a terminal ---------------------------------------------------------------------------------------------


def has_no_controls(text: str) -> bool:
    return not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


def test_once_and_json_on_a_finished_run(trained: TrainedRun) -> None:
    assert trained.code == 0, trained.output
    text = console(trained.directory.path, "--once")
    assert (text.returncode, text.stderr) == (0, "")
    assert has_no_controls(text.stdout)
    assert f"step        {trained.steps}" in text.stdout
    found = console(trained.directory.path, "--json")
    facts = json.loads(found.stdout)
    entries = records.entries(trained.directory)
    assert (facts["alive"], facts["pid"]) == (False, None)
    assert (facts["step"], facts["entries"]) == (trained.steps, trained.steps)
    assert facts["loss"] == entries[-1].loss
    assert facts["ema"] == entries[-1].ema
    assert facts["samples"] == len(records.sample_steps(trained.directory))
    assert [c["step"] for c in facts["checkpoints"] if not c["problem"]][::-1] == records.checkpoints(trained.directory)


def test_once_and_json_on_an_empty_run(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    text = console(directory.path, "--once")
    assert text.returncode == 0
    assert "not been started" in text.stdout
    facts = json.loads(console(directory.path, "--json").stdout)
    assert (facts["state"], facts["alive"], facts["step"], facts["entries"]) == ("empty", False, 0, 0)
    assert [path.name for path in directory.path.iterdir()] == ["run.toml"]


def test_once_on_a_directory_that_is_missing_or_something_else(tmp_path: Path) -> None:
    missing = console(tmp_path / "nothing", "--once")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert f"there is no run at {tmp_path / 'nothing'}; " in missing.stderr
    as_json = console(tmp_path / "nothing", "--json")
    assert (as_json.returncode, json.loads(as_json.stdout)["state"]) == (2, "missing")
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "file").write_text("x")
    wrong = console(tmp_path / "file", "--once")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert len(wrong.stderr.splitlines()) == 1
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("x")
    assert console(other, "--once").returncode == 2


@pytest.mark.parametrize("arguments", [[], ["--start"], ["--watch"]])
def test_without_a_terminal_one_sentence_and_exit_2(arguments: list[str], tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    result = console(directory.path, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert "--once" in line
    assert has_no_controls(line)
    assert [path.name for path in directory.path.iterdir()] == ["run.toml"]


def test_a_dumb_terminal_gets_the_sentence_too(tmp_path: Path, open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(make_run(tmp_path / "run").path, environment={"TERM": "dumb"})
    assert terminal.wait() == 2
    assert b"\x1b" not in terminal.raw
    assert b"--once" in terminal.raw


def test_wrong_arguments_are_usage_errors() -> None:
    assert console().returncode == 2
    assert console("x", "--nonsense").returncode == 2
    assert console("--help").returncode == 0
    assert console("--version").stdout.startswith("andrea-tui ")
