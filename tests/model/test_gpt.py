from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch

from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.gpt import GPT
from andrea_engine.model.operations import EagerOperations, Operations
from andrea_engine.model.shape import ModelShape
from andrea_engine.train.optimizer import AdamW
from tests.model import reference

TINY = ModelShape(d_model=6, layers=2, heads=3, context=5, vocab=7)
BATCH = [[1, 4, 2, 2], [6, 0, 3, 5]]
TARGETS = [[4, 2, 2, 6], [0, 3, 5, 1]]


def model(shape: ModelShape, std: float = 0.4, operations: Operations | None = None) -> GPT:
    """Weights far from the usual small start, so that attention and activations are not nearly linear."""
    flat = FlatParameters(shape)
    flat.w.normal_(0, std, generator=torch.Generator().manual_seed(1))
    return GPT(flat, operations=operations)


@pytest.mark.parametrize("mlp", ["relu", "relu2"])
def test_logits_match_the_plain_reference(mlp: Literal["relu", "relu2"]) -> None:
    gpt = model(replace(TINY, mlp=mlp))
    weights = gpt.flat.w.numpy().astype(np.float64)
    got = gpt.logits(torch.tensor(BATCH)).detach().numpy()
    for row, ids in zip(got, BATCH, strict=True):
        np.testing.assert_allclose(row, reference.logits(weights, gpt.shape, ids), rtol=1e-5, atol=1e-5)


def test_norm_of_a_small_stream_is_held_back_by_its_epsilon() -> None:
    """Embeddings with a mean square near 1e-6, so that 1e-5 is most of the root."""
    gpt = model(TINY)
    gpt.flat.w[: (7 + 5) * 6] *= 2e-3
    weights = gpt.flat.w.numpy().astype(np.float64)
    got = gpt.logits(torch.tensor(BATCH[:1]))[0].detach().numpy()
    np.testing.assert_allclose(got, reference.logits(weights, TINY, BATCH[0]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("operations", [Operations, EagerOperations])
@pytest.mark.parametrize("mlp", ["relu", "relu2"])
def test_loss_and_gradients_match_the_plain_reference(
    mlp: Literal["relu", "relu2"], operations: type[Operations]
) -> None:
    gpt = model(ModelShape(d_model=4, layers=2, heads=2, context=5, vocab=7, mlp=mlp), operations=operations())
    weights = gpt.flat.w.numpy().astype(np.float64)
    loss = gpt.loss(torch.tensor(BATCH), torch.tensor(TARGETS))
    torch.autograd.backward(loss)
    assert loss.item() == pytest.approx(reference.loss(weights, gpt.shape, BATCH, TARGETS), abs=1e-5)
    expected = reference.gradient(weights, gpt.shape, BATCH, TARGETS)
    assert np.abs(expected).max() > 0.05
    np.testing.assert_allclose(gpt.flat.g.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_a_fresh_model_knows_nothing() -> None:
    flat = FlatParameters(ModelShape(d_model=32, layers=2, heads=4, context=16, vocab=50))
    flat.init_weights(0)
    idx = torch.arange(32).reshape(2, 16)
    assert GPT(flat).loss(idx, idx + 1).item() == pytest.approx(math.log(50), abs=0.05)


def test_no_token_sees_the_future() -> None:
    gpt = model(TINY)
    before = gpt.logits(torch.tensor([[1, 2, 3, 4]]))
    after = gpt.logits(torch.tensor([[1, 2, 3, 0]]))
    torch.testing.assert_close(before[:, :3], after[:, :3], rtol=0, atol=1e-6)
    assert not torch.allclose(before[:, 3], after[:, 3])


def test_gradients_of_micro_batches_add_up() -> None:
    gpt = model(TINY)
    torch.autograd.backward(gpt.loss(torch.tensor(BATCH), torch.tensor(TARGETS)))
    together = gpt.flat.g.clone()
    gpt.flat.g.zero_()
    for ids, targets in zip(BATCH, TARGETS, strict=True):
        torch.autograd.backward(gpt.loss(torch.tensor([ids]), torch.tensor([targets])) / 2)
    torch.testing.assert_close(gpt.flat.g, together, rtol=1e-5, atol=1e-6)


def test_eager_gradients_replace_what_stood_there_and_then_add_up() -> None:
    """The first micro-batch overwrites the matrices, whatever the last step left; the embeddings are cleared."""
    operations = EagerOperations()
    gpt = model(TINY, operations=operations)
    gpt.flat.overwrites_matrices = True
    plain = model(TINY)
    gpt.flat.g.fill_(math.nan)
    gpt.flat.clear_gradients()
    for part, (ids, targets) in enumerate(zip(BATCH, TARGETS, strict=True)):
        operations.overwrite = part == 0
        for each in (gpt, plain):
            torch.autograd.backward(each.loss(torch.tensor([ids]), torch.tensor([targets])) / 2)
    gpt.flat.check_views()
    torch.testing.assert_close(gpt.flat.g, plain.flat.g, rtol=1e-5, atol=1e-6)


def test_too_many_tokens_are_refused() -> None:
    gpt = model(TINY)
    with pytest.raises(ValueError, match="6 tokens do not fit the context of 5"):
        gpt.logits(torch.zeros(1, 6, dtype=torch.long))


@pytest.mark.parametrize("mlp", ["relu", "relu2"])
@pytest.mark.parametrize("prompt", [1, 3, 8])
def test_cached_steps_equal_the_full_forward(mlp: Literal["relu", "relu2"], prompt: int) -> None:
    gpt = model(ModelShape(d_model=24, layers=3, heads=4, context=8, vocab=31, mlp=mlp), std=0.15)
    idx = torch.randint(0, 31, (2, 8), generator=torch.Generator().manual_seed(2))
    full = gpt.logits(idx).detach()
    cache = gpt.start_cache(2)
    steps = [gpt.prefill(idx[:, :prompt], cache)]
    steps += [gpt.forward_token(idx[:, at], cache) for at in range(prompt, 8)]
    assert cache.length == 8
    assert not any(step.requires_grad for step in steps)
    torch.testing.assert_close(torch.stack(steps, 1), full[:, prompt - 1 :], rtol=1e-4, atol=1e-4)


def test_a_cache_can_grow_from_nothing_token_by_token() -> None:
    gpt = model(TINY)
    cache = gpt.start_cache(2)
    idx = torch.tensor(BATCH)
    steps = [gpt.forward_token(idx[:, at], cache) for at in range(4)]
    torch.testing.assert_close(torch.stack(steps, 1), gpt.logits(idx).detach(), rtol=1e-4, atol=1e-4)


def test_cache_refuses_a_second_prefill_and_overflow() -> None:
    gpt = model(TINY)
    cache = gpt.start_cache(1)
    gpt.prefill(torch.zeros(1, 5, dtype=torch.long), cache)
    with pytest.raises(ValueError, match="this one holds 5 tokens"):
        gpt.prefill(torch.zeros(1, 1, dtype=torch.long), cache)
    with pytest.raises(ValueError, match="6 tokens do not fit"):
        gpt.forward_token(torch.tensor([0]), cache)
    assert cache.length == 5


@pytest.mark.parametrize("mlp", ["relu", "relu2"])
def test_one_batch_can_be_learnt_by_heart(mlp: Literal["relu", "relu2"]) -> None:
    flat = FlatParameters(ModelShape(d_model=32, layers=2, heads=4, context=16, vocab=40, mlp=mlp))
    flat.init_weights(0)
    gpt, optimizer = GPT(flat), AdamW(flat)
    tokens = torch.randint(0, 40, (4, 17), generator=torch.Generator().manual_seed(3))
    first = last = 0.0
    for step in range(1, 121):
        loss = gpt.loss(tokens[:, :-1], tokens[:, 1:])
        torch.autograd.backward(loss)
        optimizer.step(step, 1e-2)
        first, last = first or loss.item(), loss.item()
    assert first == pytest.approx(math.log(40), abs=0.1)
    assert last < 0.05
    flat.check_views()
