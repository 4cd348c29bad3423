"""Counter-based randomness: numbers that depend on their labels only, the same in every numpy version."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def key64(*labels: object) -> int:
    """A 64-bit key of the labels (BLAKE2b of their lengths and texts, so that ("ab", "c") is not ("a", "bc"))."""
    state = hashlib.blake2b(digest_size=8)
    for label in labels:
        data = str(label).encode()
        state.update(len(data).to_bytes(8, "little") + data)
    return int.from_bytes(state.digest(), "little")


def splitmix64(key: int, count: int) -> npt.NDArray[np.uint64]:
    """The first `count` outputs of SplitMix64 from state `key`, uint64 (count,).

    Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014). Each output is a
    bijection of its state, so within 2^64 outputs no number occurs twice.
    """
    import numpy as np

    state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GAMMA) + np.uint64(key & _MASK)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
