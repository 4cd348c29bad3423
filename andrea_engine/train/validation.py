"""Loss on text that is never trained on: the held-out end of every source, always the same windows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from andrea_engine.data.token_cache import Corpus
from andrea_engine.model.gpt import GPT


def validation_windows(corpus: Corpus, name: str, context: int, most: int) -> npt.NDArray[np.int64]:
    """At most `most` windows of the held-out end, spread evenly over it: int64 (windows, context + 1).

    Empty where the source is too small to have given anything away.
    """
    tokens = np.asarray(corpus.validation(name))
    count = min(most, (len(tokens) - 1) // context)
    if count < 1:
        return np.empty((0, context + 1), dtype=np.int64)
    starts = np.linspace(0, len(tokens) - 1 - context, count).astype(np.int64)
    windows: npt.NDArray[np.int64] = tokens[starts[:, None] + np.arange(context + 1)].astype(np.int64)
    return windows


@torch.no_grad()
def validate(model: GPT, corpus: Corpus, most: int, should_stop: Callable[[], bool]) -> dict[str, float] | None:
    """Mean loss in nats per arm with held-out text; None when `should_stop` cut it short (asked before each window)."""
    losses: dict[str, float] = {}
    for name in corpus.arms:
        windows = torch.from_numpy(validation_windows(corpus, name, model.shape.context, most))
        total = 0.0
        for window in windows:
            if should_stop():
                return None
            batch = window[None].to(model.device)
            total += float(model.loss(batch[:, :-1], batch[:, 1:]))
        if len(windows):
            losses[name] = total / len(windows)
    return losses
