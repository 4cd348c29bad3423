"""Counter-based random numbers: each is a pure function of a seed and the labels of its use.

Nothing here holds state, so a resumed, replayed or forked run draws the same numbers without saving any.
"""

from __future__ import annotations

from hashlib import blake2b


def uniform(seed: int, *labels: int | str) -> float:
    """A number in [0, 1) with 53 random bits, the same for the same seed and labels."""
    return (_bits(seed, labels) >> 75) * 2.0**-53


def integer(low: int, high: int, seed: int, *labels: int | str) -> int:
    """An integer from `low` to `high`, both included; the bias is below (high - low + 1) / 2**128.

    Raises ValueError if the range is empty.
    """
    if high < low:
        raise ValueError(f"empty range from {low} to {high}")
    return low + ((_bits(seed, labels) * (high - low + 1)) >> 128)


def _bits(seed: int, labels: tuple[int | str, ...]) -> int:
    digest = blake2b(digest_size=16)
    for label in (seed, *labels):
        # Type tag and length keep (1, 23), (12, 3), ("1", 23) and ("123",) apart.
        tag, text = ("s", label) if isinstance(label, str) else ("i", f"{label:d}")
        data = text.encode("utf-8", "surrogatepass")
        digest.update(f"{tag}{len(data)}:".encode() + data)
    return int.from_bytes(digest.digest(), "big")
