"""Batches: every window once a pass, pure in the pull, the same numbers for ever."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.data.batches import BatchSequence, batch, epochs, windows_per_pass
from andrea_engine.data.hashing import key64, splitmix64


def counted(size: int) -> np.ndarray:
    """Tokens that tell their own position."""
    return np.arange(size, dtype=np.uint16)


def rows(tokens: np.ndarray, pulls: range, size: int, context: int) -> np.ndarray:
    sequence = BatchSequence(tokens, "arm", 7, size, context)
    return np.concatenate([sequence.batch(pull) for pull in pulls])


sizes = {
    "tokens": st.integers(1, 300),
    "context": st.integers(1, 40),
    "size": st.integers(1, 9),
    "passes": st.integers(1, 3),
}


@settings(deadline=None)
@given(**sizes)
def test_each_pass_visits_every_window_exactly_once(tokens: int, context: int, size: int, passes: int) -> None:
    windows = windows_per_pass(tokens, context)
    pulls = -(-windows * passes // size)
    starts = rows(counted(tokens), range(pulls), size, context)[:, 0].tolist()
    for number in range(passes):
        visited = starts[number * windows : (number + 1) * windows]
        offset = key64("offset", 7, "arm", number) % tokens
        assert Counter(visited) == Counter((offset + index * context) % tokens for index in range(windows))


@settings(deadline=None)
@given(**sizes)
def test_windows_are_the_text_in_order_around_the_circle(tokens: int, context: int, size: int, passes: int) -> None:
    found = rows(counted(tokens), range(passes), size, context)
    assert found.shape == (passes * size, context + 1)
    assert found.dtype == np.int64
    assert (found == (found[:, :1] + np.arange(context + 1)) % tokens).all()


@settings(deadline=None)
@given(st.integers(20, 300), st.integers(1, 19))
def test_no_target_is_seen_twice_in_a_pass(tokens: int, context: int) -> None:
    targets = rows(counted(tokens), range(windows_per_pass(tokens, context)), 1, context)[:, 1:]
    assert len(np.unique(targets)) == targets.size


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=12))
def test_a_batch_depends_on_its_number_only(order: list[int]) -> None:
    tokens = counted(50)
    sequence = BatchSequence(tokens, "arm", 3, 4, 5)
    for pull in order:
        assert (sequence.batch(pull) == batch(tokens, "arm", 3, pull, 4, 5)).all()


def test_a_batch_straddles_the_border_between_passes() -> None:
    # 3 windows a pass, 2 a pull: pull 1 holds the last of pass 0 and the first of pass 1.
    one_by_one = rows(counted(31), range(6), 1, 10)
    assert (rows(counted(31), range(3), 2, 10) == one_by_one).all()
    assert sorted(one_by_one[:3, 0] % 10) != sorted(one_by_one[3:, 0] % 10)  # and the borders have moved


def test_arms_seeds_and_passes_have_orders_of_their_own() -> None:
    tokens = counted(5000)

    def first(name: str, seed: int, pull: int) -> list[int]:
        return list(batch(tokens, name, seed, pull, 50, 10)[:, 0])

    variants = [first("a", 1, 0), first("b", 1, 0), first("a", 2, 0), first("a", 1, 10)]
    assert len({tuple(variant) for variant in variants}) == 4
    assert variants[0] != sorted(variants[0])


def test_splitmix64_gives_its_published_numbers() -> None:
    # First outputs from state 0, as published with its reference implementation.
    assert splitmix64(0, 3).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert splitmix64(2**64 - 1, 2000).tolist() == [reference_splitmix64(2**64 - 1, n) for n in range(2000)]


def reference_splitmix64(state: int, number: int) -> int:
    mask = 2**64 - 1
    z = (state + (number + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def reference_key(*labels: str) -> int:
    data = b"".join(len(label.encode()).to_bytes(8, "little") + label.encode() for label in labels)
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def test_the_stream_is_the_documented_one() -> None:
    """If this fails, the change behind it breaks the resume of every run that exists."""
    tokens, context, windows = 100, 7, 14
    expected = []
    for epoch in map(str, range(2)):
        key, offset = reference_key("order", "1337", "chat", epoch), reference_key("offset", "1337", "chat", epoch)
        hashes = [reference_splitmix64(key, number) for number in range(windows)]
        order = sorted(range(windows), key=hashes.__getitem__)
        expected += [(number * context + offset) % tokens for number in order]
    found = [batch(counted(tokens), "chat", 1337, pull, 4, context)[:, 0] for pull in range(7)]
    assert np.concatenate(found).tolist() == expected


def test_labels_do_not_run_into_each_other() -> None:
    assert key64("ab", "c") != key64("a", "bc")
    assert key64(1, 2) == key64("1", "2")


def test_epochs_are_the_passes_made() -> None:
    # 100 tokens in windows of 10 are 10 windows; 5 pulls of 4 visit 20 of them.
    assert epochs(5, 4, 10, 100) == 2.0
    assert epochs(0, 4, 10, 100) == 0.0
    assert epochs(3, 4, 10, 7) == 12.0  # shorter than a window: each visit is a pass


def test_a_memory_map_is_read_like_an_array(tmp_path: object) -> None:
    path = f"{tmp_path}/tokens"
    counted(40).astype("<u2").tofile(path)
    mapped = np.memmap(path, dtype="<u2", mode="r")
    found = batch(mapped, "arm", 1, 0, 2, 8)
    assert type(found) is np.ndarray
    assert (found == batch(counted(40), "arm", 1, 0, 2, 8)).all()


@pytest.mark.parametrize(("tokens", "size", "context"), [(0, 1, 1), (5, 0, 1), (5, 1, 0)])
def test_sizes_below_one_are_refused(tokens: int, size: int, context: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        BatchSequence(counted(tokens), "arm", 1, size, context)


def test_a_negative_pull_is_refused() -> None:
    with pytest.raises(ValueError, match="pull -1 is below 0"):
        batch(counted(9), "arm", 1, -1, 1, 2)
