"""The record by policy, counted by hand."""

from __future__ import annotations

import pytest

from andrea_engine.run.loss_entry import make_entry
from andrea_engine.run.record_view import by_policy


def test_each_policy_has_its_own_steps_losses_and_pulls() -> None:
    branch = [
        make_entry(step=1, loss=4.0, ema=4.0, source="a", policy=0, energy_j=10.0),
        make_entry(step=2, loss=float("nan"), ema=4.0, source="b", policy=0, energy_j=30.0),
        make_entry(step=3, loss=2.0, ema=3.0, source="b", policy=1, energy_j=35.0),
        make_entry(step=4, loss=1.0, ema=2.5, source="b", policy=1, energy_j=40.0),
    ]
    first, second = by_policy(branch)
    assert (first.policy, first.first_step, first.last_step, first.entries, first.nonfinite) == (0, 1, 2, 2, 1)
    assert (first.mean_loss, first.energy_j, first.pulls) == (4.0, 20.0, {"a": 1, "b": 1})
    assert (second.policy, second.first_ema, second.last_ema) == (1, 3.0, 2.5)
    assert second.mean_loss == pytest.approx(1.5)
    assert second.pulls == {"b": 2}


def test_an_original_record_without_policies_is_one_policy() -> None:
    (only,) = by_policy([make_entry(step=s, loss=1.0) for s in (1, 2)])
    assert (only.policy, only.entries, only.pulls, only.energy_j) == (0, 2, {}, None)


def test_nothing_recorded() -> None:
    assert by_policy([]) == []
