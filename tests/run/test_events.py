"""The event log: written line by line, read from any state it can be in."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.run.events import MAX_LINE, Event, EventLog, known_digests, parse_event, pinned_steps, read_events

from .helpers import strict


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, session=3)
    log.append("save_asked", at=1000.1234, by="SIGUSR1")
    log.append("save_durable", step=100, bytes=68, seconds=0.5, sha256="ab", pinned=True)
    assert log.problem is None
    asked, durable = read_events(path)
    assert asked == Event(1000.123, "save_asked", 3, {"by": "SIGUSR1"})
    assert durable.kind == "save_durable"
    assert (durable.step, durable.integer("bytes"), durable.number("seconds")) == (100, 68, 0.5)
    assert durable.text("sha256") == "ab"
    assert asked.step is None
    assert asked.text("missing") == ""
    assert abs(durable.time - os.stat(path).st_mtime) < 60
    for line in path.read_bytes().splitlines():
        strict(line)


@given(st.floats())
def test_numbers_that_are_not_finite_stay_strict_json(tmp_path_factory: pytest.TempPathFactory, value: float) -> None:
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    EventLog(path, 1).append("nonfinite", step=5, loss=value, nested={"values": [value]})
    strict(path.read_bytes())
    assert read_events(path)[0].number("loss") == (value if math.isfinite(value) else None)


def test_a_file_name_that_is_not_utf8_can_be_reported(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, 1)
    log.append("notice", text="left out " + os.fsdecode(b"caf\xe9.txt"), loss=math.nan, step=7)
    assert log.problem is None
    strict(path.read_bytes())
    assert read_events(path)[0].facts == {"text": "left out caf?.txt", "loss": None, "step": 7}


def test_a_log_that_cannot_be_written_never_raises(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.mkdir()
    log = EventLog(path, 1)
    log.append("start")
    assert log.problem == "the event log cannot be written: Is a directory"
    path.rmdir()
    log.append("start")
    assert log.problem is None
    assert [e.kind for e in read_events(path)] == ["start"]


def test_a_log_cut_at_any_byte_goes_on_with_the_next_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, 1)
    log.append("start", at=1.0)
    log.append("notice", at=2.0, text="} and { and [")
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        log.append("stop", at=3.0)
        lines = [event.kind for event in read_events(path)]
        kept = sum(cut >= end for end in (whole.index(b"\n"), len(whole) - 1))
        assert lines == [*["start", "notice"][:kept], "stop"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"  ",
        b"garbage",
        b"\xff\xfe",
        b"\x00" * 100,
        b"[]",
        b"7",
        b"{}",
        b'{"kind": "x"}',
        b'{"time": 1}',
        b'{"time": 1, "kind": 7}',
        b'{"time": true, "kind": "x"}',
        b'{"time": NaN, "kind": "x"}',
        b'{"time": 1e999, "kind": "x"}',
        b'{"time": ' + b"9" * 400 + b', "kind": "x"}',
        b'{"time": "1", "kind": "x"}',
        b'{"time": 1, "kind": "x", "session": "2"}',
        b'{"time": 1, "kind": "x", "session": ' + b"9" * 30 + b"}",
        b'{"time": 1, "kind": "x", "deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"time": 1, "kind": "x", "long": "' + b"x" * MAX_LINE + b'"}',
    ],
)
def test_a_damaged_line_is_left_out(tmp_path: Path, line: bytes) -> None:
    assert parse_event(line) is None
    path = tmp_path / "events.jsonl"
    good = b'{"time": 1, "kind": "start", "session": 1}\n'
    path.write_bytes(good + line + b"\n" + good)
    assert len(read_events(path)) == 2


@pytest.mark.parametrize("step", [b"NaN", b"1e999", b"9" * 400, b"9" * 5000, b'"7"', b"true", b"null", b"[7]"])
def test_a_step_that_is_no_number_is_unknown(step: bytes) -> None:
    event = parse_event(b'{"time": 1, "kind": "pin", "step": ' + step + b"}")
    assert event is not None
    assert event.step is None
    assert pinned_steps([event]) == set()


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_no_line_raises(line: bytes) -> None:
    parse_event(line)
    parse_event(b'{"time": 1, "kind": "x", ' + line + b"}")


def test_a_million_characters_in_one_line_do_not_end_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    good = b'{"time": 1, "kind": "start"}\n'
    path.write_bytes(good + b"x" * 9_000_000 + b"\n" + good)
    assert len(read_events(path)) == 2


def test_pins_and_digests_follow_the_last_word() -> None:
    events = [
        Event(1, "save_durable", 1, {"step": 100, "sha256": "a", "pinned": False}),
        Event(2, "save_durable", 1, {"step": 200, "sha256": "b", "pinned": True}),
        Event(3, "pin", 1, {"step": 300}),
        Event(4, "pin", 1, {"step": 400}),
        Event(5, "unpin", 1, {"step": 400}),
        Event(6, "save_durable", 2, {"step": 100, "sha256": "c"}),
        Event(7, "save_failed", 2, {"step": 500, "sha256": "d", "pinned": True}),
        Event(8, "save_durable", 2, {"step": 600, "sha256": 7, "pinned": "yes"}),
        Event(9, "pin", 2, {}),
    ]
    assert pinned_steps(events) == {200, 300}
    assert known_digests(events) == {100: "c", 200: "b"}


def test_no_log_no_events(tmp_path: Path) -> None:
    assert read_events(tmp_path / "missing") == []
