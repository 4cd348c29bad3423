"""The shape of a model: names, sizes and the order of its parameters in a checkpoint file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from andrea_engine.run.config import RunConfig

Mlp = Literal["relu", "relu2"]

MAX_PARAMS = 2**31 - 1  # the checkpoint header counts parameters in a signed 32-bit integer
_HEADER_BYTES = 8  # int32 step, int32 n_params
_BYTES_PER_PARAM = 12  # float32 weight, first moment, second moment


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Everything that fixes the parameter count and the arithmetic of a model.

    `mlp` is the activation between the two MLP matrices: `relu`, or `relu2` for its square.
    Raises ValueError when the sizes do not fit together or exceed what the checkpoint header can count.
    """

    d_model: int
    layers: int
    heads: int
    context: int
    vocab: int
    mlp: Mlp = "relu"

    def __post_init__(self) -> None:
        for field in ("d_model", "layers", "heads", "context", "vocab"):
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"model {field} must be a positive integer, got {value!r}")
        if self.d_model % self.heads:
            raise ValueError(
                f"model d_model ({self.d_model}) must be a multiple of heads ({self.heads}): "
                "each head takes an equal share of the width"
            )
        if self.mlp not in get_args(Mlp):
            raise ValueError(f"model mlp must be one of {', '.join(get_args(Mlp))}, got {self.mlp!r}")
        if self.n_params > MAX_PARAMS:
            raise ValueError(
                f"the model has {self.n_params:,} parameters, a checkpoint file can count at most "
                f"{MAX_PARAMS:,}: choose a smaller d_model, layers or vocab"
            )

    @classmethod
    def of(cls, config: RunConfig) -> ModelShape:
        """The shape that a run.toml describes."""
        model = config.model
        return cls(
            d_model=model.d_model,
            layers=model.layers,
            heads=model.heads,
            context=model.context,
            vocab=config.vocab,
            mlp=model.mlp,
        )

    @property
    def head_dim(self) -> int:
        return self.d_model // self.heads

    @property
    def n_params(self) -> int:
        return sum(math.prod(dims) for _, dims in self.parameters())

    @property
    def checkpoint_bytes(self) -> int:
        """Size of a checkpoint file: the header, then float32 weights, m and v."""
        return _HEADER_BYTES + _BYTES_PER_PARAM * self.n_params

    def parameters(self) -> list[tuple[str, tuple[int, int]]]:
        """(name, (rows, columns)) of each parameter in file order; matrices are row-major [out, in]."""
        d = self.d_model
        named = [("token_embedding", (self.vocab, d)), ("position_embedding", (self.context, d))]
        for layer in range(self.layers):
            named += [(f"layers.{layer}.{name}", (d, d)) for name in ("wq", "wk", "wv", "wo")]
            named += [(f"layers.{layer}.fc1", (4 * d, d)), (f"layers.{layer}.fc2", (d, 4 * d))]
        named.append(("head", (self.vocab, d)))
        return named

    def flops_per_token(self, context: int) -> int:
        """Forward and backward floating point operations per token in sequences of `context` tokens.

        6 per weight that takes part in a matrix product (2 forward, 4 backward; embeddings are
        look-ups), plus 12 * layers * d_model * context for attention, halved because the causal mask
        leaves half of the score matrix.
        """
        matmul_weights = self.layers * 12 * self.d_model**2 + self.vocab * self.d_model
        return 6 * matmul_weights + 6 * self.layers * self.d_model * context
