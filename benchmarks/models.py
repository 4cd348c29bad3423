"""The models that are measured: ours as the engine trains it, and Hugging Face's GPT-2 of the same shape."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.shape import ModelShape
from andrea_engine.run.config import DeviceTable, RunConfig, parse_config, preset_text
from andrea_engine.train.environment import Precision, choose_environment
from andrea_engine.train.optimizer import AdamW
from andrea_engine.train.step import TrainingStep

LR = 3e-4
QUICK_SHAPE = ModelShape(d_model=32, layers=1, heads=2, context=32, vocab=64)


def preset_shape(name: str, *, quick: bool) -> ModelShape:
    """The shape of a preset; a tiny one when `quick`."""
    if quick:
        return QUICK_SHAPE
    return ModelShape.of(parse_config(preset_text(name), name))


def precision_by_itself(threads: int) -> Precision:
    """What an engine computes in on this CPU unless told otherwise."""
    return choose_environment(RunConfig(device=DeviceTable(name="cpu", threads=threads))).precision


def random_batch(shape: ModelShape, batch: int) -> Tensor:
    """Ids as the engine reads them, int64 [batch, context + 1]."""
    return torch.randint(0, shape.vocab, (batch, shape.context + 1), generator=torch.Generator().manual_seed(0))


def fresh(shape: ModelShape) -> FlatParameters:
    """Random weights, moments of zero."""
    flat = FlatParameters(shape)
    flat.init_weights(seed=0)
    return flat


class EngineStep:
    """One step of the engine on `flat`: forward, backward, loss to Python, clip and AdamW."""

    def __init__(self, flat: FlatParameters, batch: int, precision: Precision = "fp32") -> None:
        self.flat = flat
        self.optimizer = AdamW(flat)
        self.training_step = TrainingStep(flat, self.optimizer, precision=precision)
        self.batch = random_batch(flat.shape, batch)
        self.step = 0

    def __call__(self) -> None:
        self.step += 1
        self.training_step.run(self.batch, self.step, LR)


class HuggingFaceStep:
    """The usual loop over `GPT2LMHeadModel`: `torch.optim.AdamW` with its defaults, `clip_grad_norm_`, no dropout.

    bf16 is what its users take: autocast. Raises ImportError when transformers is not installed.
    """

    def __init__(self, shape: ModelShape, batch: int, precision: Precision = "fp32") -> None:
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
            bos_token_id=0,
            eos_token_id=0,
        )
        self.model = transformers.GPT2LMHeadModel(config).train()
        self.attention: str = self.model.config._attn_implementation
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(self.parameters, lr=LR, weight_decay=0.1)
        self.inputs = random_batch(shape, batch)[:, :-1]
        self.autocast = precision == "bf16"

    def __call__(self) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            loss = self.model(input_ids=self.inputs, labels=self.inputs).loss
        loss.backward()
        float(loss.detach())
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
