"""The bf16 copy of the weights that forward and backward compute with, while the float32 masters are what is trained.

Layers and head, the matrices that take part in matrix products, are cast once per step in one pass over the flat
buffer. Two things differ from the masters:

- The head has rows of zeros up to a multiple of 64: an odd vocabulary gives rows that are not 16-byte aligned, for
  which cuBLAS has only slow kernels. Checkpoints know nothing of it. The logits of the padding are cut off before
  anything reads them, so it is never drawn, adds nothing to the loss and has a gradient of exactly nil.
- The embeddings are not copied. They are looked up, not multiplied, so neither bf16 nor padding would gain anything,
  and the gradient of a frequent token is a sum of thousands of rows: added up in bf16 it stops growing at a few hundred
  times an addend (measured on the CPU: 4.0 instead of 41.0 for 4096 addends of 0.01). They are read from the float32
  masters and rounded after the first norm.
"""

from __future__ import annotations

import torch
from torch import Tensor

from andrea_engine.model.flat import FlatParameters, LayerWeights

ROW_MULTIPLE = 64


def padded_rows(vocab: int) -> int:
    """`vocab` rounded up to a multiple of 64."""
    return -(-vocab // ROW_MULTIPLE) * ROW_MULTIPLE


class WorkingCopy:
    """Leaves over a flat bf16 copy `w` of the layers and the head, their gradients over a flat bf16 `g`.

    It has the leaves of a `FlatParameters`: `layers` and `head` [padded_rows(vocab), d_model] in bf16, and the two
    embeddings, which are the float32 leaves themselves. Call `refresh` before the first forward pass of a step and
    `collect` after each backward pass.
    """

    def __init__(self, flat: FlatParameters) -> None:
        if not flat.training:
            raise ValueError("a working copy needs gradients: build FlatParameters with training=True")
        self.flat = flat
        self._start = flat.start("layers.0.wq")
        self._count = flat.w.numel() - self._start
        matrices = [(name, leaf) for name, leaf in flat.leaves() if not name.endswith("_embedding")]
        rows = padded_rows(flat.shape.vocab)
        padding = (rows - flat.shape.vocab) * flat.shape.d_model
        self.w = torch.zeros(self._count + padding, dtype=torch.bfloat16, device=flat.device)
        self.g = torch.zeros_like(self.w)

        copies: list[Tensor] = []
        offset = 0
        for name, leaf in matrices:
            dims = (rows if name == "head" else leaf.shape[0], leaf.shape[1])
            span = slice(offset, offset + dims[0] * dims[1])
            copy = self.w[span].view(dims).detach().requires_grad_()
            copy.grad = self.g[span].view(dims)
            copies.append(copy)
            offset = span.stop
        *inner, self.head = copies
        size = len(LayerWeights._fields)
        self.layers = tuple(LayerWeights(*inner[at : at + size]) for at in range(0, len(inner), size))

    @property
    def token_embedding(self) -> Tensor:
        return self.flat.token_embedding

    @property
    def position_embedding(self) -> Tensor:
        return self.flat.position_embedding

    @torch.no_grad()
    def refresh(self) -> None:
        """Cast the masters, rounding to nearest. The padding stays zero."""
        self.w[: self._count].copy_(self.flat.w[self._start :])

    @torch.no_grad()
    def collect(self, *, first: bool) -> None:
        """Bring the gradients of a backward pass to the flat float32 `g`: the `first` of a step replaces what stands
        there where the flat gradients are overwritten, the others add. Then clear them, unless they are overwritten.
        """
        masters, mine = self.flat.g[self._start :], self.g[: self._count]
        overwritten = self.flat.overwrites_matrices
        if overwritten and first:
            masters.copy_(mine)
        else:
            masters.add_(mine)
        if not overwritten:
            self.g.zero_()
