"""The reader of the checkpoint browser: what it knows of each file, and what it leaves alone."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from andrea_engine.run.checkpoint import checkpoint_name
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog
from andrea_engine.run.pins import PinNote, pin, unpin
from andrea_tui.feed import checkpoints
from andrea_tui.feed.checkpoints import CheckpointListing, CheckpointReader


def put(directory: RunDirectory, step: int, header: int | None = None) -> Path:
    path = directory.path / checkpoint_name(step)
    path.write_bytes(struct.pack("<ii3f", step if header is None else header, 1, 0.5, 0.0, 0.0))
    return path


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path)
    for step in (100, 200, 300, 1_000_000):
        put(directory, step)
    log = EventLog(directory.events, 1)
    for step, score in ((100, 80.0), (250, 20.0)):
        log.append("sample", at=1.0, step=step, total=score)
    log.append("save_durable", at=500.0, step=200, sha256="ab", reason="operator", pinned=True)
    return directory


def look(reader: CheckpointReader) -> CheckpointListing:
    listing = reader.poll()
    assert listing is not None
    return listing


def test_newest_first_with_time_score_pin_and_digest(run: RunDirectory) -> None:
    os.utime(run.path / checkpoint_name(100), (77, 77))
    listing = look(CheckpointReader(run))
    assert [row.step for row in listing.rows] == [1_000_000, 300, 200, 100]
    assert [row.score for row in listing.rows] == [(250, 20.0), (250, 20.0), (100, 80.0), (100, 80.0)]
    assert (listing.valid, listing.bytes, listing.problem) == (4, 80, "")
    of_200, of_100 = listing.rows[2:]
    assert (of_200.time, of_200.sha256) == (500.0, "ab")
    assert of_200.pin == PinNote("asked for by you", "", 500.0)
    assert (of_100.time, of_100.sha256, of_100.pin) == (77.0, "", None), "nothing is known but what the file tells"


def test_before_the_first_sample_there_is_no_score(run: RunDirectory) -> None:
    put(run, 50)
    assert look(CheckpointReader(run)).rows[-1].score is None


def test_samples_that_were_made_again_count(run: RunDirectory) -> None:
    reader = CheckpointReader(run)
    look(reader)
    EventLog(run.events, 2).append("sample", step=150, total=60.0)  # after a roll-back to 100
    assert [row.score for row in look(reader).rows] == [(150, 60.0), (150, 60.0), (150, 60.0), (100, 80.0)]


def test_only_changes_are_news_and_only_changed_files_are_opened(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    inspect = checkpoints.inspect_checkpoint

    def counting(path: Path, n_params: int | None = None) -> object:
        opened.append(path.name)
        return inspect(path, n_params)

    monkeypatch.setattr(checkpoints, "inspect_checkpoint", counting)
    reader = CheckpointReader(run)
    look(reader)
    assert len(opened) == 4
    assert reader.poll() is None
    pin(run, 300, by="eve")
    assert look(reader).rows[1].pin is not None
    unpin(run, 300, by="eve")
    assert look(reader).rows[1].pin is None
    assert len(opened) == 4
    put(run, 400)
    (run.path / checkpoint_name(100)).unlink()
    assert [row.step for row in look(reader).rows] == [1_000_000, 400, 300, 200]
    assert opened[4:] == [checkpoint_name(400)]
    reader.n_params = 2
    assert look(reader).rows[0].problem == "holds 1 parameters, but this model has 2"


def test_hostile_names_and_files(run: RunDirectory) -> None:
    path = run.path
    (path / checkpoint_name(400)).symlink_to("/dev/zero")
    os.mkfifo(path / checkpoint_name(500))
    (path / checkpoint_name(600)).mkdir()
    (path / checkpoint_name(700)).write_bytes(b"x")
    put(run, 800, header=801)
    for name in ("step_1.bin", "step_000001.bin.tmp", "step_0000001.bin", "step_\x1b[2J.bin", "../step_000001.bin"):
        (path / name.replace("../", "..%2f")).write_bytes(b"")
    (path / os.fsdecode(b"step_\xff00001.bin")).write_bytes(b"")
    listing = look(CheckpointReader(run))
    problems = {row.step: row.problem for row in listing.rows if not row.valid}
    assert sorted(problems) == [400, 500, 600, 700, 800]
    assert len(listing.rows) == 9
    assert problems[800] == "header says step 801, the name says 800"
    assert problems[700] == "only 1 bytes long, shorter than the header"


def test_a_directory_that_is_gone_says_so(tmp_path: Path) -> None:
    listing = look(CheckpointReader(RunDirectory(tmp_path / "gone")))
    assert (listing.rows, listing.problem) == ((), f"{tmp_path / 'gone'} cannot be read: No such file or directory")


def test_an_event_log_that_was_replaced_is_read_anew(run: RunDirectory) -> None:
    reader = CheckpointReader(run)
    look(reader)
    run.events.unlink()
    EventLog(run.events, 1).append("pin", step=300, reason="other", by="")
    rows = look(reader).rows
    assert [row.step for row in rows if row.pin] == [300]
    assert all(row.score is None for row in rows)
