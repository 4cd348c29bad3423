"""Entries of the loss record: strict on the way out, liberal on the way in."""

from __future__ import annotations

import json
import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.run.loss_entry import (
    FLOAT_FIELDS,
    LAST_STEP,
    LossEntry,
    current_branch,
    decode_entries,
    entry_from,
    loads_bounded,
    make_entry,
)

from .helpers import entry, steps, strict

floats = st.none() | st.floats()
finite = st.none() | st.floats(allow_nan=False, allow_infinity=False)
counts = st.none() | st.integers(0, 2**63 - 1)
text = st.none() | st.text(st.characters(exclude_categories=["Cs"]))
FIELDS: dict[str, st.SearchStrategy[object]] = {
    **dict.fromkeys(FLOAT_FIELDS, floats),
    "source": text,
    "policy": counts,
    "session": counts,
}
made = st.builds(make_entry, step=st.integers(0, LAST_STEP), **FIELDS)


@settings(deadline=None)
@given(made)
def test_what_is_written_is_strict_json_and_reads_back_equal(one: LossEntry) -> None:
    line = one.to_line()
    assert b"\n" not in line
    item = strict(line)
    assert isinstance(item, dict)
    assert item["step"] == one.step
    assert decode_entries(b"[" + line + b"]") == [one]
    if one.loss is not None:
        assert entry_from(item) == one


@given(st.sampled_from(FLOAT_FIELDS), st.sampled_from([math.nan, math.inf, -math.inf]))
def test_a_number_that_is_not_finite_is_null_and_named(name: str, value: float) -> None:
    one = make_entry(step=3, **{name: value, "lr" if name != "lr" else "loss": 0.5})
    item = strict(one.to_line())
    assert isinstance(item, dict)
    assert item[name] is None
    assert item["nonfinite"] == [name]


def test_a_finite_entry_names_nothing() -> None:
    item = strict(entry(5).to_line())
    assert isinstance(item, dict)
    assert "nonfinite" not in item
    assert list(item)[:2] == ["step", "loss"]


@pytest.mark.parametrize(
    ("spelling", "loss"),
    [
        ("3.5", 3.5),
        ("3", 3.0),
        ("0", 0.0),
        ("-1e-3", -0.001),
        ("NaN", None),
        ("Infinity", None),
        ("-Infinity", None),
        ("1e999", None),
        ("-1e999", None),
        ("9" * 400, None),
        ("9" * 5000, None),
        ('"NaN"', None),
        ('" nan "', None),
        ('"-inf"', None),
        ('"Infinity"', None),
        ("null", None),
        ("true", None),
        ('"much"', None),
        ("[1]", None),
        ("{}", None),
    ],
)
def test_every_spelling_of_a_loss(spelling: str, loss: float | None) -> None:
    for line in (f'{{"step": 12, "loss": {spelling}}}', f"[12, {spelling}]"):
        one = entry_from(loads_bounded(line.encode()))
        assert one is not None
        assert (one.step, one.loss) == (12, loss)
        assert one.nonfinite == (["loss"] if loss is None else msgspec.UNSET)


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        '{"loss": 1}',
        '{"step": null, "loss": 1}',
        '{"step": -1, "loss": 1}',
        '{"step": true, "loss": 1}',
        '{"step": "7", "loss": 1}',
        '{"step": 7.5, "loss": 1}',
        '{"step": NaN, "loss": 1}',
        '{"step": 9223372036854775808}',
        f'{{"step": {"9" * 5000}}}',
        "[1, 2, 3]",
        "[]",
        "7",
        '"7"',
        "null",
    ],
)
def test_what_has_no_step_is_no_entry(line: str) -> None:
    assert entry_from(loads_bounded(line.encode())) is None


def test_other_fields_and_types() -> None:
    one = entry_from({"step": 5.0, "loss": 1, "lr": "x", "source": 7, "policy": -1, "session": True, "extra": []})
    assert one == LossEntry(step=5, loss=1.0)
    one = entry_from({"step": 5, "loss": None, "nonfinite": ["loss", "grad_norm", 7, "made up"]})
    assert one is not None
    assert one.nonfinite == ["loss", "grad_norm"]


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"\xff\xfe{",
        b'{"a": "\xff"}',
        b"",
        b"{",
        b"\x00" * 50,
        b'{"step": 1} {"step": 2}',
    ],
)
def test_what_cannot_be_parsed_is_always_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        loads_bounded(data)


def test_deep_nesting_under_an_unknown_key_is_a_value_error_too() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        decode_entries(b'[{"step": 1, "unknown": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]")


@pytest.mark.parametrize("data", [rb'{"\ud800": "a\udfffb"}', b'{"\xed\xa0\x80": "a\xed\xbf\xbfb"}'])
def test_a_lone_surrogate_can_be_written_again(data: bytes) -> None:
    item = loads_bounded(data)
    assert msgspec.json.decode(msgspec.json.encode(item)) == {"?": "a?b"}


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert loads_bounded(rb'["\ud83d\ude00"]') == ["\N{GRINNING FACE}"]


def test_the_last_of_two_equal_keys_counts() -> None:
    line = b'{"step": 1, "step": 2, "loss": 3, "loss": 4}'
    assert decode_entries(b"[" + line + b"]") == [entry_from(loads_bounded(line))] == [LossEntry(step=2, loss=4.0)]


@given(st.binary(max_size=200) | st.text().map(lambda t: json.dumps(t).encode()))
def test_any_bytes_parse_or_are_a_value_error(data: bytes) -> None:
    try:
        item = loads_bounded(data)
    except ValueError:
        return
    msgspec.json.encode(item)


# -- branches ---------------------------------------------------------------------------------------------------------


def test_going_back_replaces_what_came_after() -> None:
    old = [entry(step) for step in range(1, 8)]
    new = [entry(step, session=2) for step in range(5, 7)]
    assert current_branch([*old, *new]) == [*old[:4], *new]


@given(st.lists(st.integers(0, 12), max_size=60))
def test_the_branch_is_what_a_walk_from_the_end_finds(order: list[int]) -> None:
    entries = [entry(step, session=place) for place, step in enumerate(order)]
    lowest, wanted = math.inf, []
    for one in reversed(entries):
        if one.step < lowest:
            wanted.append(one)
            lowest = one.step
    branch = current_branch(entries)
    assert branch == wanted[::-1]
    assert steps(branch) == sorted(set(steps(branch)))
    last = {one.step: one for one in entries}
    assert all(one == last[one.step] for one in branch)


def test_measurements_do_not_count_as_training() -> None:
    one = make_entry(step=1, loss=2.0, seconds=0.5, session=1, power_w=100.0)
    assert one.same_training(make_entry(step=1, loss=2.0, seconds=0.7, session=2))
    assert not one.same_training(make_entry(step=1, loss=2.5, seconds=0.5, session=1))
    assert not one.same_training(make_entry(step=2, loss=2.0, seconds=0.5, session=1))
