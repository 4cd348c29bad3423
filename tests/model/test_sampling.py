from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.gpt import GPT
from andrea_engine.model.sampling import Generated, SamplerConfig, draw_token, generate
from andrea_engine.model.shape import ModelShape
from andrea_engine.run.errors import RunError
from andrea_engine.train.optimizer import AdamW

SHAPE = ModelShape(d_model=16, layers=2, heads=4, context=24, vocab=37)


@pytest.fixture(scope="module")
def gpt() -> GPT:
    flat = FlatParameters(SHAPE)
    flat.w.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    return GPT(flat)


def stop_after(polls: int) -> tuple[list[int], Callable[[], bool]]:
    """A `should_stop` that says yes at poll number `polls` + 1, and the list that counts the polls."""
    seen: list[int] = []

    def should_stop() -> bool:
        seen.append(1)
        return len(seen) > polls

    return seen, should_stop


def test_same_seed_same_text_and_other_seed_other_text(gpt: GPT) -> None:
    first = generate(gpt, [3], 20, SamplerConfig(seed=1))
    torch.rand(5)
    assert generate(gpt, [3], 20, SamplerConfig(seed=1)) == first
    assert generate(gpt, [3], 20, SamplerConfig(seed=2)) != first
    assert len(first.ids) == 20
    assert first.finished
    assert all(0 <= token < SHAPE.vocab for token in first.ids)


def test_training_state_is_untouched(gpt: GPT) -> None:
    state, weights, gradients = torch.get_rng_state(), gpt.flat.w.clone(), gpt.flat.g.clone()
    generate(gpt, [3, 4], 10, SamplerConfig(temperature=0.8, top_k=5, top_p=0.9))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(gpt.flat.w, weights)
    assert torch.equal(gpt.flat.g, gradients)


def test_sampling_between_steps_changes_no_bit_of_the_training() -> None:
    def train(*, sample: bool) -> torch.Tensor:
        flat = FlatParameters(SHAPE)
        flat.init_weights(0)
        gpt, optimizer = GPT(flat), AdamW(flat)
        tokens = torch.randint(0, SHAPE.vocab, (4, 25), generator=torch.Generator().manual_seed(1))
        for step in range(1, 5):
            torch.autograd.backward(gpt.loss(tokens[:, :-1], tokens[:, 1:]))
            optimizer.step(step, 1e-3)
            if sample:
                generate(gpt, [step], 5, SamplerConfig())
        return flat.w

    torch.set_num_threads(2)
    assert torch.equal(train(sample=True), train(sample=False))
    assert torch.get_num_threads() == 2


def test_thread_count_is_restored_when_sampling_fails(gpt: GPT) -> None:
    def should_stop() -> bool:
        raise KeyboardInterrupt

    torch.set_num_threads(2)
    with pytest.raises(KeyboardInterrupt):
        generate(gpt, [1], 5, SamplerConfig(), should_stop)
    assert torch.get_num_threads() == 2


def test_greedy_follows_the_full_forward(gpt: GPT) -> None:
    ids = [5, 9, 2]
    for _ in range(12):
        ids.append(int(gpt.logits(torch.tensor([ids]))[0, -1].argmax()))
    assert generate(gpt, [5, 9, 2], 12, SamplerConfig(temperature=0)) == Generated(tuple(ids[3:]), finished=True)


def test_draws_follow_the_full_forward(gpt: GPT) -> None:
    config, generator, ids = SamplerConfig(temperature=0.9, seed=8), torch.Generator().manual_seed(8), [7]
    for _ in range(12):
        ids.append(draw_token(gpt.logits(torch.tensor([ids]))[0, -1], config, generator))
    assert generate(gpt, [7], 12, config).ids == tuple(ids[1:])


@pytest.mark.parametrize("polls", [0, 1, 7])
def test_should_stop_is_asked_before_every_token(gpt: GPT, polls: int) -> None:
    seen, should_stop = stop_after(polls)
    cut = generate(gpt, [3], 20, SamplerConfig(), should_stop)
    assert cut == Generated(generate(gpt, [3], polls, SamplerConfig()).ids, finished=False)
    assert len(cut.ids) == polls
    assert len(seen) == polls + 1


def test_a_stop_that_never_comes_leaves_the_sample_whole(gpt: GPT) -> None:
    seen, should_stop = stop_after(20)
    assert generate(gpt, [3], 20, SamplerConfig(), should_stop).finished
    assert len(seen) == 20


@pytest.mark.parametrize(("prompt", "wanted", "made"), [(1, 100, 23), (20, 100, 4), (23, 5, 1), (24, 5, 0), (1, 0, 0)])
def test_prompt_and_text_never_exceed_the_context(gpt: GPT, prompt: int, wanted: int, made: int) -> None:
    got = generate(gpt, [1] * prompt, wanted, SamplerConfig())
    assert len(got.ids) == made
    assert got.finished


@pytest.mark.parametrize(
    ("prompt", "max_new", "message"),
    [
        ([], 5, "prompt is empty"),
        ([1] * 25, 5, "25 tokens, the context holds 24"),
        ([1, 37], 5, "prompt token 37"),
        ([-1], 5, "prompt token -1"),
        ([1], -1, "must be 0 or more, got -1"),
    ],
)
def test_unusable_requests_are_refused(gpt: GPT, prompt: list[int], max_new: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generate(gpt, prompt, max_new, SamplerConfig())


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
    ],
)
def test_config_values_out_of_range_are_refused(settings_: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SamplerConfig(**settings_)  # type: ignore[arg-type]


def test_damaged_weights_are_reported() -> None:
    flat = FlatParameters(SHAPE)
    flat.init_weights(0)
    flat.layers[0].fc1.data[0, 0] = float("nan")
    with pytest.raises(RunError, match="not finite"):
        generate(GPT(flat), [1], 5, SamplerConfig())


PROBABILITIES = torch.tensor([0.05, 0.4, 0.15, 0.3, 0.1])


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (SamplerConfig(), {0: 0.05, 1: 0.4, 2: 0.15, 3: 0.3, 4: 0.1}),
        # Halving the temperature squares the probabilities: .0025 .16 .0225 .09 .01, sum .285.
        (SamplerConfig(temperature=0.5), {0: 0.00877, 1: 0.5614, 2: 0.0789, 3: 0.3158, 4: 0.0351}),
        (SamplerConfig(top_k=2), {1: 4 / 7, 3: 3 / 7}),
        (SamplerConfig(top_k=99), {0: 0.05, 1: 0.4, 2: 0.15, 3: 0.3, 4: 0.1}),
        (SamplerConfig(top_p=0.6), {1: 4 / 7, 3: 3 / 7}),
        (SamplerConfig(top_p=0.75), {1: 0.4 / 0.85, 3: 0.3 / 0.85, 2: 0.15 / 0.85}),
        (SamplerConfig(top_p=1e-9), {1: 1.0}),
        # Of the three likeliest (.471 .353 .176 after renormalising) the first two already reach 0.8.
        (SamplerConfig(top_k=3, top_p=0.8), {1: 4 / 7, 3: 3 / 7}),
        (SamplerConfig(temperature=0), {1: 1.0}),
        (SamplerConfig(temperature=1e-300), {1: 1.0}),
    ],
)
def test_frequencies_follow_the_distribution(config: SamplerConfig, expected: dict[int, float]) -> None:
    generator, draws = torch.Generator().manual_seed(4), 4000
    log_probabilities = PROBABILITIES.log()
    counts = [0] * 5
    for _ in range(draws):
        counts[draw_token(log_probabilities, config, generator)] += 1
    for token in range(5):
        # At most 0.5 / sqrt(4000) = 0.008 of standard deviation; the seed is fixed.
        assert counts[token] / draws == pytest.approx(expected.get(token, 0.0), abs=0.03)
        assert (counts[token] == 0) == (expected.get(token, 0.0) == 0.0)


def test_top_p_that_is_reached_exactly_keeps_no_further_token() -> None:
    generator = torch.Generator().manual_seed(0)
    assert {draw_token(torch.zeros(4), SamplerConfig(top_p=0.5), generator) for _ in range(200)} == {0, 1}


@settings(deadline=None, max_examples=60)
@given(
    logits=st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=12),
    temperature=st.floats(0, 100),
    top_k=st.none() | st.integers(1, 14),
    top_p=st.none() | st.floats(0, 1, exclude_min=True),
    seed=st.integers(0, 2**63 - 1),
)
def test_any_finite_logits_give_one_of_the_likeliest_tokens(
    logits: list[float], temperature: float, top_k: int | None, top_p: float | None, seed: int
) -> None:
    config = SamplerConfig(temperature, top_k, top_p, seed)
    token = draw_token(torch.tensor(logits), config, torch.Generator().manual_seed(seed))
    above = sum(other > logits[token] for other in logits)
    assert above < (len(logits) if top_k is None else top_k)
    if temperature == 0:
        assert token == logits.index(max(logits))
