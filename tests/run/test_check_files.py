"""The check of a directory as such: names, kinds, permissions, presence; and the contradictions of the record."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from andrea_engine.run.check import check
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog
from andrea_engine.run.samples import Sample, StoredScores, write_samples
from andrea_engine.run.state import write_state
from tests.run import pivot_support as support
from tests.run.helpers import array_text, entry


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run that was stopped at step 40, without a fault."""
    directory = support.build(tmp_path / "run")
    assert told(directory) == []
    return directory


def told(directory: RunDirectory, deep: bool = False) -> list[str]:
    """Everything but what is in order."""
    report = check(directory, (lambda path: None) if deep else None)
    assert all(f.advice for f in report.findings if f.severity in {"warning", "problem"}), "each says what to do"
    return [f"{f.severity} {f.path}: {f.text}" for f in report.findings if f.severity != "ok"]


def only(directory: RunDirectory, deep: bool = False) -> str:
    (text,) = told(directory, deep)
    return text


@pytest.mark.parametrize(
    ("name", "make", "expected"),
    [
        ("notes.md", Path.touch, "note notes.md: is no file of a run; nothing reads it"),
        ("more", Path.mkdir, "note more: is no file of a run; nothing reads it"),
        ("step_40.bin", Path.touch, "note step_40.bin: is not named step_NNNNNN.bin, so it is no checkpoint"),
        (".state.json.unreadable-1", Path.touch, "note .state.json.unreadable-1: was set aside"),
        ("a.bin", lambda path: path.symlink_to("/etc"), "warning a.bin: is a link; nothing follows it"),
        ("pipe", os.mkfifo, "warning pipe: is neither a file nor a folder"),
        ("tokens", lambda path: path.symlink_to("/tmp"), "problem tokens: is not a folder of the run itself"),
        ("archive", Path.touch, "problem archive: is not a folder of the run itself"),
        ("engine.lock", os.mkfifo, "problem engine.lock: cannot be read: not a regular file"),
        (
            "engine.log",
            lambda path: path.symlink_to("/etc/hostname"),
            "problem engine.log: cannot be read: it is a link",
        ),
        ("engine.json", lambda path: path.write_text("{"), "warning engine.json: is no heartbeat"),
        ("console.json", lambda path: path.write_text("[1"), "warning console.json: does not tell which console"),
        ("run.lock.json", lambda path: path.write_text("[" * 9000), "problem run.lock.json: "),
        (
            "run.lock.json",
            lambda path: path.write_text('{"n_params": 5}'),
            "problem run.lock.json: this run was started",
        ),
        (
            "harris_segments.json",
            lambda path: path.write_text("7"),
            "problem harris_segments.json: is not a JSON object",
        ),
        ("harris_segments.json", os.mkfifo, "problem harris_segments.json: cannot be read"),
    ],
)
def test_what_should_not_be_there(run: RunDirectory, name: str, make: Callable[[Path], object], expected: str) -> None:
    make(run.path / name)
    assert only(run).startswith(expected)


def test_files_of_the_original_and_rotated_logs_are_expected(run: RunDirectory) -> None:
    for name in ("120m.loss.json", "120m.samples.json", "engine.log.1"):
        (run.path / name).touch()
    assert told(run) == []


def test_a_name_that_is_not_utf8_is_shown_and_not_obeyed(run: RunDirectory) -> None:
    os.close(os.open(os.fsencode(run.path) + b"/\xff\x1b[2J\n", os.O_CREAT))
    text = only(run)
    assert text.isprintable()
    assert "\u241b[2J\u240a" in text


def test_links_and_temporaries_in_the_archive(run: RunDirectory) -> None:
    folder = run.archive / "rollback-0001-from-50-to-40"
    folder.mkdir(parents=True)
    (folder / "a").symlink_to("/etc/hostname")
    (folder / ".b.999999999.1.tmp").touch()
    texts = told(run)
    assert [text.split(":")[0] for text in texts] == [
        f"note archive/{folder.name}/.b.999999999.1.tmp",
        f"warning archive/{folder.name}/a",
    ]


def test_what_every_user_may_write(run: RunDirectory) -> None:
    run.loss.chmod(0o666)
    assert only(run) == "warning .loss.json: can be written by every user"
    for name in ("run.toml", "step_000040.bin", "events.jsonl"):
        (run.path / name).chmod(0o666)
    assert "(as 3 more: events.jsonl, run.toml, step_000040.bin)" in only(run)
    run.loss.chmod(0o644)
    run.path.chmod(0o777)
    assert only(run).startswith("warning .: can be written by every user (as 3 more")
    for name in ("run.toml", "step_000040.bin", "events.jsonl"):
        (run.path / name).chmod(0o640)
    run.path.chmod(0o1777)
    assert told(run) == [], "where only the owner may replace it"


def test_set_id_bits(run: RunDirectory) -> None:
    run.loss.chmod(0o4644)
    assert only(run) == "warning .loss.json: has set-id bits, which no file of a run needs"


def test_a_directory_that_is_not_writable(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    assert only(run).startswith("warning .: is not writable by this user")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user(run: RunDirectory) -> None:
    os.chown(run.loss, 4711, -1)
    assert only(run) == "warning .loss.json: belongs to another user than the directory"


def test_a_step_recorded_twice_in_one_session(run: RunDirectory) -> None:
    run.loss.write_bytes(array_text(map(entry, [*range(1, 41), 40])))
    assert only(run) == "problem .loss.json: 1 step(s) recorded twice in one session, the first is 40"
    run.loss.write_bytes(array_text([*map(entry, range(1, 41)), entry(40, session=2)]))
    assert told(run) == []


def test_a_record_that_begins_late(run: RunDirectory) -> None:
    run.loss.write_bytes(array_text(map(entry, range(3, 41))))
    assert only(run) == "problem .loss.json: begins at step 3 and not at step 1"


def test_a_policy_that_goes_back(run: RunDirectory) -> None:
    lines = [f'{{"step":{step},"loss":1.0,"policy":{1 if step < 20 else 0}}}' for step in range(1, 41)]
    run.loss.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    assert only(run) == "problem .loss.json: goes back to an earlier policy at step 20"


def test_a_record_of_another_format_where_the_engine_would_append(run: RunDirectory) -> None:
    run.loss.write_text("[" + ",".join(f"[{step},1.0]" for step in range(1, 41)) + "]")
    assert only(run).startswith("problem .loss.json: is not a JSON array with one entry a line")


def test_an_array_that_is_not_closed(run: RunDirectory) -> None:
    run.loss.write_bytes(run.loss.read_bytes().removesuffix(b"\n]\n"))
    assert only(run).startswith("note .loss.json: its array is not closed")


def test_a_gap_between_record_and_journal(run: RunDirectory) -> None:
    run.journal.write_bytes(entry(43).to_line() + b"\n")
    assert "problem .loss.journal.jsonl: begins at step 43, but the record ends at step 40" in told(run)


def test_a_journal_with_damage_and_a_torn_end(run: RunDirectory) -> None:
    run.journal.write_bytes(entry(41).to_line() + b'\ngarbage}\n{"step":42,')
    assert any("holds 1 unreadable line(s) and a half-written entry of 10 bytes" in text for text in told(run))


@pytest.mark.parametrize("name", [".loss.json", ".loss.journal.jsonl", "events.jsonl"])
def test_a_link_in_the_place_of_a_record(run: RunDirectory, tmp_path: Path, name: str) -> None:
    (run.path / name).rename(tmp_path / "elsewhere")
    (run.path / name).symlink_to(tmp_path / "elsewhere")
    assert f"problem {name}: cannot be read: it is a link" in told(run)


def test_damage_in_the_event_log(run: RunDirectory) -> None:
    lines = run.events.read_bytes().splitlines(keepends=True)
    run.events.write_bytes(lines[0] + b"damage\n" + b"".join(lines[1:]))
    assert only(run).startswith("warning events.jsonl: 1 unreadable line(s), the first at line 2")


def test_a_pin_without_its_checkpoint(run: RunDirectory) -> None:
    EventLog(run.events, 1).append("pin", step=20)
    assert only(run) == "warning step_000020.bin: is pinned, but it is not there any more"
    folder = run.archive / "rollback-0001-from-50-to-40"
    folder.mkdir(parents=True)
    (folder / "step_000020.bin").touch()
    assert told(run) == [], "it was moved, and is there"


def test_checkpoints_that_went_without_a_word(run: RunDirectory) -> None:
    log = EventLog(run.events, 1)
    for step in (10, 20):
        log.append("save_durable", step=step, sha256="0")
    log.append("removed", steps=[20])
    assert only(run) == "note events.jsonl: 1 saved checkpoint(s) were removed by hand: step 10"


def test_samples_that_contradict(run: RunDirectory) -> None:
    write_samples(run.samples, [Sample(step=40, text="a"), Sample(step=30, text="b")])
    assert only(run).startswith("warning .samples.json: its samples are not in the order")
    write_samples(run.samples, [Sample(step=50, text="a")])
    assert only(run).startswith("warning .samples.json: its newest sample is of step 50, after the last")
    scores = StoredScores(bigram=36.0, trigram=0.0, english=0.0, character=0.0, total=36.0)
    write_samples(run.samples, [Sample(step=40, text="a", scores=scores)])
    assert only(run).startswith("warning .samples.json: the bigram score of step 40 is out of its range of 0 to 35")


def test_a_state_of_another_step(run: RunDirectory) -> None:
    write_state(run.state, {"step": 30, "arms": {}})
    assert only(run) == "note .state.json: is of step 30, the newest valid checkpoint of step 40"


def test_a_tokenizer_that_is_gone_or_another(run: RunDirectory) -> None:
    run.resolved.write_text('{"tokenizer_sha256": "aa"}')
    assert only(run).startswith("problem harris_segments.json: is missing")
    run.tokenizer.write_text('{"digest": "bb"}')
    assert only(run).startswith("problem harris_segments.json: is not the tokenizer that this run was started with")
    run.tokenizer.write_text('{"digest": "aa"}')
    assert told(run) == []


def test_deep_compares_the_tokens(run: RunDirectory) -> None:
    digest = support.sha256(b"tokens")
    run.resolved.write_text(f'{{"arms": {{"chat": {{"sha256": "{digest}"}}, "../x": {{"sha256": "{digest}"}}}}}}')
    run.tokens.mkdir()
    (run.tokens / "chat.u16").write_bytes(b"tokens")
    assert told(run, deep=True) == []
    (run.tokens / "chat.u16").write_bytes(b"others")
    assert only(run, deep=True).startswith("warning tokens/chat.u16: its bytes differ")
    assert told(run) == []


def test_a_directory_without_an_end_is_looked_at_in_part(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("andrea_engine.run.check_files.MOST_ENTRIES", 3)
    assert only(run) == "warning .: holds more than 3 files; the others were not looked at"
