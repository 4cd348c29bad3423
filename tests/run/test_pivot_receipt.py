"""The receipt: what it says is computed from the files, and `check` finds whatever contradicts it later."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from andrea_engine.run.check import check
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.pivot_sequence import finish
from andrea_engine.run.policy import dump_policy, parse_policy
from andrea_engine.run.receipt import (
    checkpoint_digests,
    newest_receipt,
    prefix_digest,
    read_receipt,
    receipt_lines,
    receipt_problems,
    record_prefix,
)
from tests.run import helpers
from tests.run import pivot_support as support


@pytest.fixture
def pivoted(tmp_path: Path) -> RunDirectory:
    directory = support.build(tmp_path / "run")
    support.pending(directory)
    assert finish(directory, by="a test") is not None
    return directory


def archive(directory: RunDirectory) -> Path:
    (only,) = directory.archives()
    return only


def test_it_holds_the_digests_of_everything(tmp_path: Path) -> None:
    directory = support.build(tmp_path / "run")
    before = support.contents(directory)
    intent = support.pending(directory)
    finished = finish(directory, by="a test")
    assert finished is not None
    receipt = read_receipt(archive(directory) / "receipt.json")
    assert receipt == finished.receipt
    checkpoint = receipt.checkpoint_before
    assert checkpoint == receipt.checkpoint_after
    assert (checkpoint.file, checkpoint.sha256) == ("step_000040.bin", support.sha256(before["step_000040.bin"]))
    assert [checkpoint.weights, checkpoint.m, checkpoint.v] == support.regions(directory.path / "step_000040.bin")
    length = receipt.record_before.length
    assert before[".loss.json"][length:] == b"\n]\n", "the prefix ends with the last entry"
    assert receipt.record_before == receipt.record_after
    assert receipt.record_before.sha256 == support.sha256(before[".loss.json"][:length])
    assert receipt.archived[".samples.json"] == support.sha256(support.SAMPLES)
    assert receipt.archived[".state.json"] == support.sha256(support.STATE)
    old = (archive(directory) / "policy.toml").read_bytes()
    assert receipt.archived["policy.toml"] == receipt.old_policy == support.sha256(old)
    assert receipt.new_policy == support.sha256(dump_policy(parse_policy(support.NEW_POLICY, "")).encode())
    assert (receipt.id, receipt.asked, receipt.asked_by) == (intent.id, intent.asked, intent.asked_by)
    assert "(a test)" in receipt.done_by
    assert newest_receipt(directory) == (archive(directory), receipt)


def test_regions_of_a_checkpoint(tmp_path: Path) -> None:
    path = helpers.put_checkpoint(tmp_path, 7, 1000)
    digests = checkpoint_digests(path)
    assert [digests.weights, digests.m, digests.v] == [support.sha256(bytes(r)) for r in helpers.regions(1000)]
    assert digests.sha256 == support.sha256(path.read_bytes())


def test_record_prefix(tmp_path: Path) -> None:
    path = tmp_path / ".loss.json"
    assert record_prefix(path).length == 0
    assert record_prefix(path).sha256 == support.sha256(b"")
    path.write_bytes(b"[\n]\n")
    assert record_prefix(path).length == 0
    data = helpers.array_text([helpers.entry(1), helpers.entry(2)])
    path.write_bytes(data)
    prefix = record_prefix(path)
    assert prefix.sha256 == support.sha256(data[: -len(b"\n]\n")])
    assert prefix_digest(path, len(data) + 1) is None, "a shorter file has no such prefix"


def test_later_entries_change_nothing_about_it(pivoted: RunDirectory) -> None:
    entries = [helpers.entry(step) for step in range(1, support.STEP + 30)]
    pivoted.loss.write_bytes(helpers.array_text(entries))
    assert receipt_problems(pivoted, archive(pivoted)) == []
    assert check(pivoted).ok


def test_a_checkpoint_that_was_removed_since_contradicts_nothing(pivoted: RunDirectory) -> None:
    (pivoted.path / "step_000040.bin").unlink()
    assert receipt_problems(pivoted, archive(pivoted)) == []


def _flip(path: Path, at: int = -2) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda d: _flip(d.loss, 100), "bytes of .loss.json changed since the pivot"),
        (lambda d: d.loss.write_bytes(b"[\n]\n"), "bytes of .loss.json changed since the pivot"),
        (lambda d: d.loss.unlink(), ".loss.json cannot be read"),
        (lambda d: _flip(d.path / "step_000040.bin"), "step_000040.bin is not the file of the receipt"),
        (lambda d: _flip(archive(d) / ".samples.json"), ".samples.json is not the file of the receipt"),
        (lambda d: (archive(d) / ".state.json").unlink(), ".state.json cannot be read"),
        (lambda d: _flip(archive(d) / "policy.toml"), "policy.toml is not the file of the receipt"),
        (lambda d: (archive(d) / "receipt.json").write_text("{"), "cannot be read as a receipt"),
    ],
)
def test_check_finds_what_contradicts_it(
    pivoted: RunDirectory, harm: Callable[[RunDirectory], None], told: str
) -> None:
    assert check(pivoted).ok
    harm(pivoted)
    report = check(pivoted)
    place = f"archive/{archive(pivoted).name}"
    assert any(told in f.text for f in report.findings if f.severity == "problem" and f.path == place), report.findings


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("checkpoint_after", None, "step_000040.bin changed during the pivot"),
        ("record_after", {"length": 1, "sha256": "0"}, "the loss record changed during the pivot"),
        ("old_policy", "0", "the archived policy is not the one that the receipt names"),
    ],
)
def test_a_receipt_that_proves_nothing(pivoted: RunDirectory, key: str, value: object, told: str) -> None:
    path = archive(pivoted) / "receipt.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, key: value}))
    assert told in receipt_problems(pivoted, archive(pivoted))


def test_a_receipt_never_leads_out_of_its_archive(pivoted: RunDirectory) -> None:
    path = archive(pivoted) / "receipt.json"
    facts = json.loads(path.read_text())
    facts["archived"]["../../run.toml"] = support.sha256(pivoted.config.read_bytes())
    path.write_text(json.dumps(facts))
    (problem,) = receipt_problems(pivoted, archive(pivoted))
    assert problem.startswith("run.toml cannot be read")


def test_an_archive_without_a_receipt_counts_for_nothing(pivoted: RunDirectory) -> None:
    assert pivoted.policy_generation() == 1
    (archive(pivoted) / "receipt.json").unlink()
    assert pivoted.policy_generation() == 0
    assert newest_receipt(pivoted) is None
    assert any("counts for nothing" in finding.text for finding in check(pivoted).findings)


def test_a_damaged_receipt_is_named(pivoted: RunDirectory) -> None:
    (archive(pivoted) / "receipt.json").write_bytes(b"\xff")
    with pytest.raises(RunError, match=r"receipt\.json cannot be read as a receipt"):
        newest_receipt(pivoted)


def test_for_people(pivoted: RunDirectory) -> None:
    receipt = read_receipt(archive(pivoted) / "receipt.json")
    text = "\n".join(receipt_lines(receipt, archive(pivoted)))
    assert "policy 1 from step 41 on" in text
    assert receipt.checkpoint_before.weights[:16] in text
    assert "continuity  unchanged" in text
