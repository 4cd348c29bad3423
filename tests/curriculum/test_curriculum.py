"""The mix over a run: bounds, exploration, warm-up, broken rewards, missing sources and the preview."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.curriculum.bandit import ArmState
from andrea_engine.curriculum.draws import uniform
from andrea_engine.run.errors import ConfigError
from andrea_engine.run.policy import Policy

from .helpers import ARMS, falling, make, train


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_final_weights_respect_floor_and_cap(data: st.DataObject) -> None:
    floors = data.draw(st.fixed_dictionaries({name: st.floats(0, 3) for name in ARMS}))
    caps = {name: floor + data.draw(st.floats(0.01, 2)) for name, floor in floors.items()}
    curriculum = make(Policy(floors=floors, caps=caps), dict.fromkeys(ARMS, 8192 * 3))
    train(curriculum, range(1, 41))
    explained = curriculum.explain()
    for row in explained:
        assert floors[row.name] <= row.weight <= caps[row.name]
    total = sum(row.weight for row in explained)
    for row in explained:
        assert row.probability == pytest.approx(row.weight / total)


def test_draws_of_a_curriculum_follow_the_explained_probabilities() -> None:
    curriculum = make(Policy(floors={"irc": 2.0}, caps={"chat": 0.4}, focus=len(ARMS)), dict.fromkeys(ARMS, 10**15))
    expected = {row.name: row.probability for row in curriculum.explain()}
    draws = 20_000
    counts = Counter(entry.source for entry in train(curriculum, range(1, draws + 1)))
    chi_square = sum((counts[name] - draws * p) ** 2 / (draws * p) for name, p in expected.items())
    assert chi_square < 18.5  # 99.9 % quantile, 4 degrees of freedom


def test_the_focus_set_is_redrawn_within_the_span() -> None:
    curriculum = make(Policy(span=(7, 42)))
    changes, last = [], 0
    for step in range(1, 3000):
        train(curriculum, [step])
        focus = curriculum.snapshot()["focus"]
        assert isinstance(focus, dict)
        assert len(focus["arms"]) == 2  # a third of five, rounded up
        if focus["redraws"] != last:
            changes.append(step + 1)
            last = focus["redraws"]
    lengths = [after - before for before, after in pairwise(changes)][1:]
    assert min(lengths) == 7
    assert max(lengths) == 42


def test_the_bandit_earns_more_than_uniform_mixing_on_a_stationary_problem() -> None:
    """Noise of an arm around a constant loss earns in proportion to its width: one arm is clearly the best."""
    width = {"chat": 0.1, "dictionary": 0.2, "gutenberg": 1.0, "irc": 0.3, "repo-docs": 0.1}

    def loss(step: int, source: str) -> float:
        return 4.0 + width[source] * (uniform(8, step, source) - 0.5)

    def earned(sources: list[str]) -> float:
        arms = {name: ArmState() for name in ARMS}
        return sum(arms[source].observe(loss(step, source)) or 0.0 for step, source in enumerate(sources, 1))

    names = sorted(ARMS)
    uniformly = [names[int(uniform(9, step) * len(names))] for step in range(1, 4001)]
    entries = train(make(Policy(focus=1)), range(1, 4001), loss)
    chosen = [entry.source for entry in entries if entry.source]
    assert Counter(chosen).most_common(1)[0][0] == "gutenberg"
    assert earned(chosen) > 1.5 * earned(uniformly)


def test_an_arm_with_a_floor_gets_its_share_although_it_earns_nothing() -> None:
    def loss(step: int, source: str) -> float:
        return 4.0 if source == "irc" else falling(step, source)

    curriculum = make(Policy(floors={"irc": 0.8}), dict.fromkeys(ARMS, 10**15))
    least, most = curriculum.reach()["irc"]  # the sources are too long for the penalty to matter
    assert least == pytest.approx(0.8 / (0.8 + 2 * 1.0 + 2 * 0.15))
    assert most == pytest.approx(1.0 / (1.0 + 1.0 + 3 * 0.15))
    draws, expected, pulled = 6000, 0.0, 0
    for step in range(1, draws + 1):
        probability = next(row.probability for row in curriculum.explain() if row.name == "irc")
        assert least <= probability + 1e-9
        expected += probability
        pulled += train(curriculum, [step], loss)[0].source == "irc"
    deviation = math.sqrt(draws * least)
    assert pulled > draws * least - 3 * deviation
    assert abs(pulled - expected) < 3 * deviation


def test_only_warm_up_sources_are_drawn_during_the_warm_up() -> None:
    policy = Policy(warmup_steps=100, warmup_sources=("chat", "irc", "absent"), floors={"gutenberg": 5.0})
    curriculum = make(policy)
    (notice,) = curriculum.notices
    assert "'absent'" in notice
    held = {row.name: row.held_by for row in curriculum.explain()}
    assert {held["gutenberg"], held["dictionary"], held["repo-docs"]} == {"warm-up"}
    assert held["chat"] in ("focus", "background")
    assert curriculum.snapshot()["phase"] == {"name": "warm-up", "warmup_left": 100}
    assert {entry.source for entry in train(curriculum, range(1, 101))} == {"chat", "irc"}
    assert curriculum.snapshot()["phase"] == {"name": "main", "warmup_left": 0}
    assert {row.name for row in curriculum.explain() if row.in_focus} < {"dictionary", "gutenberg", "repo-docs"}
    assert {entry.source for entry in train(curriculum, range(101, 400))} == set(ARMS)


def test_a_warm_up_without_any_live_source_draws_all_arms_and_says_so() -> None:
    policy = Policy(warmup_steps=1000, warmup_sources=("chat",))
    curriculum = make(policy, unavailable={"chat": "folder missing"})
    assert [notice for notice in curriculum.notices if "warm-up" in notice] == curriculum.notices
    assert len(curriculum.notices) == 1
    assert {entry.source for entry in train(curriculum, range(1, 300))} == set(ARMS) - {"chat"}

    running = make(policy)
    train(running, range(1, 50))
    assert ["warm-up" in notice for notice in running.disable("chat", "folder missing")] == [False, True]
    assert ["warm-up" in notice for notice in running.disable("irc", "folder missing")] == [False]
    assert running.choose(50).source != "chat"
    train(running, range(50, 1001))
    assert running.notices == []


def test_bad_losses_never_capture_the_choice() -> None:
    bad = [math.nan, math.inf, -math.inf, 1e308]
    endless = dict.fromkeys(ARMS, 10**15)
    curriculum = make(Policy(floors={"chat": 0.8, "dictionary": 0.7}), endless)
    for step, loss in enumerate(bad, 1):
        curriculum.observe(step, "chat", loss)
    shares = curriculum.reach()
    pulled = Counter(entry.source for entry in train(curriculum, range(5, 2005)))
    explained = {row.name: row for row in curriculum.explain()}
    assert explained["chat"].rejected == 4
    assert sum(row.rejected for row in explained.values()) == 4
    for name, row in explained.items():
        assert math.isfinite(row.mean_reward)
        assert row.probability >= shares[name][0] - 1e-9
        assert pulled[name] > 2000 * shares[name][0] - 3 * math.sqrt(2000 * shares[name][0])


def test_an_arm_that_only_ever_fails_is_still_explained() -> None:
    curriculum = make(arms={"chat": 10**6})
    train(curriculum, range(1, 50), lambda step, source: None)
    (row,) = curriculum.explain()
    assert (row.pulls, row.rejected, row.ema, row.mean_reward, row.spread) == (49, 49, None, 0.0, None)
    assert row.probability == 1.0


def test_one_arm_and_no_exploration_work() -> None:
    alone = make(Policy(c=0.0), {"chat": 10**6})
    assert {entry.source for entry in train(alone, range(1, 100))} == {"chat"}
    greedy = make(Policy(c=0.0))
    assert {entry.source for entry in train(greedy, range(1, 300))} == set(ARMS)
    assert all(row.bonus == 0.0 for row in greedy.explain())


def test_an_arm_capped_at_zero_is_off_and_takes_no_place_in_the_focus_set() -> None:
    curriculum = make(Policy(caps={"chat": 0.0}, focus=1))
    entries = train(curriculum, range(1, 300))
    assert {entry.source for entry in entries} == set(ARMS) - {"chat"}
    row = next(row for row in curriculum.explain() if row.name == "chat")
    assert (row.weight, row.probability, row.held_by, row.in_focus) == (0.0, 0.0, "cap", False)
    assert any(row.in_focus for row in curriculum.explain())


def test_nothing_to_draw_is_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigError, match="all arms have weight zero"):
        make(Policy(caps=dict.fromkeys(ARMS, 0.0))).choose(1)
    gone = make(arms={"chat": 0}, unavailable={"irc": "folder missing"})
    with pytest.raises(ConfigError, match=r"no arm has a live source.*chat: it has no tokens.*irc: folder missing"):
        gone.choose(1)
    assert [(row.name, row.available, row.held_by) for row in gone.explain()] == [
        ("chat", False, "unavailable"),
        ("irc", False, "unavailable"),
    ]
    with pytest.raises(ConfigError, match="none is configured"):
        make(arms={}).choose(1)


def test_a_source_read_often_loses_weight_until_its_floor_holds_it() -> None:
    curriculum = make(Policy(floors={"irc": 0.1}), {"chat": 10**12, "irc": 8192 * 10})
    train(curriculum, range(1, 1500))
    row = next(row for row in curriculum.explain() if row.name == "irc")
    assert row.epochs == row.run_pulls / 10
    assert row.penalty == pytest.approx(1 / (1 + row.run_pulls / 10))
    assert (row.weight, row.held_by) == (0.1, "floor")


def test_shares_are_of_the_last_500_steps() -> None:
    curriculum = make()
    for step in range(1, 1001):
        curriculum.observe(step, "chat" if step <= 600 else "irc", 4.0)
    shares = {row.name: row.share for row in curriculum.explain()}
    assert (shares["chat"], shares["irc"], shares["gutenberg"]) == (0.2, 0.8, 0.0)


def test_ties_depend_on_the_seed_and_not_on_the_order_of_the_arms() -> None:
    def first_focus(seed: int, arms: dict[str, int]) -> list[str]:
        return sorted(row.name for row in make(Policy(focus=1), arms, seed=seed).explain() if row.in_focus)

    backward = dict(reversed(ARMS.items()))
    assert all(first_focus(seed, ARMS) == first_focus(seed, backward) for seed in range(20))
    assert {name for seed in range(60) for name in first_focus(seed, ARMS)} == set(ARMS)


def test_the_preview_counts_every_live_arm_and_keeps_to_the_reach() -> None:
    curriculum = make(unavailable={"irc": "folder missing"})
    train(curriculum, range(1, 300))
    preview = curriculum.simulate(500)
    assert set(preview) == set(ARMS) - {"irc"}
    assert sum(preview.values()) == 500
    assert preview == curriculum.simulate(500)
    new = Policy(floors={"gutenberg": 30.0}, caps={"chat": 0.0})
    bars, reach = curriculum.simulate(500, new), curriculum.reach(new)
    assert bars["chat"] == 0
    assert reach["chat"] == (0.0, 0.0)
    assert bars["gutenberg"] > 500 * reach["gutenberg"][0] - 3 * math.sqrt(500)
    assert bars["gutenberg"] > 450


def test_the_preview_of_a_new_policy_draws_as_the_run_would_after_the_pivot() -> None:
    curriculum = make()
    entries = train(curriculum, range(1, 300))
    new = Policy(c=0.0, focus=1)
    after = make(new, generation=1, start_step=299)
    after.fold(entries)
    means = {row.name: row.mean_reward for row in curriculum.explain()}
    drawn = dict.fromkeys(sorted(ARMS), 0)
    for step in range(300, 800):
        source = after.choose(step).source
        after._state.pull(step, source, after._focus_at(step)).credit(means[source])
        drawn[source] += 1
    assert curriculum.simulate(500, new) == drawn
