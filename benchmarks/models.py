"""The models that are measured: ours as the engine trains it, and Hugging Face's GPT-2 of the same shape."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.gpt import GPT
from andrea_engine.model.shape import ModelShape
from andrea_engine.run.config import parse_config, preset_text
from andrea_engine.train.optimizer import AdamW

LR = 3e-4
QUICK_SHAPE = ModelShape(d_model=32, layers=1, heads=2, context=32, vocab=64)


def preset_shape(name: str, *, quick: bool) -> ModelShape:
    """The shape of a preset; a tiny one when `quick`."""
    if quick:
        return QUICK_SHAPE
    return ModelShape.of(parse_config(preset_text(name), name))


def random_batch(shape: ModelShape, batch: int) -> tuple[Tensor, Tensor]:
    """Input ids and targets, int64 [batch, context]."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, shape.vocab, (batch, shape.context + 1), generator=generator)
    return ids[:, :-1], ids[:, 1:]


def fresh(shape: ModelShape) -> FlatParameters:
    """Random weights, moments of zero."""
    flat = FlatParameters(shape)
    flat.init_weights(seed=0)
    return flat


class EngineStep:
    """One training step on `flat` as `Trainer` makes it: forward, backward, loss to Python, clip and AdamW."""

    def __init__(self, flat: FlatParameters, batch: int) -> None:
        self.flat = flat
        self.model = GPT(flat)
        self.optimizer = AdamW(flat)
        self.inputs, self.targets = random_batch(flat.shape, batch)
        self.step = 0

    def __call__(self) -> None:
        self.step += 1
        loss = self.model.loss(self.inputs, self.targets)
        loss.backward()  # type: ignore[no-untyped-call]
        float(loss.detach())
        self.optimizer.step(self.step, LR)


class HuggingFaceStep:
    """The usual loop over `GPT2LMHeadModel`: `torch.optim.AdamW` with its defaults, `clip_grad_norm_`, no dropout.

    Raises ImportError when transformers is not installed.
    """

    def __init__(self, shape: ModelShape, batch: int) -> None:
        transformers: Any = importlib.import_module("transformers")
        config = transformers.GPT2Config(
            vocab_size=shape.vocab,
            n_positions=shape.context,
            n_embd=shape.d_model,
            n_layer=shape.layers,
            n_head=shape.heads,
            activation_function="relu",
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            tie_word_embeddings=False,
            use_cache=False,
            loss_type="ForCausalLM",
            bos_token_id=0,
            eos_token_id=0,
        )
        self.model = transformers.GPT2LMHeadModel(config).train()
        self.attention: str = self.model.config._attn_implementation
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(self.parameters, lr=LR, weight_decay=0.1)
        self.inputs, _ = random_batch(shape, batch)

    def __call__(self) -> None:
        loss = self.model(input_ids=self.inputs, labels=self.inputs).loss
        loss.backward()
        float(loss.detach())
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
