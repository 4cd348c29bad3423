"""Requests on their way from a follower to the leader."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from andrea_engine.latch import SignalLatch
from andrea_engine.train.peers import Peers, identity
from andrea_engine.train.place import Place
from andrea_engine.train.ranks import Ranks


def ranks(rank: int, meanwhile: Callable[[torch.Tensor], object]) -> Ranks:
    """One of two processes; while it tells and hears, `meanwhile` happens to the flags."""
    made = Ranks.__new__(Ranks)
    made.place = Place(rank, 2, rank, 2)
    made._peers = Peers([identity(), identity()], rank)
    made._control = None
    made._dist = _dist(meanwhile)
    return made


def _dist(meanwhile: Callable[[torch.Tensor], object]) -> Any:
    def all_reduce(flags: torch.Tensor, operation: object, group: object) -> None:
        meanwhile(flags)

    return SimpleNamespace(ReduceOp=SimpleNamespace(MAX=None), all_reduce=all_reduce)


def test_a_request_that_comes_while_the_leader_is_told_is_told_with_the_next_step() -> None:
    latch, told = SignalLatch(), []

    def signal(flags: torch.Tensor) -> None:
        told.append(flags.tolist())
        if len(told) == 2:
            latch.save_asked = 7.0

    follower = ranks(1, signal)
    latch.save_asked = 5.0
    for _ in range(4):
        follower._tell(latch)
    assert told == [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]


def test_a_stop_is_told_until_the_leader_ends_all() -> None:
    latch, told = SignalLatch(), []
    latch.stop_asked = 5.0
    follower = ranks(1, lambda flags: told.append(flags.tolist()))
    for _ in range(3):
        follower._tell(latch)
    assert told == [[0.0, 1.0]] * 3


@pytest.mark.parametrize("own", [None, 3.0])
def test_the_leader_hears_of_others_and_keeps_its_own(own: float | None) -> None:
    latch = SignalLatch()
    latch.save_asked = latch.stop_asked = own
    ranks(0, lambda flags: flags.fill_(1.0))._tell(latch)
    if own is None:
        assert latch.save_asked is not None
        assert latch.stop_asked is not None
    else:
        assert (latch.save_asked, latch.stop_asked) == (own, own)
