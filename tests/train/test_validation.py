"""Validation loss: always the same held-out windows, never trained on, interruptible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from andrea_engine.data.token_cache import Corpus, Entry, Manifest
from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.gpt import GPT
from andrea_engine.model.shape import ModelShape
from andrea_engine.train.validation import validate, validation_windows

CONTEXT = 8


def corpus(directory: Path, **sizes: int) -> Corpus:
    arms = {}
    for name, count in sizes.items():
        tokens = (np.arange(count) % 50).astype("<u2")
        (directory / f"{name}.u16").write_bytes(tokens.tobytes())
        arms[name] = Entry(tokens=count, sha256="", tokenizer="", identity="", documents=1, characters=count, skipped=0)
    return Corpus(directory, Manifest(context=CONTEXT, arms=arms, unavailable={}))


@pytest.fixture
def model() -> GPT:
    torch.set_num_threads(1)
    flat = FlatParameters(ModelShape(16, 1, 2, CONTEXT, 64), training=False)
    flat.init_weights(3)
    return GPT(flat)


def test_windows_lie_in_the_held_out_end_and_cover_both_its_ends(tmp_path: Path) -> None:
    found = corpus(tmp_path, big=4000)
    arm = found.arms["big"]
    windows = validation_windows(found, "big", CONTEXT, 3)
    assert windows.shape == (3, CONTEXT + 1)
    held_out = (np.arange(arm.tokens, 4000) % 50).astype(np.int64)
    assert windows[0].tolist() == held_out[: CONTEXT + 1].tolist()
    assert windows[-1].tolist() == held_out[-CONTEXT - 1 :].tolist()


def test_a_small_source_has_none(tmp_path: Path) -> None:
    assert len(validation_windows(corpus(tmp_path, small=60), "small", CONTEXT, 3)) == 0


def test_the_loss_is_the_mean_over_the_windows_of_each_arm(tmp_path: Path, model: GPT) -> None:
    found = corpus(tmp_path, big=4000, small=60)
    losses = validate(model, found, 3, lambda: False)
    assert losses is not None
    assert set(losses) == {"big"}
    windows = torch.from_numpy(validation_windows(found, "big", CONTEXT, 3))
    logits = model.logits(windows[:, :-1]).log_softmax(-1)
    expected = -logits.gather(2, windows[:, 1:, None]).mean()
    assert losses["big"] == pytest.approx(float(expected), abs=1e-5)


def test_it_stops_when_asked(tmp_path: Path, model: GPT) -> None:
    asked = iter([False, True])
    assert validate(model, corpus(tmp_path, big=4000), 3, lambda: next(asked)) is None
