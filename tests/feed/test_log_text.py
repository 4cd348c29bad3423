"""What the lines of the two logs mean."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import andrea_engine
from andrea_engine.run.events import Event
from andrea_engine.run.pins import pin_of
from andrea_tui.feed.event_words import WORDS, describe
from andrea_tui.feed.line_file import Line
from andrea_tui.feed.log_text import ERROR, PLAIN, WARNING, EventReading, LogReading, Wanted, clock, folded, level_of

SOURCES = sorted(Path(andrea_engine.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize(
    ("level", "line"),
    [
        (PLAIN, "step 40 of 60  loss 5.005  EMA 6.016  15,916 tokens/s  dictionary"),
        (PLAIN, "resuming from step_000060.bin"),
        (PLAIN, "stopped at step 60, saved"),
        (PLAIN, "data ready in 6.5 s"),
        (PLAIN, "sample at step 20: 36.8 of 100"),
        (PLAIN, "terrorise"),
        (WARNING, "/x/y.py:3: UserWarning: lr_scheduler"),
        (WARNING, "step 7 of 60  loss not finite  EMA unknown  1 tokens/s  chat"),
        (WARNING, "5 samples in a row below 30 since step 131,600; the last good sample was at step 131,500"),
        (ERROR, "Traceback (most recent call last):"),
        (ERROR, "ValueError: bad"),
        (ERROR, "torch.OutOfMemoryError: CUDA out of memory."),
        (ERROR, "RuntimeError"),
        (ERROR, "Fatal Python error: Segmentation fault"),
        (ERROR, "andrea-engine: no valid checkpoint in runs/x"),
        (ERROR, "could not save step 100: No space left on device"),
        (ERROR, "Killed"),
    ],
)
def test_words_decide_how_serious_a_line_is(level: int, line: str) -> None:
    assert level_of(line) == level


def lines(*texts: str) -> list[Line]:
    return [Line(number, text.encode(), continued=False) for number, text in enumerate(texts)]


def test_a_traceback_is_one_thing() -> None:
    found = LogReading().entries(
        lines(
            "fine",
            "Traceback (most recent call last):",
            '  File "x.py", line 3, in go',
            "    go()",
            "KeyError: 3",
            "ok",
        )
    )
    assert [entry.level for entry in found] == [PLAIN, ERROR, ERROR, ERROR, ERROR, PLAIN]


@pytest.mark.parametrize("query", ["", "error", "ERROR", "é", "É", "k", "ſ"])
@pytest.mark.parametrize("level", [PLAIN, WARNING, ERROR])
@pytest.mark.parametrize(
    "text", ["an Error here", "warning", "café", "CAFÉ", "\u212a", "\u017f", "İstanbul error", "plain", "\ufffd", ""]
)
def test_the_quick_answer_never_hides_a_line_and_both_ways_agree(text: str, level: int, query: str) -> None:
    wanted = Wanted(level, query)
    reading = LogReading()
    (entry,) = reading.entries(lines(text))
    assert bool(reading.places(lines(text), wanted)) == wanted.takes(entry)
    assert reading.may_have(text.encode(), wanted) or not wanted.takes(entry)


@pytest.mark.parametrize("text", ["abc", "ABC", "İİ", "ẞ", "\u212a", "ÀÉ", "가", "😀"])
def test_folding_keeps_every_character_in_its_place(text: str) -> None:
    assert len(folded(text)) == len(text)
    assert folded(folded(text)) == folded(text)


# -- events -------------------------------------------------------------------------------------------------------


def kinds_in_the_source() -> set[str]:
    """First words of all calls that append to an event log: `...events.append("kind", ...)`, `log(dir, "kind", ...)`,
    `_append(events, "kind", ...)`."""
    kinds = set()
    for path in SOURCES:
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            name = ast.unparse(call.func)
            at = 0 if name.endswith("events.append") else 1 if name in ("log", "_append") else None
            word = call.args[at] if at is not None and len(call.args) > at else None
            if isinstance(word, ast.Constant) and isinstance(word.value, str):
                kinds.add(word.value)
    return kinds


@pytest.mark.parametrize("reason", ["operator", "halt", "pivot", "fork"])
def test_a_pin_has_the_same_words_in_the_events_and_among_the_checkpoints(reason: str) -> None:
    saved = Event(1.0, "save_durable", 1, {"step": 7, "reason": reason, "pinned": True})
    note = pin_of(saved)
    assert note is not None
    assert describe(saved)[0].endswith(f", {note.why}, pinned")
    assert note.why != reason, "words, not the name of the reason"


def test_every_kind_that_the_engine_writes_has_words() -> None:
    kinds = kinds_in_the_source()
    assert {"start", "stop", "save_durable", "sample", "gate", "pivot_asked", "pivot", "nonfinite", "rollback"} <= kinds
    assert kinds <= set(WORDS), f"no words for {sorted(kinds - set(WORDS))}"


@pytest.mark.parametrize("kind", sorted(WORDS))
def test_words_are_words_and_not_the_name_of_the_kind(kind: str) -> None:
    facts: dict[str, object] = {"step": 7, "text": "t", "error": "e", "reason": "r", "phase": "training", "by": "you"}
    text, _ = describe(Event(1.0, kind, 1, facts))
    assert text.strip()
    assert "_" not in text
    text, _ = describe(Event(1.0, kind, 1, {}))
    assert isinstance(text, str)


def event_line(**event: object) -> Line:
    return Line(0, json.dumps({"time": 0, "kind": "notice", "session": 1} | event).encode(), continued=False)


def test_events_are_read_in_words_with_their_time() -> None:
    (entry,) = EventReading().entries([event_line(time=1_800_000_000, kind="save_failed", step=100, error="disk full")])
    assert entry.text == f"{clock(1_800_000_000, '%Y-%m-%d %H:%M:%S')}  NOT saved step 100: disk full"
    assert (entry.level, entry.meaning) == (ERROR, "bad")
    assert EventReading().places([event_line(text="a Word")], Wanted(PLAIN, "a word")) == [0]
    assert EventReading().places([event_line(kind="phase", phase="training")], Wanted(WARNING)) == []


def test_what_is_no_event_is_told_once_a_line() -> None:
    found = EventReading().entries(lines("rubbish", "", "[]", "{}"))
    assert [entry.text for entry in found] == ["a line of the event log that cannot be read"] * 3


@pytest.mark.parametrize("seconds", [0.0, -1e18, 1e18, 1e300, -62_135_596_801.0])
def test_no_time_is_too_strange(seconds: float) -> None:
    assert clock(seconds)
    (entry,) = EventReading().entries([event_line(time=seconds, text="hello")])
    assert entry.text.endswith("hello")
