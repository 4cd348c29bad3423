"""State as a fold: living through a run and reading its loss record give the same bandit."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.curriculum.draws import uniform
from andrea_engine.run.policy import Policy

from .helpers import ARMS, Entry, make, train

STEPS = 160

arm_tables = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d", "e", "f", "g"]), st.integers(1, 10**6), min_size=1, max_size=7
)
policies = st.builds(
    Policy,
    floors=st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 2), max_size=3),
    caps=st.dictionaries(st.sampled_from("gh"), st.floats(0, 2), max_size=2),
    c=st.sampled_from([0.0, 1.0, 100.0]),
    span=st.sampled_from([(1, 1), (7, 42), (3, 9)]),
    focus=st.none() | st.integers(1, 8),
    background=st.sampled_from([0.15, 0.01]),
    warmup_steps=st.sampled_from([0, 40, 10**6]),
    warmup_sources=st.sampled_from([("a",), ("b", "c", "z"), ("z",)]),
)


def wild(step: int, source: str) -> float:
    """Mostly a noisy falling loss, sometimes nonsense."""
    u = uniform(5, step, source)
    bad = {0: math.nan, 1: math.inf, 2: 1e308, 3: -2.0}.get(int(u * 40))
    return bad if bad is not None else 9.0 / (1 + step / 100) + u


@settings(deadline=None, max_examples=40)
@given(policies, arm_tables, st.integers(), st.integers(0, STEPS))
def test_fold_of_a_prefix_and_the_rest_is_the_unbroken_run(
    policy: Policy, arms: dict[str, int], seed: int, cut: int
) -> None:
    if all(policy.cap(name) == 0.0 for name in arms):
        return
    unbroken = make(policy, arms, seed=seed)
    entries = train(unbroken, range(1, STEPS + 1), wild)

    whole = make(policy, dict(reversed(arms.items())), seed=seed)
    whole.fold(entries)
    assert whole.snapshot() == unbroken.snapshot()

    resumed = make(policy, arms, seed=seed)
    resumed.fold(entries[:cut])
    rest = train(resumed, range(cut + 1, STEPS + 1), wild)
    assert list(map(str, rest)) == list(map(str, entries[cut:]))  # str: NaN equals itself
    assert resumed.snapshot() == unbroken.snapshot()


def test_the_null_of_the_record_folds_as_the_nan_of_the_run() -> None:
    live = make()
    entries = train(live, range(1, 100), wild)
    assert any(entry.loss is not None and math.isnan(entry.loss) for entry in entries)
    stored = [e._replace(loss=e.loss if e.loss is not None and math.isfinite(e.loss) else None) for e in entries]
    folded = make()
    folded.fold(stored)
    assert folded.snapshot() == live.snapshot()


def test_looking_changes_nothing() -> None:
    watched, plain = make(), make()
    entries = []
    for step in range(1, 120):
        watched.explain()
        watched.simulate(5)
        watched.reach()
        watched.choose(step)
        entries += train(watched, [step])
    assert train(plain, range(1, 120)) == entries
    assert plain.snapshot() == watched.snapshot()


def test_the_pull_index_counts_the_draws_of_a_source_over_the_whole_run() -> None:
    curriculum = make()
    seen: dict[str, int] = {}
    for step in range(1, 200):
        choice = curriculum.choose(step)
        assert choice == curriculum.choose(step)
        assert choice.pull == seen.get(choice.source, 0)
        seen[choice.source] = choice.pull + 1
        train(curriculum, [step])


def test_a_new_policy_generation_starts_a_fresh_bandit_and_keeps_the_data_order() -> None:
    small = dict.fromkeys(ARMS, 8192 * 50)
    before = make(arms=small)
    old = train(before, range(1, 101))
    pulls = {row.name: row.pulls for row in before.explain()}

    after = make(Policy(floors={"irc": 2.0}), small, generation=1, start_step=100)
    after.fold(old)
    for row in after.explain():
        assert (row.pulls, row.ema, row.mean_reward, row.share) == (0, None, 0.0, 0.0)
        assert row.run_pulls == pulls[row.name]
        assert row.epochs == pytest.approx(pulls[row.name] / 50)
    choice = after.choose(101)
    assert choice.pull == pulls[choice.source]
    new = train(after, range(101, 201))

    resumed = make(Policy(floors={"irc": 2.0}), small, generation=1)  # the start step is in the entries
    resumed.fold(old + new)
    assert resumed.start_step == 100
    assert resumed.snapshot() == after.snapshot()


def test_entries_without_a_source_count_for_no_arm() -> None:
    curriculum = make()
    curriculum.fold([Entry(1, None, 9.0, None), Entry(2, "chat", 8.5, None), Entry(3, None, None, None)])
    assert curriculum.step == 3
    assert {row.name: row.run_pulls for row in curriculum.explain() if row.run_pulls} == {"chat": 1}


def test_steps_must_rise() -> None:
    curriculum = make()
    train(curriculum, [1, 2, 3])
    for step in (3, 2, 0):
        with pytest.raises(ValueError, match="does not come after step 3"):
            curriculum.choose(step)
        with pytest.raises(ValueError, match="does not come after step 3"):
            curriculum.observe(step, "chat", 4.0)
    for generation in (0, 1):
        with pytest.raises(ValueError, match="does not come after"):
            make().fold([Entry(2, "chat", 1.0, generation), Entry(2, "irc", 1.0, generation)])
    with pytest.raises(ValueError, match="does not come after step 100"):
        make(generation=1, start_step=100).choose(100)


def test_the_snapshot_is_strict_json() -> None:
    curriculum = make(unavailable={"gone": "folder missing"})
    train(curriculum, range(1, 30), wild)
    snapshot = curriculum.snapshot()
    assert json.loads(json.dumps(snapshot, allow_nan=False)) == snapshot
    assert snapshot["step"] == 29


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(sorted(ARMS)), st.integers(0, 150), st.sampled_from([0, 60]))
def test_an_arm_that_disappears_leaves_the_state_of_a_run_restarted_without_it(name: str, at: int, warmup: int) -> None:
    policy = Policy(warmup_steps=warmup, warmup_sources=("chat", "irc"))
    running = make(policy)
    entries = train(running, range(1, at + 1))
    notices = running.disable(name, "folder missing")
    assert len(notices) == 1
    assert name in notices[0]
    assert "folder missing" in notices[0]
    assert running.disable(name, "folder missing") == []

    restarted = make(policy, unavailable={name: "folder missing"})
    restarted.fold(entries)
    after = train(running, range(at + 1, at + 60))
    assert all(entry.source != name for entry in after)
    assert train(restarted, range(at + 1, at + 60)) == after
    rows = {row.name: row for row in restarted.explain()}
    for row in running.explain():
        assert row.probability == rows[row.name].probability
