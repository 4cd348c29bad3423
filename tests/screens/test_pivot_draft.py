"""The cells of the wizard and the policy they amount to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_engine.run.errors import ConfigError
from andrea_engine.run.policy import Policy
from andrea_tui.screens.pivot.draft import SETTINGS, Draft

ARMS = ["chat", "books", "code"]


def draft(policy: Policy | None = None) -> Draft:
    return Draft.of(policy or Policy(floors={"chat": 0.5}, caps={"code": 0.3}), list(ARMS))


def at(cells: Draft, row: int, column: int = 0) -> Draft:
    cells.move(-100)
    cells.move(row)
    if cells.column != column:
        cells.switch_column()
    return cells


def write(cells: Draft, text: str) -> None:
    for character in text:
        cells.type(character)


def test_an_untouched_draft_is_the_policy_it_came_from() -> None:
    policy = Policy(floors={"chat": 0.5}, caps={"code": 0.3}, focus=2, warmup_steps=10, warmup_sources=("chat",))
    assert draft(policy).policy() == policy
    assert draft(policy).changes() == []


def test_typing_replaces_the_number_and_then_continues_it() -> None:
    cells = at(draft(), 0)
    write(cells, "0.75")
    assert cells.policy().floors == {"chat": 0.75}
    assert cells.changes() == ["floor of chat: 0.5 -> 0.75"]
    cells.move(1)
    cells.move(-1)
    write(cells, "1")
    assert cells.policy().floors == {"chat": 1.0}


def test_nudging_goes_by_a_twentieth_and_stops_at_zero() -> None:
    cells = at(draft(), 0)
    cells.nudge(1)
    assert cells.cell == "0.55"
    for _ in range(20):
        cells.nudge(-1)
    assert cells.cell == "0"


def test_an_emptied_cell_is_no_floor_and_no_cap() -> None:
    cells = at(draft(), 2, column=1)
    for _ in range(5):
        cells.erase()
    assert cells.policy().caps == {}
    assert cells.changes() == ["cap of code: 0.3 -> none"]


def test_an_arm_is_switched_off_and_back_on() -> None:
    cells = at(draft(), 2)
    cells.switch()
    assert cells.policy().cap("code") == 0.0
    cells.switch()
    assert cells.policy().cap("code") == 0.3


@pytest.mark.parametrize(
    ("row", "column", "text", "words"),
    [
        (0, 0, "0.5.5", "the floor of chat is '0.5.5', which is not a number"),
        (0, 1, "0.2", "below its floor 0.5"),
        (3, 0, "..", "c is '..', which is not a number"),
        (4, 0, "50", "span"),
        (5, 0, "0", "span"),
        (6, 0, "1.5", "focus is 1.5; it must be a whole number"),
        (7, 0, "2", "background"),
        (8, 0, "100", "needs sources"),
    ],
)
def test_what_is_no_policy_is_said_in_one_sentence(row: int, column: int, text: str, words: str) -> None:
    cells = at(draft(), row, column)
    write(cells, text)
    assert words in cells.problem()
    assert "\n" not in cells.problem()


def test_everything_switched_off_is_refused() -> None:
    cells = draft()
    for row in range(3):
        at(cells, row).switch()
    with pytest.raises(ConfigError, match="every arm is switched off"):
        cells.policy()


def press(cells: Draft, key: str) -> None:
    match key:
        case "up" | "down":
            cells.move(1 if key == "down" else -1)
        case "+" | "-":
            cells.nudge(1 if key == "+" else -1)
        case "tab":
            cells.switch_column()
        case "x":
            cells.switch()
        case "del":
            cells.erase()
        case _:
            cells.type(key)


@given(st.lists(st.sampled_from(["up", "down", "tab", "+", "-", "x", "del", *"0123456789."]), max_size=60))
def test_no_sequence_of_keys_breaks_the_draft(keys: list[str]) -> None:
    cells = draft()
    for key in keys:
        press(cells, key)
        assert 0 <= cells.row < len(ARMS) + len(SETTINGS)
    if not cells.problem():
        policy = cells.policy()
        again = Draft.of(policy, list(ARMS))
        assert again.policy() == policy
