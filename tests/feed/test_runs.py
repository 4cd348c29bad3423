"""The list of runs: right about ordinary ones, bounded and unmoved by hostile ones."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_tui.feed import runs
from andrea_tui.feed.runs import RunsReader, disk_bytes, find_runs, holds_runs, newest_run, read_some
from andrea_tui.feed.runs_text import runs_json, runs_text
from tests.screens.situations import situation
from tests.support.tiny import make_run


def record(path: Path, steps: int, *, pad: str = "") -> Path:
    """A loss record whose EMA is 10 - step / steps."""
    lines = [json.dumps({"step": s, "loss": 9.0, "ema": 10 - s / steps, "source": pad}) for s in range(1, steps + 1)]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    return path


def test_rows_of_runs_in_every_state(tmp_path: Path) -> None:
    (tmp_path / "group").mkdir()
    with (
        situation("training", tmp_path / "b") as alive,
        situation("finished", tmp_path / "a"),
        situation("recorded", tmp_path / "group" / "old"),
        situation("rubbish", tmp_path / "rubbish"),
    ):
        (tmp_path / "notes.txt").write_text("no run")
        rows = {row.name: row for row in RunsReader(tmp_path).poll().rows}
        assert list(rows) == ["a", "b", "group/old", "rubbish"]
        b = rows["b"]
        assert (b.word, b.alive, b.step, b.total_steps) == ("training", True, 40, 1_000_000)
        assert (b.ema, b.score, b.gate_low, b.gate_limit) == (6.1 - 40 / 20, 87.0, 0, 5)
        assert b.curve == tuple(6.1 - s / 20 for s in range(1, 41))
        assert b.bytes == disk_bytes(alive.path)
        assert (rows["a"].word, rows["a"].alive) == ("finished", False)
        old = rows["group/old"]
        assert (old.word, old.step, old.ema, old.curve[-1], old.total_steps) == ("recorded", 99, None, 8.01, None)
        assert rows["rubbish"].curve == ()
        assert rows["rubbish"].ema is None


def test_a_long_record_is_sampled_from_end_to_end_and_read_a_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record(tmp_path / "loss", 40_000, pad="x" * 50)
    read = 0
    pread = os.pread

    def counting(descriptor: int, count: int, offset: int) -> bytes:
        nonlocal read
        read += count
        return pread(descriptor, count, offset)

    monkeypatch.setattr(os, "pread", counting)
    entries = read_some(path)
    assert read < 200_000 < path.stat().st_size / 10
    steps = [entry.step for entry in entries]
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (1, 40_000)
    assert max(b - a for a, b in itertools.pairwise(steps)) <= 40_000 / runs.WINDOWS * 1.2
    assert all(entry.ema == 10 - entry.step / 40_000 for entry in entries)


def test_only_the_branch_that_leads_to_the_weights_is_drawn(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    entries = [{"step": s, "loss": 1.0, "ema": float(s)} for s in [*range(1, 31), *range(11, 21)]]
    directory.loss.write_text("[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n")
    directory.journal.write_text(json.dumps({"step": 21, "loss": 1.0, "ema": 0.5}) + "\n" + '{"step": 22, "lo')
    (row,) = RunsReader(tmp_path).poll().rows
    assert row.curve == (*map(float, range(1, 21)), 0.5)
    assert (row.step, row.ema) == (21, 0.5)


def test_what_did_not_change_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = make_run(tmp_path / "run")
    record(directory.loss, 10)
    reader = RunsReader(tmp_path)
    before = reader.poll()
    opened: list[Path] = []
    monkeypatch.setattr(runs, "read_some", lambda path: opened.append(path) or [])
    monkeypatch.setattr(runs, "load_config", lambda directory: pytest.fail("read again"))
    monkeypatch.setattr(runs, "engine_status", lambda directory: pytest.fail("asked again"))
    monkeypatch.setattr(runs, "disk_bytes", lambda path: pytest.fail("added up again"))
    assert reader.poll() == before
    assert opened == []
    record(directory.loss, 11)
    assert reader.poll().rows[0].curve == ()
    assert opened == [directory.loss]


def test_hostile_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = make_run(tmp_path / "good")
    os.mkfifo(good.loss)
    os.mkfifo(good.events)
    (tmp_path / "link").symlink_to(good.path)
    (tmp_path / "loop").symlink_to(tmp_path)
    evil = make_run(tmp_path / "e\x1b[2Jvil\n")
    evil.loss.symlink_to("/dev/zero")
    evil.heartbeat.write_text("[" * 100_000)
    evil.journal.mkdir()
    make_run(tmp_path / os.fsdecode(b"\xff"))
    (tmp_path / "locked").mkdir()
    scandir = os.scandir

    def refusing(path: object) -> object:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", refusing)  # the superuser reads everything
    listing = RunsReader(tmp_path).poll()
    assert [row.name for row in listing.rows] == sorted([evil.path.name, "good", os.fsdecode(b"\xff")])
    assert all(row.curve == () for row in listing.rows)
    assert all(char.isprintable() or char == "\n" for char in runs_text(listing))
    assert len(json.loads(runs_json(listing))) == 3


def test_a_thousand_directories_are_listed_and_no_more_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1000):
        (tmp_path / f"{number:04}").mkdir()
        (tmp_path / f"{number:04}" / "model.loss.json").write_text("[[1, 9.0], [2, 8.5]]")
    listing = RunsReader(tmp_path).poll()
    assert len(listing.rows) == 1000
    assert not listing.left_off
    assert {(row.word, row.step, row.curve) for row in listing.rows} == {("recorded", 2, (9.0, 8.5))}
    monkeypatch.setattr(runs, "MOST_RUNS", 10)
    short = RunsReader(tmp_path).poll()
    assert (len(short.rows), short.left_off) == (10, True)
    assert runs_text(short).endswith("there are more runs than are shown")


def test_looking_for_runs_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}" / "deep" / "deeper").mkdir(parents=True)
    make_run(tmp_path / "zz")
    assert holds_runs(tmp_path)
    monkeypatch.setattr(runs, "MOST_LOOKED_AT", 15)
    asked: list[Path] = []
    is_run = runs.is_run
    monkeypatch.setattr(runs, "is_run", lambda path: asked.append(path) or is_run(path))
    list(find_runs(tmp_path))
    assert len(asked) == 15
    assert all("deeper" not in path.parts for path in asked), "two levels, and no more"


def test_what_holds_runs(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "one")
    assert holds_runs(tmp_path / "runs")
    assert holds_runs(tmp_path), "one level more"
    assert not holds_runs(run.path), "a run is a run"
    assert not holds_runs(tmp_path / "missing")
    assert not holds_runs(run.config)
    (tmp_path / "empty").mkdir()
    assert not holds_runs(tmp_path / "empty")
    make_run(run.path / "inner")
    assert list(find_runs(tmp_path)) == [run.path]


def test_the_newest_run_is_the_one_that_changed_last(tmp_path: Path) -> None:
    assert newest_run(tmp_path) is None
    for name, at in (("a", 100), ("b", 300), ("c", 200)):
        os.utime(make_run(tmp_path / name).config, (at, at))
    assert newest_run(tmp_path) == tmp_path / "b"
    record(RunDirectory(tmp_path / "a").loss, 3)
    assert newest_run(tmp_path) == tmp_path / "a"


def test_a_root_that_cannot_be_read(tmp_path: Path) -> None:
    listing = RunsReader(tmp_path / "gone").poll()
    assert listing.problem == f"{tmp_path / 'gone'} cannot be read: No such file or directory"
    assert runs_text(listing) == listing.problem
