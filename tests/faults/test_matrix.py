"""The failure matrix in README.md: every row is there, every test that it names exists, and what has none says why."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.collected import node_ids

README = Path(__file__).with_name("README.md")
ROWS = {"A": 10, "B": 11, "C": 11, "D": 13, "E": 7, "F": 14, "G": 5, "H": 7, "I": 9, "J": 3}
_ROW = re.compile(r"^\| (?P<row>[A-J]\d+) \| (?P<event>[^|]+) \| (?P<tests>[^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[^`]+::test_[^`]+)`")


def rows() -> list[re.Match[str]]:
    return list(_ROW.finditer(README.read_text(encoding="utf-8")))


def test_every_row_is_there_once_and_in_order() -> None:
    expected = [f"{letter}{number}" for letter, count in ROWS.items() for number in range(1, count + 1)]
    assert [row["row"] for row in rows()] == expected
    lines = [line for line in README.read_text(encoding="utf-8").splitlines() if re.match(r"\| [A-J]\d", line)]
    assert len(lines) == len(expected), "no row is written so that it is not seen here"


def test_every_test_that_is_named_exists() -> None:
    named = {test for row in rows() for test in _TEST.findall(row["tests"])}
    assert named - node_ids() == set()
    assert len(named) > 100


def test_what_has_no_test_says_why() -> None:
    for row in rows():
        why = _TEST.sub("", row["tests"]).strip()
        assert _TEST.search(row["tests"]) or len(why) > 40, row["row"]
        assert not why or why.endswith("."), row["row"]
