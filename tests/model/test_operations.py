"""Every operation that has a gradient of its own, against autograd's of the plain one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from andrea_engine.model.operations import EagerOperations, Operations

PLAIN, EAGER = Operations(), EagerOperations()
VOCAB = 5
TARGETS = torch.tensor([4, 0, 0, 3, 1, 2])

# What goes in, with the plain and the own operation; a last dimension that is no power of 4 has an inexact root.
CASES: dict[str, tuple[tuple[int, ...], Callable[[Operations, Tensor], Tensor]]] = {
    "norm": ((2, 3, 6), lambda do, x: do.norm(x)),
    "relu": ((2, 3, 6), lambda do, x: do.relu(x * 1)),  # in place, which a leaf does not allow
    "attention": ((2, 7, 3 * 8), lambda do, x: do.attention(x, heads=2)),
    "long attention": ((1, 200, 3 * 4), lambda do, x: do.attention(x, heads=1)),
    "cross-entropy": ((6, VOCAB), lambda do, x: do.cross_entropy(x, TARGETS, VOCAB)),
    "padded cross-entropy": ((6, VOCAB + 3), lambda do, x: do.cross_entropy(x, TARGETS, VOCAB)),
}


def both(case: str, dtype: torch.dtype, scale: float = 2.0) -> list[tuple[Tensor, Tensor]]:
    """Output and gradient of the plain and of the own operation, for an arbitrary gradient of the output.

    What goes in is the same in every precision.
    """
    shape, run = CASES[case]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).mul(scale).bfloat16().to(dtype)
    results = []
    for operations in (PLAIN, EAGER):
        leaf = x.clone().requires_grad_()
        output = run(operations, leaf)
        of_output = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).bfloat16().to(output.dtype)
        (gradient,) = torch.autograd.grad(output, leaf, of_output)
        assert gradient.dtype == dtype
        results.append((output.detach(), gradient))
    return results


@pytest.mark.parametrize("scale", [1e-3, 2.0, 50.0])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_those_of_the_plain_operation(case: str, scale: float) -> None:
    """A scale of 1e-3 is held back by the epsilon of the norm; 50 makes a softmax of zeros and ones."""
    for plain, own in zip(*both(case, torch.float32, scale), strict=True):
        torch.testing.assert_close(own, plain, rtol=1e-5, atol=1e-5 * float(plain.abs().max()))


@pytest.mark.parametrize("case", CASES)
def test_in_bf16_they_are_nearly_as_close_to_the_truth(case: str) -> None:
    """At most one rounding more than autograd's own."""
    truth = both(case, torch.float64)[0]
    plain, own = both(case, torch.bfloat16)
    for which in (0, 1):
        error = float((own[which] - truth[which]).norm() / truth[which].norm())
        assert error <= 2 * float((plain[which] - truth[which]).norm() / truth[which].norm())
        assert error < 2**-7


@pytest.mark.parametrize("case", [case for case in CASES if case != "long attention"])
def test_gradients_are_those_of_finite_differences(case: str) -> None:
    """By hand, because torch.autograd.gradcheck passes backward more than once."""
    shape, run = CASES[case]
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    output = run(EAGER, x)
    of_output = torch.randn(output.shape, generator=generator, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(output, x, of_output)
    step = 1e-6
    for at in range(x.numel()):
        off = torch.zeros_like(x).view(-1).index_fill_(0, torch.tensor(at), step).view(shape)
        with torch.no_grad():
            rise = (run(EAGER, x + off) - run(EAGER, x - off)) * of_output
        assert float(gradient.view(-1)[at]) == pytest.approx(float(rise.sum()) / (2 * step), abs=1e-7)


def test_the_padding_of_the_logits_has_no_gradient() -> None:
    """Whatever stands there."""
    logits = torch.full((6, VOCAB + 3), 1e30).bfloat16()
    logits[:, :VOCAB] = 0
    logits.requires_grad_()
    loss = EAGER.cross_entropy(logits, TARGETS, VOCAB)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.item() == pytest.approx(torch.tensor(VOCAB).log().item())
    assert not gradient[:, VOCAB:].any()
    assert float(gradient[:, :VOCAB].sum().abs()) < 1e-3


@pytest.mark.parametrize("case", ["cross-entropy", "padded cross-entropy"])
def test_a_second_backward_pass_is_refused_where_the_first_wrote_over_what_it_needs(case: str) -> None:
    shape, run = CASES[case]
    loss = run(EAGER, torch.randn(shape, requires_grad=True))
    torch.autograd.backward(loss, retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.backward(loss)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_write_their_gradients_where_the_weight_keeps_it(dtype: torch.dtype) -> None:
    """The first call replaces what stands there, the second adds, as autograd adds up both."""
    operations = EagerOperations()
    generator = torch.Generator().manual_seed(3)
    results = []
    for do in (PLAIN, operations):
        weight = torch.randn(5, 4, generator=generator.manual_seed(3)).to(dtype).requires_grad_()
        weight.grad = torch.zeros_like(weight) if do is PLAIN else torch.full_like(weight, float("nan"))
        gradients = []
        for part in (0, 1):
            operations.overwrite = part == 0
            x = torch.randn(2, 3, 4, generator=generator).to(dtype).requires_grad_()
            residual = torch.randn(2, 3, 5, generator=generator).to(dtype).requires_grad_()
            output = do.add_linear(residual, x, weight) if part else do.linear(x, weight)
            torch.autograd.backward(output, torch.randn(output.shape, generator=generator).to(dtype))
            gradients += [output.detach(), x.grad, residual.grad if part else None]
        results.append([*gradients, weight.grad])
    tolerance = 1e-5 if dtype == torch.float32 else 2**-6
    for plain, own in zip(*results, strict=True):
        torch.testing.assert_close(own, plain, rtol=tolerance, atol=tolerance)
