"""All parameters of a model in one float32 buffer, and likewise the gradients and the two AdamW moments.

A checkpoint is then a header and three contiguous writes, clipping is one norm and the optimizer one pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from andrea_engine.model.shape import ModelShape

_INIT_STD = 0.02


class LayerWeights(NamedTuple):
    """Autograd leaves of one layer; `qkv` stacks wq, wk and wv, which are neighbours in the file."""

    qkv: Tensor  # [3 * d_model, d_model]
    wo: Tensor  # [d_model, d_model]
    fc1: Tensor  # [4 * d_model, d_model]
    fc2: Tensor  # [d_model, 4 * d_model]


@dataclass(frozen=True, slots=True)
class DecayRange:
    """Elements [start, stop) of the flat buffers and whether weight decay applies to them."""

    start: int
    stop: int
    decay: bool


class FlatParameters:
    """Flat float32 buffers `w`, `g`, `m`, `v` of `shape.n_params` elements in file order, and their views.

    `w` is uninitialised until `init_weights` or a checkpoint fills it; `g`, `m` and `v` start at zero.
    The leaves (`token_embedding`, `position_embedding`, `layers`, `head`) share memory with `w`, and
    their `.grad` with `g`, so backward accumulates straight into `g`: clear it with `clear_gradients()`, never by
    setting a gradient to None. Where `overwrites_matrices` is set, backward replaces the gradients of layers and head
    (`EagerOperations`), and only those of the embeddings need clearing. With `training=False` there are no gradients
    and `g`, `m`, `v` are empty.
    """

    def __init__(self, shape: ModelShape, device: torch.device | str = "cpu", *, training: bool = True) -> None:
        self.shape = shape
        self.device = torch.device(device)
        self.training = training
        n, n_training = shape.n_params, shape.n_params if training else 0
        self.w = torch.empty(n, dtype=torch.float32, device=self.device)
        self.g = torch.zeros(n_training, dtype=torch.float32, device=self.device)
        self.m = torch.zeros_like(self.g)
        self.v = torch.zeros_like(self.g)

        self._spans: dict[str, tuple[int, tuple[int, int]]] = {}
        offset = 0
        for name, dims in shape.parameters():
            self._spans[name] = (offset, dims)
            offset += math.prod(dims)

        self.token_embedding = self._leaf("token_embedding")
        self.position_embedding = self._leaf("position_embedding")
        self.layers = tuple(
            LayerWeights(
                qkv=self._leaf(f"layers.{layer}.wq", stacked=3),
                wo=self._leaf(f"layers.{layer}.wo"),
                fc1=self._leaf(f"layers.{layer}.fc1"),
                fc2=self._leaf(f"layers.{layer}.fc2"),
            )
            for layer in range(shape.layers)
        )
        self.head = self._leaf("head")
        self.overwrites_matrices = False
        self.decay_ranges = self._find_decay_ranges()

    def weight(self, name: str) -> Tensor:
        """The view of `w` called `name` in `ModelShape.parameters()`, outside of autograd."""
        return self._view(self.w, name)

    def gradient(self, name: str) -> Tensor:
        """The view of `g` called `name` in `ModelShape.parameters()`."""
        return self._view(self.g, name)

    def start(self, name: str) -> int:
        """Index in the flat buffers of the first element of the parameter `name`."""
        return self._spans[name][0]

    def leaves(self) -> Iterator[tuple[str, Tensor]]:
        """(name, tensor) of every autograd leaf in file order."""
        yield "token_embedding", self.token_embedding
        yield "position_embedding", self.position_embedding
        for index, layer in enumerate(self.layers):
            for name, leaf in layer._asdict().items():
                yield f"layers.{index}.{name}", leaf
        yield "head", self.head

    def clear_gradients(self) -> None:
        """Make `g` ready for the next step."""
        (self.g[: self.start("layers.0.wq")] if self.overwrites_matrices else self.g).zero_()

    def init_weights(self, seed: int) -> None:
        """Draw every weight from a normal distribution, the same for a seed on every device.

        Standard deviation 0.02; wo and fc2 write to the residual stream, whose variance grows with each
        of the 2 * layers additions, so theirs is divided by sqrt(2 * layers). A resumed run skips this.
        """
        generator = torch.Generator().manual_seed(seed)
        for name, (_, dims) in self._spans.items():
            residual = name.endswith((".wo", ".fc2"))
            std = _INIT_STD / math.sqrt(2 * self.shape.layers) if residual else _INIT_STD
            self.weight(name).copy_(torch.empty(dims).normal_(0.0, std, generator=generator))

    def check_views(self) -> None:
        """Raise RuntimeError unless every leaf still lives in `w` and its gradient in `g`.

        A detached gradient fails silently otherwise: the optimizer reads `g` and sees zeros.
        """
        offset = 0
        for name, leaf in self.leaves():
            if leaf.data_ptr() != self.w[offset:].data_ptr():
                raise RuntimeError(f"{name} no longer points into the flat weights: do not reassign its data")
            if self.training and (leaf.grad is None or leaf.grad.data_ptr() != self.g[offset:].data_ptr()):
                raise RuntimeError(
                    f"the gradient of {name} no longer points into the flat gradients: "
                    "clear gradients with clear_gradients(), not by setting them to None"
                )
            offset += leaf.numel()

    def _view(self, buffer: Tensor, name: str) -> Tensor:
        start, dims = self._spans[name]
        return buffer[start : start + math.prod(dims)].view(dims)

    def _leaf(self, name: str, *, stacked: int = 1) -> Tensor:
        """An autograd leaf over `stacked` parameters of equal size that begin with `name`."""
        start, (rows, columns) = self._spans[name]
        stop = start + stacked * rows * columns
        leaf = self.w[start:stop].view(-1, columns).detach()
        if self.training:
            leaf.requires_grad_()
            leaf.grad = self.g[start:stop].view(-1, columns)
        return leaf

    def _find_decay_ranges(self) -> tuple[DecayRange, ...]:
        """Weight decay acts on the matrices of the layers and the head, not on the embeddings."""
        ranges: list[DecayRange] = []
        for name, (start, dims) in self._spans.items():
            decay, stop = not name.endswith("_embedding"), start + math.prod(dims)
            if ranges and ranges[-1].decay == decay:
                ranges[-1] = DecayRange(ranges[-1].start, stop, decay)
            else:
                ranges.append(DecayRange(start, stop, decay))
        return tuple(ranges)
