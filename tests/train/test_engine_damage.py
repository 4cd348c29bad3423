"""Damaged and foreign files, two engines, bad configuration: refused or passed over with a reason, never silently."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import read_heartbeat
from tests.conftest import TrainedRun
from tests.support import records
from tests.support.engines import Engine, Engines, wait_until
from tests.support.inprocess import andrea_engine
from tests.support.tiny import CHECKPOINT_BYTES, N_PARAMS, RARELY, configure, make_run


def _truncated(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


def _flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8 + 4 * 1000] ^= 1  # the lowest bit of a weight: a number like any other
    path.write_bytes(data)


def _header(step: int, count: int) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_bytes(np.array([step, count], "<i4").tobytes() + path.read_bytes()[8:])

    return change


def _moments(value: float) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        numbers = np.fromfile(path, "<f4", offset=8)
        numbers[N_PARAMS:] = value
        path.write_bytes(path.read_bytes()[:8] + numbers.tobytes())

    return change


def _replaced_by(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_truncated(CHECKPOINT_BYTES - 8), "bytes, but its header needs"),
        (_truncated(0), "only 0 bytes long"),
        (_truncated(7), "only 7 bytes long"),
        (_truncated(8), "8 bytes, but its header needs"),
        (_flipped, "its bytes differ from the digest recorded when it was saved"),
        (_header(39, N_PARAMS), "header says step 39, the name says 40"),
        (_header(-1, N_PARAMS), "header holds step -1"),
        (_replaced_by(os.mkfifo), "cannot be opened"),
        (_replaced_by(Path.mkdir), "cannot be opened"),
        (_replaced_by(lambda path: path.symlink_to(path.with_name("step_000030.bin"))), "cannot be opened"),
    ],
    ids=["8 bytes short", "empty", "7 bytes", "8 bytes", "a bit", "older step", "negative", "pipe", "folder", "link"],
)
def test_the_previous_checkpoint_takes_the_place_of_a_damaged_one(
    trained: TrainedRun, run_copy: RunDirectory, damage: Callable[[Path], None], reason: str
) -> None:
    newest = records.checkpoint(run_copy, 40)
    damage(newest)
    result = andrea_engine("train", run_copy.path, "--steps", 35)
    assert result.code == 0, result.err
    assert "resuming from step_000030.bin" in result.out
    notice = next(line for line in records.notices(run_copy).splitlines() if "step_000040.bin" in line)
    assert "passed over step_000040.bin: it " in notice
    assert reason in notice
    assert os.path.lexists(newest), "what is damaged is left for the operator to look at"

    result = andrea_engine("train", run_copy.path, "--steps", trained.steps)
    if newest.is_dir():
        assert result.code == 3, "nothing is removed that is not ours to remove"
    else:
        assert result.code == 0
        assert newest.read_bytes() == records.checkpoint(trained.directory, 40).read_bytes()


def test_going_back_keeps_the_older_branch_in_the_record(trained: TrainedRun, run_copy: RunDirectory) -> None:
    before = run_copy.loss.read_bytes().removesuffix(b"\n]\n")
    _truncated(100)(records.checkpoint(run_copy, 40))
    assert andrea_engine("train", run_copy.path, "--steps", trained.steps).code == 0
    assert run_copy.loss.read_bytes().startswith(before), "append-only, whatever happens"
    assert records.steps(run_copy) == [*range(1, 41), *range(31, 41)]
    same = records.checkpoint(trained.directory, 40).read_bytes()
    assert records.checkpoint(run_copy, 40).read_bytes() == same, "the damaged file was replaced by the true one"
    assert records.trained(run_copy) == records.trained(trained.directory)
    assert andrea_engine("check", run_copy.path, "--deep").code == 0


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_moments(0.0), "has moments that are all zero at step 40"),
        (_moments(float("nan")), "has m that are not finite"),
        (_moments(-1.0), "has negative second moments"),
    ],
)
def test_numbers_that_cannot_be_trained_from_are_passed_over(
    run_copy: RunDirectory, damage: Callable[[Path], None], reason: str
) -> None:
    damage(records.checkpoint(run_copy, 40))
    _forget_digests(run_copy)
    result = andrea_engine("train", run_copy.path, "--steps", 31)
    assert result.code == 0, result.err
    notices = records.notices(run_copy)
    assert f"passed over step_000040.bin: it {reason}" in notices
    assert "step_000030.bin is unverified: no digest of it was recorded" in notices


def test_without_any_valid_checkpoint_nothing_is_trained(run_copy: RunDirectory) -> None:
    for step in records.checkpoints(run_copy):
        os.truncate(records.checkpoint(run_copy, step), 1000 + step)
    result = andrea_engine("train", run_copy.path)
    assert result.code == 5
    for step in records.checkpoints(run_copy):
        assert f"step_{step:06d}.bin {1000 + step:,} bytes, but its header needs {CHECKPOINT_BYTES:,}" in result.err
    beat = read_heartbeat(run_copy.heartbeat)
    assert beat is not None
    assert (beat.phase, beat.exit_code) == ("failed", 5)
    assert records.steps(run_copy) == list(range(1, 41))


def test_a_record_without_checkpoints_is_not_continued_with_random_weights(run_copy: RunDirectory) -> None:
    for step in records.checkpoints(run_copy):
        records.checkpoint(run_copy, step).unlink()
    result = andrea_engine("train", run_copy.path)
    assert result.code == 5
    assert "has a loss record but no checkpoint" in result.err
    assert records.checkpoints(run_copy) == []


def test_the_checkpoint_of_another_model_is_refused(run_copy: RunDirectory) -> None:
    other = 2 * N_PARAMS
    records.checkpoint(run_copy, 50).write_bytes(np.array([50, other], "<i4").tobytes() + bytes(12 * other))
    result = andrea_engine("train", run_copy.path)
    assert result.code == 5
    assert f"holds {other:,} parameters, but this model has {N_PARAMS:,}" in result.err
    assert records.checkpoints(run_copy) == [10, 20, 30, 40, 50]


def test_damage_inside_the_record_needs_a_word_from_the_operator(run_copy: RunDirectory) -> None:
    lines = run_copy.loss.read_bytes().splitlines(keepends=True)
    lines[20] = b"#" * len(lines[20].rstrip(b"\n")) + b"\n"
    run_copy.loss.write_bytes(b"".join(lines))
    result = andrea_engine("train", run_copy.path, "--steps", 41)
    assert result.code == 2
    assert "1 unreadable line(s), the first at line 21" in result.err
    assert andrea_engine("train", run_copy.path, "--steps", 41, "--accept-damaged-record").code == 0
    assert run_copy.loss.read_bytes().startswith(b"".join(lines).removesuffix(b"\n]\n"))


@pytest.mark.parametrize("content", [b"garbage", b"[]", b"\xff\xfe"])
def test_unreadable_convenience_files_never_block_a_start(run_copy: RunDirectory, content: bytes) -> None:
    run_copy.state.write_bytes(content)
    run_copy.samples.write_bytes(content)
    assert andrea_engine("train", run_copy.path, "--steps", 50).code == 0
    assert (run_copy.path / ".state.json.unreadable-1").read_bytes() == content
    assert "the bandit is rebuilt from the loss record" in records.notices(run_copy)
    assert 50 in records.sample_steps(run_copy)
    state = records.strict_json(run_copy.state)
    assert isinstance(state, dict)
    assert sum(arm["pulls"] for arm in state["arms"].values()) == 50


def test_a_second_engine_is_refused_and_names_the_first(engines: Engines, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", RARELY)
    first = engines.start(directory)
    first.wait_step(3)
    result = andrea_engine("train", directory.path)
    assert result.code == 4
    assert f"in use by the engine with pid {first.pid}" in result.err
    beat = read_heartbeat(directory.heartbeat)
    assert beat is not None
    assert beat.pid == first.pid, "the loser leaves no trace"
    first.kill()
    assert andrea_engine("train", directory.path, "--steps", 3).code == 0, "the kernel gave the lock back at once"


def test_of_four_engines_at_once_exactly_one_runs(engines: Engines, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", RARELY)
    started = [engines.start(directory) for _ in range(4)]
    (winner,) = _left_of(started, 1)
    assert [engine.wait() for engine in started if engine is not winner] == [4, 4, 4]
    winner.wait_step(3)
    assert directory.lock.read_text().startswith(f'{{"pid":{winner.pid},')


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"model": {"heads": 3}}, "model.d_model 32 is not a multiple of model.heads 3"),
        ({"schedule": {"batch": 0}}, "schedule.batch: expected"),
        ({"schedule": {"bach": 4}}, "bach"),
        ({"sample": {"every": 7}}, "must be multiples of one another"),
        ({"policy": {"floors": {"harbour": 2.0}, "caps": {"harbour": 1.0}}}, "harbour"),
        ({"sources": []}, "names no [[sources]]"),
        (
            {"sources": [{"name": "x", "kind": "text", "path": "/nowhere/at/all"}]},
            "no source has any text (x: /nowhere/at/all",
        ),
        ({"sources": [{"name": "x", "kind": "films"}]}, "films"),
        ({"device": {"name": "cuda:9"}}, "CUDA"),
    ],
)
def test_a_bad_configuration_is_one_sentence(tmp_path: Path, tables: dict[str, object], sentence: str) -> None:
    directory = make_run(tmp_path / "run", tables)
    result = andrea_engine("train", directory.path)
    assert result.code == 2
    assert sentence in result.err
    assert result.err.startswith("andrea-engine: ")
    assert result.err.count("\n") == 1


def test_a_process_with_bad_configuration_prints_no_traceback(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    directory.config.write_text("[model\n")
    command = [sys.executable, "-m", "andrea_engine", "train", str(directory.path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert "run.toml is not valid TOML" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_tokenizer_of_another_size_is_refused(run_copy: RunDirectory) -> None:
    configure(run_copy, {"tokenizer": {"segments": 41}})
    result = andrea_engine("train", run_copy.path)
    assert result.code == 2
    assert "tokenizer.segments cannot change within a run" in result.err


def test_changed_text_is_said(run_copy: RunDirectory, tmp_path: Path) -> None:
    text = tmp_path / "garden.txt"
    text.write_text("Another garden, with other beds and other birds.\n" * 60)
    sources = [{"name": name, "kind": "text", "path": str(text)} for name in ("garden", "harbour")]
    configure(run_copy, {"sources": sources})
    assert andrea_engine("train", run_copy.path, "--steps", 41).code == 0
    assert "the text of garden, harbour has changed" in records.notices(run_copy)


@pytest.fixture
def read_only(run_copy: RunDirectory) -> Iterator[RunDirectory]:
    """The run on a mount that cannot be written: mode bits would not stop root."""
    path = str(run_copy.path)
    steps = (["mount", "--bind", path, path], ["mount", "-o", "remount,ro,bind", path])
    for step in steps:
        if subprocess.run(step, capture_output=True, check=False).returncode:
            subprocess.run(["umount", path], capture_output=True, check=False)
            pytest.skip("mounting is not permitted here")
    yield run_copy
    subprocess.run(["umount", "--lazy", path], check=True)


def test_a_directory_that_cannot_be_written(read_only: RunDirectory) -> None:
    result = andrea_engine("train", read_only.path)
    assert result.code == 2
    assert f"{read_only.path} cannot be written (Read-only file system)" in result.err
    assert andrea_engine("status", read_only.path).code == 0, "it can still be looked at"


def _left_of(started: list[Engine], count: int) -> list[Engine]:
    """Wait until only `count` of the engines run."""

    def left() -> list[Engine] | None:
        running = [engine for engine in started if engine.process.poll() is None]
        return running if len(running) <= count else None

    return wait_until(left, f"the end of all but {count} engines")


def _forget_digests(directory: RunDirectory) -> None:
    lines = directory.events.read_bytes().splitlines(keepends=True)
    directory.events.write_bytes(b"".join(line for line in lines if b"sha256" not in line))
