"""Which tokens each pull of an arm sees: a pure function of the arm's name, the seed and the number of the pull.

Every pass over a source cuts it, as a circle, into windows of `context` tokens, starting at an offset of its own so
that the borders move from pass to pass, and visits each window once in an order of its own. Pull p takes the
windows p*batch ... p*batch + batch - 1 of the endless sequence of passes. So nothing has to be saved for a resume.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from andrea_engine.data.hashing import key64, splitmix64
from andrea_engine.data.tokenizer import BOS

Tokens = npt.NDArray[np.uint16]


def windows_per_pass(tokens: int, context: int) -> int:
    """Windows that one pass over `tokens` tokens visits: at least one, since a short source repeats itself."""
    return max(1, tokens // context)


def epochs(pulls: int, batch: int, context: int, tokens: int) -> float:
    """Passes over a source of `tokens` tokens that `pulls` pulls have made."""
    return pulls * batch / windows_per_pass(tokens, context)


class BatchSequence:
    """The batches of one arm. Holds nothing but the order of the passes it needs at the moment."""

    _PASSES_KEPT = 2  # a batch may straddle the border between two

    def __init__(self, tokens: Tokens, name: str, seed: int, batch: int, context: int) -> None:
        """`tokens`: uint16 (n,), n >= 1. Raises ValueError when a size is below 1."""
        if tokens.ndim != 1 or min(len(tokens), batch, context) < 1:
            raise ValueError(f"arm '{name}': tokens, batch and context must each be at least 1")
        self._tokens: Tokens = np.asarray(tokens)  # a plain view: indexing a memmap is slower and gives memmaps
        self._name, self._seed = name, seed
        self._batch, self._context = batch, context
        self._windows = windows_per_pass(len(tokens), context)
        self._starts: dict[int, npt.NDArray[np.int64]] = {}

    def batch(self, pull: int) -> npt.NDArray[np.int64]:
        """Pull number `pull` (from 0): int64 (batch, context + 1); inputs are [:, :-1], targets [:, 1:]."""
        indices = self.starts(pull)[:, None] + np.arange(self._context + 1)
        chosen: npt.NDArray[np.int64] = self._tokens[indices % len(self._tokens)].astype(np.int64)
        return chosen

    def starts(self, pull: int) -> npt.NDArray[np.int64]:
        """Where the windows of a pull begin: token positions, int64 (batch,), possibly beyond the end (they wrap)."""
        if pull < 0:
            raise ValueError(f"arm '{self._name}': pull {pull} is below 0")
        first = pull * self._batch
        places = [divmod(number, self._windows) for number in range(first, first + self._batch)]
        return np.array([self._order(epoch)[window] for epoch, window in places], dtype=np.int64)

    def documents(self, pull: int) -> list[int]:
        """Numbers (from 0) of the documents in which the windows of a pull begin: to look at after a bad step."""
        begins = np.flatnonzero(self._tokens == BOS)
        positions = self.starts(pull) % len(self._tokens)
        return sorted({max(0, int(np.searchsorted(begins, at, side="right")) - 1) for at in positions})

    def _order(self, epoch: int) -> npt.NDArray[np.int64]:
        """Start positions of the windows of pass `epoch`, in the order of the visits: int64 (windows,)."""
        starts = self._starts.get(epoch)
        if starts is None:
            while len(self._starts) >= self._PASSES_KEPT:
                del self._starts[next(iter(self._starts))]
            offset = key64("offset", self._seed, self._name, epoch) % len(self._tokens)
            hashes = splitmix64(key64("order", self._seed, self._name, epoch), self._windows)
            starts = self._starts[epoch] = np.argsort(hashes, kind="stable") * self._context + offset
        return starts


def batch(tokens: Tokens, name: str, seed: int, pull: int, batch: int, context: int) -> npt.NDArray[np.int64]:
    """`BatchSequence(...).batch(pull)` without anything kept."""
    return BatchSequence(tokens, name, seed, batch, context).batch(pull)
