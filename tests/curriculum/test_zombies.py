"""What a saved state claims never reaches a draw; it is compared, named and listed."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.curriculum.bandit import ArmState
from andrea_engine.run.policy import Policy

from .helpers import ARMS, make, train

TRAINED = make()
ENTRIES = train(TRAINED, range(1, 201))


def saved() -> dict[str, object]:
    snapshot = json.loads(json.dumps(TRAINED.snapshot()))
    assert isinstance(snapshot, dict)
    return snapshot


def resume(snapshot: object) -> tuple[list[str], list[str | None]]:
    """Notices of a resume with `snapshot`, and the sources it draws next."""
    curriculum = make()
    curriculum.fold(ENTRIES)
    notices = curriculum.restore(snapshot)
    return notices, [entry.source for entry in train(curriculum, range(201, 261))]


NEXT = [entry.source for entry in train(TRAINED, range(201, 261))]
TRAINED.fold(ENTRIES)


def test_a_true_snapshot_needs_no_notice() -> None:
    assert resume(saved()) == ([], NEXT)


def test_an_arm_without_a_source_is_named_listed_and_powerless() -> None:
    snapshot = saved()
    snapshot["arms"]["repo-docstrings"] = {"pulls": 9000, "mean_reward": 1e9, "weight": 1.546}  # type: ignore[index]
    notices, drawn = resume(snapshot)
    assert drawn == NEXT
    (notice,) = notices
    assert "'repo-docstrings'" in notice
    assert "1.546" in notice

    curriculum = make()
    curriculum.fold(ENTRIES)
    plain = {row.name: row for row in curriculum.explain()}
    curriculum.restore(snapshot)
    rows = {row.name: row for row in curriculum.explain()}
    zombie = rows.pop("repo-docstrings")
    assert rows == plain  # no share and no exploration credit: not even a bonus differs
    assert (zombie.zombie, zombie.available, zombie.held_by) == (True, False, "unavailable")
    assert (zombie.stored_weight, zombie.weight, zombie.probability, zombie.bonus) == (1.546, 0.0, 0.0, None)
    assert zombie.reason

    again = make()
    again.fold(ENTRIES)
    again.restore(json.loads(json.dumps(curriculum.snapshot())))
    assert next(row for row in again.explain() if row.zombie).stored_weight == 1.546


@pytest.mark.parametrize("disappears", [False, True])
def test_pulls_of_a_lost_arm_do_not_count_in_the_exploration(disappears: bool) -> None:
    """At c = 10 the arm pulled less overtakes the better one only if the 5,000 pulls of `ghost` count in ln N:
    10 sqrt(ln N) (1/sqrt(10) - 1/sqrt(90)) is 4.5 at N = 100 and 6.2 at N = 5,100; the rewards differ by 5."""
    arms = {"better": 10**15, "rarer": 10**15}
    curriculum = make(Policy(c=10.0, focus=1, span=(42, 42)), arms | ({"ghost": 10**15} if disappears else {}))
    curriculum._state.arms = {
        "better": ArmState(pulls=90, mean=100.0),
        "rarer": ArmState(pulls=10, mean=95.0),
        "ghost": ArmState(pulls=5000, mean=0.0),
    }
    if disappears:
        curriculum.observe(1, "ghost", 4.0)
        assert [row.name for row in curriculum.explain() if row.in_focus] == ["rarer"]
        curriculum.disable("ghost", "folder missing")
    explained = {row.name: row for row in curriculum.explain()}
    assert [name for name, row in explained.items() if row.in_focus] == ["better"]
    assert explained["better"].bonus == pytest.approx(10 * math.sqrt(math.log(100) / 90))


def test_a_source_of_the_record_that_is_gone_is_a_zombie() -> None:
    curriculum = make(unavailable={"chat": "folder missing"})
    curriculum.fold(ENTRIES)
    (notice,) = curriculum.restore(saved())
    assert "'chat'" in notice
    row = next(row for row in curriculum.explain() if row.name == "chat")
    assert (row.zombie, row.reason, row.probability) == (True, "folder missing", 0.0)
    assert row.pulls == sum(entry.source == "chat" for entry in ENTRIES)
    assert all(entry.source != "chat" for entry in train(curriculum, range(201, 400)))


def test_a_renamed_source_is_a_zombie_and_a_fresh_arm() -> None:
    arms = {("talk" if name == "chat" else name): tokens for name, tokens in ARMS.items()}
    curriculum = make(arms=arms)
    curriculum.fold(ENTRIES)
    assert len(curriculum.restore(saved())) == 1
    rows = {row.name: row for row in curriculum.explain()}
    assert rows["chat"].zombie
    assert (rows["talk"].available, rows["talk"].pulls, rows["talk"].bonus) == (True, 0, None)


def test_an_arm_that_is_configured_but_was_never_drawn_is_no_zombie() -> None:
    first = make(unavailable={"gone": "folder missing"})
    train(first, range(1, 20))
    second = make(unavailable={"gone": "folder missing"})
    second.fold(train(make(unavailable={"gone": "folder missing"}), range(1, 20)))
    assert second.restore(first.snapshot()) == []
    row = next(row for row in second.explain() if row.name == "gone")
    assert (row.zombie, row.available, row.reason) == (False, False, "folder missing")


@pytest.mark.parametrize(("key", "value"), [("pulls", 3), ("ema", 1.0), ("ema", None), ("mean_reward", "many")])
def test_a_difference_from_the_record_is_reported_and_the_record_wins(key: str, value: object) -> None:
    snapshot = saved()
    snapshot["arms"]["chat"][key] = value  # type: ignore[index]
    notices, drawn = resume(snapshot)
    assert drawn == NEXT
    (notice,) = notices
    assert "'chat'" in notice
    assert key in notice


def test_a_missing_row_and_another_step_are_reported() -> None:
    snapshot = saved()
    del snapshot["arms"]["chat"]  # type: ignore[attr-defined]
    assert "not saved" in resume(snapshot)[0][0]
    older = saved() | {"step": 100}
    assert "step 100" in resume(older)[0][0]
    other = saved() | {"generation": 7}
    assert "policy 7" in resume(other)[0][0]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_no_content_of_a_snapshot_breaks_or_moves_a_draw(data: st.DataObject) -> None:
    snapshot: object = data.draw(json_values)
    assert resume(snapshot)[1] == NEXT
    known = saved()
    place = data.draw(st.sampled_from(["step", "generation", "focus", "arms", "chat", "ghost", "pulls", "weight"]))
    arms = known["arms"]
    assert isinstance(arms, dict)
    if place in known:
        known[place] = snapshot
    elif place in ("chat", "ghost"):
        arms[place] = snapshot
    else:
        arms["chat"][place] = snapshot
    assert resume(known)[1] == NEXT


@pytest.mark.parametrize("weight", [math.nan, math.inf, "x", None, True, 10**400, [1]])
def test_an_unreadable_stored_weight_is_unknown(weight: object) -> None:
    curriculum = make()
    curriculum.fold(ENTRIES)
    (notice,) = curriculum.restore(saved() | {"arms": {**saved()["arms"], "ghost": {"weight": weight}}})  # type: ignore[dict-item]
    assert "unreadable" in notice
    assert next(row for row in curriculum.explain() if row.name == "ghost").stored_weight is None
