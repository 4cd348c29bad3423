"""The model: a decoder-only transformer without biases, norm parameters, final norm or tied weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (the field's own abbreviation)
from torch import Tensor

from andrea_engine.model.flat import FlatParameters, LayerWeights
from andrea_engine.model.operations import Operations
from andrea_engine.model.shape import ModelShape
from andrea_engine.model.working_copy import WorkingCopy


@dataclass(slots=True)
class KvCache:
    """Keys and values of the `length` tokens seen so far.

    Both are [layers, batch, heads, context, head_dim]; what lies beyond `length` is meaningless.
    """

    keys: Tensor
    values: Tensor
    length: int = 0


class GPT:
    """Forward pass over the leaves of a `FlatParameters`, or over those of a `WorkingCopy` of it.

    Deliberately not a `torch.nn.Module`: its `.to()`, `zero_grad()` and `load_state_dict()` would
    detach the parameters from the flat buffers. Layers and head are computed in the precision of their weights.
    """

    def __init__(
        self, flat: FlatParameters, copy: WorkingCopy | None = None, operations: Operations | None = None
    ) -> None:
        self.flat = flat
        self.shape: ModelShape = flat.shape
        self._weights: FlatParameters | WorkingCopy = flat if copy is None else copy
        self._do = operations or Operations()

    @property
    def device(self) -> torch.device:
        return self.flat.device

    def logits(self, idx: Tensor) -> Tensor:
        """Next-token logits [batch, tokens, vocab] of the int64 ids `idx` [batch, tokens].

        Raises ValueError when there are more tokens than the context holds.
        """
        _, tokens = idx.shape
        if tokens > self.shape.context:
            raise ValueError(f"{tokens} tokens do not fit the context of {self.shape.context}")
        x = self._embed(idx, 0)
        for layer in self._weights.layers:
            q, k, v = self._project_qkv(layer, x)
            x = self._finish_layer(layer, x, F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return self._project_vocab(x)

    def loss(self, idx: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy in nats (0-d) of predicting `targets` from `idx`, both int64 [batch, tokens]."""
        # In float32, because a bf16 log-probability near 9 is a multiple of 1/16.
        return F.cross_entropy(self.logits(idx).flatten(0, 1).float(), targets.flatten())

    def start_cache(self, batch: int) -> KvCache:
        """An empty cache for `batch` sequences of up to `context` tokens."""
        s = self.shape
        dims = (s.layers, batch, s.heads, s.context, s.head_dim)
        dtype = self._weights.head.dtype
        return KvCache(
            torch.empty(dims, dtype=dtype, device=self.device), torch.empty(dims, dtype=dtype, device=self.device)
        )

    def prefill(self, idx: Tensor, cache: KvCache) -> Tensor:
        """Read the first tokens, int64 [batch, tokens], into an empty cache; next logits [batch, vocab].

        Outside of autograd. Raises ValueError when the cache is not empty or the tokens do not fit.
        """
        if cache.length:
            raise ValueError(f"prefill needs an empty cache, this one holds {cache.length} tokens")
        return self._extend(idx, cache)

    def forward_token(self, ids: Tensor, cache: KvCache) -> Tensor:
        """Append one token per sequence, int64 ids [batch]; the logits [batch, vocab] that follow it.

        Outside of autograd. Raises ValueError when the cache is full.
        """
        return self._extend(ids[:, None], cache)

    @torch.no_grad()
    def _extend(self, idx: Tensor, cache: KvCache) -> Tensor:
        start, stop = cache.length, cache.length + idx.shape[1]
        if stop > self.shape.context:
            raise ValueError(f"{stop} tokens do not fit the context of {self.shape.context}")
        x = self._embed(idx, start)
        for layer, keys, values in zip(self._weights.layers, cache.keys, cache.values, strict=True):
            q, keys[:, :, start:stop], values[:, :, start:stop] = self._project_qkv(layer, x)
            # A single new token may look at everything before it, so only the first tokens need the mask.
            attention = F.scaled_dot_product_attention(q, keys[:, :, :stop], values[:, :, :stop], is_causal=start == 0)
            x = self._finish_layer(layer, x, attention)
        cache.length = stop
        return self._project_vocab(x[:, -1])

    def _embed(self, idx: Tensor, start: int) -> Tensor:
        weights = self._weights
        positions = weights.position_embedding[start : start + idx.shape[1]]
        return self._do.norm(F.embedding(idx, weights.token_embedding) + positions).to(weights.head.dtype)

    def _project_vocab(self, x: Tensor) -> Tensor:
        """Logits [..., vocab] of x [..., d_model]; the rows that pad a head have no logit."""
        logits = self._do.linear(x, self._weights.head)
        return logits[..., : self.shape.vocab] if logits.shape[-1] > self.shape.vocab else logits

    def _project_qkv(self, layer: LayerWeights, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each [batch, heads, tokens, head_dim], contiguous on the CPU."""
        batch, tokens, _ = x.shape
        packed = self._do.linear(self._do.norm(x), layer.qkv)
        packed = packed.view(batch, tokens, 3, self.shape.heads, self.shape.head_dim).permute(2, 0, 3, 1, 4)
        # On the CPU attention over strided views is slower than over copies, copying included. Flash attention on
        # CUDA reads this very layout.
        q, k, v = (packed if packed.is_cuda else packed.contiguous()).unbind(0)
        return q, k, v

    def _finish_layer(self, layer: LayerWeights, x: Tensor, attention: Tensor) -> Tensor:
        """Add projected attention [batch, heads, tokens, head_dim] and MLP to x [batch, tokens, d_model]."""
        x = self._do.add_linear(x, attention.transpose(1, 2).flatten(2), layer.wo)
        hidden = self._do.relu(self._do.linear(self._do.norm(x), layer.fc1))
        if self.shape.mlp == "relu2":
            hidden = hidden.square()
        return self._do.add_linear(x, hidden, layer.fc2)
