"""What the layers are made of: as autograd has it, and as it is fastest where the host runs every operation itself."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (the field's own abbreviation)
from torch import Tensor

NORM_EPS = 1e-5


def split_heads(packed: Tensor, heads: int) -> Tensor:
    """Queries, keys and values, [3, batch, heads, tokens, head_dim], of `packed` [batch, tokens, 3 * d_model]."""
    batch, tokens, width = packed.shape
    split = packed.view(batch, tokens, 3, heads, width // (3 * heads)).permute(2, 0, 3, 1, 4)
    # On the CPU attention over strided views is slower than over copies, copying included. Flash attention on CUDA
    # reads this very layout.
    return split if split.is_cuda else split.contiguous()


def join_heads(x: Tensor) -> Tensor:
    """[batch, tokens, d_model] of x [batch, heads, tokens, head_dim]."""
    return x.transpose(1, 2).flatten(2)


class Operations:
    """The operations of a layer, differentiated by autograd: for compilers, CUDA and inference."""

    def linear(self, x: Tensor, weight: Tensor) -> Tensor:
        """x [..., in] times the transpose of `weight` [out, in]."""
        return F.linear(x, weight)

    def add_linear(self, residual: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        """`residual` [..., out] plus `linear(x, weight)`."""
        return residual + F.linear(x, weight)

    def norm(self, x: Tensor) -> Tensor:
        """Root-mean-square norm over the last dimension, without parameters."""
        return F.rms_norm(x, (x.shape[-1],), eps=NORM_EPS)

    def relu(self, x: Tensor) -> Tensor:
        """Elementwise max(x, 0)."""
        return F.relu(x)

    def attention(self, packed: Tensor, heads: int) -> Tensor:
        """Causal attention [batch, tokens, d_model] of packed queries, keys and values [batch, tokens, 3 * d_model]."""
        q, k, v = split_heads(packed, heads).unbind(0)
        return join_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True))

    def cross_entropy(self, logits: Tensor, targets: Tensor, vocab: int) -> Tensor:
        """Mean of -log softmax(logits)[target] in nats (0-d), for int64 `targets` [tokens].

        `logits` [tokens, vocab or more]: columns beyond `vocab` are padding and count for nothing.
        """
        unpadded = logits[:, :vocab] if logits.shape[1] > vocab else logits
        # In float32, because a bf16 log-probability near 9 is a multiple of 1/16.
        return F.cross_entropy(unpadded.float(), targets)


class EagerOperations(Operations):
    """The same values with fewer passes over the memory: for training on the CPU, which spends a tenth of a step there.

    Each call serves one backward pass: some write their gradient over what they had saved.

    - The product that gives a weight's gradient writes straight to `weight.grad`, which has to be set. With `overwrite`
      it replaces what stands there, so that nobody need clear it; otherwise it adds (the micro-batches after the
      first). Only matrices used once in a forward pass may go through here.
    - The residual is added by the product itself, and the norm has a backward pass of two operations instead of nine.
    - The gradients of queries, keys and values are written side by side, as the next product reads them.
    - Between the logits and their gradient there is one float32 buffer instead of four.
    """

    def __init__(self) -> None:
        self.overwrite = True

    def linear(self, x: Tensor, weight: Tensor) -> Tensor:
        return _Linear.apply(x, weight, self)  # type: ignore[no-any-return, no-untyped-call]

    def add_linear(self, residual: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        return _AddLinear.apply(residual, x, weight, self)  # type: ignore[no-any-return, no-untyped-call]

    def norm(self, x: Tensor) -> Tensor:
        return _Norm.apply(x)  # type: ignore[no-any-return, no-untyped-call]

    def relu(self, x: Tensor) -> Tensor:
        return x.relu_()  # the product before it does not need its own result for its backward pass

    def attention(self, packed: Tensor, heads: int) -> Tensor:
        return _Attention.apply(packed, heads)  # type: ignore[no-any-return, no-untyped-call]

    def cross_entropy(self, logits: Tensor, targets: Tensor, vocab: int) -> Tensor:
        return _CrossEntropy.apply(logits, targets, vocab)  # type: ignore[no-any-return, no-untyped-call]

    def write_gradient(self, weight: Tensor, of_output: Tensor, x: Tensor) -> None:
        """The gradient of `weight` from that of the output [..., out] and the input [..., in]."""
        gradient = weight.grad
        if gradient is None:
            raise RuntimeError("a weight without a place for its gradient: build FlatParameters with training=True")
        rows, columns = of_output.flatten(0, -2).t(), x.flatten(0, -2)
        if self.overwrite:
            torch.mm(rows, columns, out=gradient)
        else:
            gradient.addmm_(rows, columns)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, operations: EagerOperations) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.operations = operations
        return F.linear(x, weight)

    @staticmethod
    def backward(ctx: Any, of_output: Tensor) -> tuple[Tensor, None, None]:
        x, weight = ctx.saved_tensors
        ctx.operations.write_gradient(weight, of_output, x)
        return of_output.matmul(weight), None, None


class _AddLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, residual: Tensor, x: Tensor, weight: Tensor, operations: EagerOperations) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.operations = operations
        return torch.addmm(residual.flatten(0, -2), x.flatten(0, -2), weight.t()).view(residual.shape)

    @staticmethod
    def backward(ctx: Any, of_output: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, weight = ctx.saved_tensors
        ctx.operations.write_gradient(weight, of_output, x)
        return of_output, of_output.matmul(weight), None, None


class _Norm(torch.autograd.Function):
    """Of a row of d elements, with n^2 = |x|^2 + d eps: y = sqrt(d) x / n, dx = sqrt(d) / n (dy - x (x dy) / n^2)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        wide, d = _widen(x), x.shape[-1]
        n = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).square_().add_(d * NORM_EPS).sqrt_()
        ctx.save_for_backward(x, n)
        y: Tensor = wide * (math.sqrt(d) / n)
        return y.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, of_output: Tensor) -> Tensor:
        x, n = ctx.saved_tensors
        # Weight norm (Salimans and Kingma 2016), w = g x / |x|, has this very gradient, and a kernel that reads each
        # row from memory once. Its gain g has the precision of x: 1 is exact in bf16, sqrt(d) is not.
        rows = x.flatten(0, -2)
        gradient, _ = torch.ops.aten._weight_norm_interface_backward(
            of_output.flatten(0, -2), rows, rows.new_ones(len(rows), 1), n.flatten(0, -2), 0
        )
        return gradient.mul_(math.sqrt(x.shape[-1])).view(x.shape)  # type: ignore[no-any-return]


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, packed: Tensor, heads: int) -> Tensor:
        split = split_heads(packed, heads)
        output, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*split.unbind(0), is_causal=True)
        ctx.save_for_backward(split, output, log_sum)
        return join_heads(output)

    @staticmethod
    def backward(ctx: Any, of_output: Tensor) -> tuple[Tensor, None]:
        split, output, log_sum = ctx.saved_tensors
        _, batch, heads, tokens, head_dim = split.shape
        packed = split.new_empty(batch, tokens, 3, heads, head_dim)
        of_output = of_output.view(batch, tokens, heads, head_dim).transpose(1, 2)
        # In float32 the kernel takes two thirds of the time that it takes in bf16, for more digits.
        gradients = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            _widen(of_output), *_widen(split).unbind(0), _widen(output), log_sum, dropout_p=0.0, is_causal=True
        )
        for place, gradient in zip(packed.unbind(2), gradients, strict=True):
            place.copy_(gradient.transpose(1, 2))
        return packed.flatten(2), None


class _CrossEntropy(torch.autograd.Function):
    """The gradient of a row of logits is its softmax, less 1 at the target, over the number of rows."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, vocab: int) -> Tensor:
        log_p = _widen(logits[:, :vocab], copy=True)
        torch._log_softmax(log_p, 1, False, out=log_p)
        ctx.save_for_backward(log_p, targets)
        ctx.columns, ctx.dtype = logits.shape[1], logits.dtype
        return F.nll_loss(log_p, targets)

    @staticmethod
    def backward(ctx: Any, of_loss: Tensor) -> tuple[Tensor, None, None]:
        log_p, targets = ctx.saved_tensors
        rows, vocab = log_p.shape
        gradient = log_p.exp_()
        gradient[torch.arange(rows), targets] -= 1
        gradient *= of_loss / rows
        if (vocab, gradient.dtype) == (ctx.columns, ctx.dtype):
            return gradient, None, None
        padded = gradient.new_empty(rows, ctx.columns, dtype=ctx.dtype)
        padded[:, :vocab] = gradient
        padded[:, vocab:] = 0
        return padded, None, None


def _widen(x: Tensor, *, copy: bool = False) -> Tensor:
    """bf16 as float32, wider types as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32), copy=copy)
