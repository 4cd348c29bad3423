"""The model: a decoder-only transformer without biases, norm parameters, final norm or tied weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (the field's own abbreviation)
from torch import Tensor

from andrea_engine.model.flat import FlatParameters, LayerWeights
from andrea_engine.model.operations import Operations, join_heads, split_heads
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
        return self._padded_logits(idx)[..., : self.shape.vocab]

    def loss(self, idx: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy in nats (0-d) of predicting `targets` from `idx`, both int64 [batch, tokens]."""
        return self._do.cross_entropy(self._padded_logits(idx).flatten(0, 1), targets.flatten(), self.shape.vocab)

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
            qkv = split_heads(self._project_qkv(layer, x), self.shape.heads)
            q, keys[:, :, start:stop], values[:, :, start:stop] = qkv.unbind(0)
            # A single new token may look at everything before it, so only the first tokens need the mask.
            attention = F.scaled_dot_product_attention(q, keys[:, :, :stop], values[:, :, :stop], is_causal=start == 0)
            x = self._finish_layer(layer, x, join_heads(attention))
        cache.length = stop
        return self._do.linear(x[:, -1], self._weights.head)[:, : self.shape.vocab]

    def _embed(self, idx: Tensor, start: int) -> Tensor:
        weights = self._weights
        positions = weights.position_embedding[start : start + idx.shape[1]]
        return self._do.norm(F.embedding(idx, weights.token_embedding) + positions).to(weights.head.dtype)

    def _padded_logits(self, idx: Tensor) -> Tensor:
        """Logits [batch, tokens, vocab or more]; the columns of the rows that pad a head mean nothing."""
        _, tokens = idx.shape
        if tokens > self.shape.context:
            raise ValueError(f"{tokens} tokens do not fit the context of {self.shape.context}")
        x = self._embed(idx, 0)
        for layer in self._weights.layers:
            x = self._finish_layer(layer, x, self._do.attention(self._project_qkv(layer, x), self.shape.heads))
        return self._do.linear(x, self._weights.head)

    def _project_qkv(self, layer: LayerWeights, x: Tensor) -> Tensor:
        """Queries, keys and values side by side, [batch, tokens, 3 * d_model]."""
        return self._do.linear(self._do.norm(x), layer.qkv)

    def _finish_layer(self, layer: LayerWeights, x: Tensor, attention: Tensor) -> Tensor:
        """Add projected attention and MLP to x; all of them are [batch, tokens, d_model]."""
        x = self._do.add_linear(x, attention, layer.wo)
        hidden = self._do.relu(self._do.linear(self._do.norm(x), layer.fc1))
        if self.shape.mlp == "relu2":
            hidden = hidden.square()
        return self._do.add_linear(x, hidden, layer.fc2)
