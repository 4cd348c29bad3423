"""The disk forecast, by hand for small numbers."""

from __future__ import annotations

from andrea_engine.run.config import CheckpointTable
from andrea_engine.run.forecast import forecast_disk

N_PARAMS = 1000
SIZE = 12_008


def test_enough_for_the_rolling_ones_and_the_multiples() -> None:
    table = CheckpointTable(every=100, keep_last=10, keep_every=1000)
    # 10 rolling, one more while writing, and steps 1000 ... 5000
    found = forecast_disk(table, N_PARAMS, 0, 5000, kept=0, free=16 * SIZE)
    assert (found.bytes_to_come, found.enough, found.full_at) == (16 * SIZE, True, None)


def test_full_at_the_multiple_that_does_not_fit() -> None:
    table = CheckpointTable(every=100, keep_last=10, keep_every=1000)
    # 11 are needed for the rolling ones, 2 multiples fit: the third, step 3000, does not
    found = forecast_disk(table, N_PARAMS, 0, 5000, kept=0, free=13 * SIZE)
    assert (found.enough, found.full_at) == (False, 3000)


def test_rolling_ones_on_disk_already_need_no_more_room() -> None:
    table = CheckpointTable(every=100, keep_last=10, keep_every=0)
    assert forecast_disk(table, N_PARAMS, 2000, 5000, kept=10, free=SIZE).enough


def test_keep_all_counts_every_checkpoint() -> None:
    table = CheckpointTable(every=100, keep="all")
    assert forecast_disk(table, N_PARAMS, 0, 1000, kept=0, free=10 * SIZE).enough
    found = forecast_disk(table, N_PARAMS, 0, 1000, kept=0, free=3 * SIZE)
    assert (found.enough, found.full_at) == (False, 400)


def test_no_room_for_the_next_one() -> None:
    table = CheckpointTable(every=100, keep_last=10, keep_every=1000)
    assert forecast_disk(table, N_PARAMS, 0, 5000, kept=0, free=0).full_at == 100
