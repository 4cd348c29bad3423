"""The report on a run directory: all well, or what is wrong and where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from andrea_engine.run.check import check
from andrea_engine.run.checkpoint import file_digest
from andrea_engine.run.config import create_run
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog
from andrea_engine.run.findings import Report
from andrea_engine.run.lock import EngineLock
from andrea_engine.run.samples import Sample, write_samples
from andrea_engine.run.state import write_state

from .helpers import array_text, entry, put_checkpoint

TINY: dict[str, object] = {
    "model": {"d_model": 1, "heads": 1, "layers": 1, "context": 2},
    "tokenizer": {"segments": 1},
}
COUNT = 2 * 258 + 2 + 12


@pytest.fixture
def good(tmp_path: Path) -> RunDirectory:
    """A finished little run: two checkpoints with digests, the record up to the newest, samples and state."""
    directory = RunDirectory(tmp_path / "run")
    assert create_run(directory, "demo", TINY, None).n_params == COUNT
    log = EventLog(directory.events, 1)
    for step in (100, 200):
        path = put_checkpoint(directory.path, step, COUNT)
        log.append("save_durable", step=step, sha256=file_digest(path))
    directory.loss.write_bytes(array_text(entry(step) for step in range(1, 201)))
    directory.journal.write_bytes(b"")
    write_samples(directory.samples, [Sample(step=100, text="a"), Sample(step=200, text="b")])
    write_state(directory.state, {"arms": {}})
    return directory


def texts(report: Report, severity: str) -> list[str]:
    return [f"{finding.path}: {finding.text}" for finding in report.findings if finding.severity == severity]


def one(report: Report, severity: str) -> str:
    found = texts(report, severity)
    assert len(found) == 1, found
    assert report.ok == (severity != "problem")
    return found[0]


def test_a_good_run(good: RunDirectory) -> None:
    report = check(good)
    assert report.ok
    assert texts(report, "problem") == texts(report, "note") == []
    assert texts(report, "ok") == [
        f"run.toml: {COUNT} parameters, 5,000 steps planned",
        "step_000200.bin: valid",
        "step_000100.bin: valid",
        ".loss.json: 200 entries, steps 1 to 200",
        ".samples.json: 2 samples",
        ".state.json: readable",
    ]
    assert report.findings[0].as_dict() == {
        "severity": "ok",
        "path": "run.toml",
        "text": f"{COUNT} parameters, 5,000 steps planned",
        "advice": "",
    }


def test_a_new_run_has_notes_and_no_problems(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "run")
    create_run(directory, "demo", TINY, None)
    report = check(directory)
    assert report.ok
    assert "checkpoints: none that is valid" in texts(report, "note")
    assert ".loss.json: no entries yet" in texts(report, "note")


def test_a_flipped_bit_is_found_by_the_digest(good: RunDirectory) -> None:
    path = good.path / "step_000200.bin"
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)
    assert check(good).ok, "header, size and name are right"
    found = one(check(good, lambda path: None), "problem")
    assert found.startswith("step_000200.bin: its bytes differ from the digest")


def test_a_truncated_checkpoint(good: RunDirectory) -> None:
    os.truncate(good.path / "step_000200.bin", 50)
    assert one(check(good), "problem").startswith("step_000200.bin: 50 bytes, but its header needs")


def test_a_checkpoint_of_another_model(good: RunDirectory) -> None:
    put_checkpoint(good.path, 200, COUNT + 1)
    assert f"this model has {COUNT}" in one(check(good), "problem")


def test_a_checkpoint_without_a_digest_is_unverified(good: RunDirectory) -> None:
    good.events.unlink()
    report = check(good)
    assert report.ok
    assert "step_000100.bin: valid, unverified: no digest of it was recorded" in texts(report, "ok")


def test_the_deep_check_is_asked_about_valid_files_only(good: RunDirectory) -> None:
    (good.path / "step_000300.bin").write_bytes(b"")
    asked: list[str] = []

    def deep(path: Path) -> str | None:
        asked.append(path.name)
        return "has weights that are not finite" if path.name == "step_000200.bin" else None

    report = check(good, deep)
    assert asked == ["step_000200.bin", "step_000100.bin"]
    assert "step_000200.bin: has weights that are not finite" in texts(report, "problem")


def test_a_gap_and_an_end_before_the_checkpoint(good: RunDirectory) -> None:
    good.loss.write_bytes(array_text(entry(step) for step in range(1, 191) if step != 50))
    assert texts(check(good), "problem") == [
        ".loss.json: 1 gap(s) between step 1 and 190",
        ".loss.json: ends at step 190, before the newest checkpoint of step 200",
    ]


def test_a_record_that_is_missing_beside_a_checkpoint(good: RunDirectory) -> None:
    good.loss.unlink()
    assert one(check(good), "problem") == ".loss.json: ends at step 0, before the newest checkpoint of step 200"


def test_a_journal_covers_the_newest_checkpoint_until_the_next_start(good: RunDirectory) -> None:
    good.loss.write_bytes(array_text(entry(step) for step in range(1, 101)))
    good.journal.write_bytes(b"".join(entry(step).to_line() + b"\n" for step in range(101, 206)))
    assert one(check(good), "note") == ".loss.journal.jsonl: 105 entries after the last commit; a start settles them"


def test_an_abandoned_branch_is_no_problem(good: RunDirectory) -> None:
    good.loss.write_bytes(array_text([*map(entry, range(1, 201)), *(entry(s, session=2) for s in range(101, 201))]))
    report = check(good)
    assert report.ok
    assert ".loss.json: 200 entries, steps 1 to 200, 100 of an abandoned branch" in texts(report, "ok")


def test_damage_is_located(good: RunDirectory) -> None:
    lines = good.loss.read_bytes().split(b"\n")
    lines[41] = b"damaged,"
    good.loss.write_bytes(b"\n".join(lines))
    assert ".loss.json: 1 unreadable line(s), the first at line 42" in texts(check(good), "problem")


def test_a_torn_end_is_a_note(good: RunDirectory) -> None:
    whole = good.loss.read_bytes()
    good.loss.write_bytes(whole[:-3] + b',\n{"step":201,"lo')
    assert "ends in a half-written entry of 15 bytes" in one(check(good), "note")


@pytest.mark.parametrize("data", [b"garbage", b"\x00" * 50, b"[[1, 2]", b'{"a"'])
def test_a_record_of_garbage_is_loud(good: RunDirectory, data: bytes) -> None:
    good.loss.write_bytes(data)
    report = check(good)
    assert not report.ok
    assert any(text.startswith(".loss.json: ") for text in texts(report, "problem"))


@pytest.mark.parametrize("name", [".samples.json", ".state.json"])
@pytest.mark.parametrize("data", [b"garbage", b"7", b"[" * 100_000, None])
def test_unreadable_sidecars(good: RunDirectory, name: str, data: bytes | None) -> None:
    (good.path / name).unlink()
    if data is None:
        (good.path / name).mkdir()
    else:
        (good.path / name).write_bytes(data)
    assert one(check(good), "problem").startswith(f"{name}: ")


def test_leftovers_and_a_running_engine(good: RunDirectory) -> None:
    (good.path / ".step_000300.bin.7.1.tmp").write_bytes(b"")
    assert one(check(good), "note").startswith(".step_000300.bin.7.1.tmp: half-written file")
    lock = EngineLock(good)
    assert one(check(good), "note").startswith("engine.lock: an engine is running")
    lock.release()
    good.pivot_intent.write_text("garbage")
    assert "pivot.json" in one(check(good), "problem")


def test_what_is_no_run_is_a_problem_and_not_an_exception(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for name in ("missing", "file", "empty"):
        assert not check(RunDirectory(tmp_path / name)).ok


def test_hostile_names_and_content_are_only_shown(good: RunDirectory) -> None:
    good.config.write_text('"bad\\u001b[2Jkey" = 1')
    (good.path / ".\x1b[2J\x9b.7.1.tmp").write_bytes(b"")
    report = check(good)
    for finding in report.findings:
        assert not [c for c in finding.path + finding.text if ord(c) < 32 or 0x7F <= ord(c) < 0xA0]
    assert any("\u241b[2J" in finding.path for finding in report.findings)
    assert any("\u241b[2J" in finding.text for finding in report.findings)
