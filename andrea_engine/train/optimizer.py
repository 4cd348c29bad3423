"""AdamW over flat buffers. Never touches `torch.optim`, whose first use doubles the start-up time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from andrea_engine.model.flat import DecayRange, FlatParameters

_BLOCK = 4096


def global_norm(flat: Tensor) -> float:
    """Euclidean norm of a 1-d float32 tensor, inf or NaN when it has a non-finite element. Waits for the device."""
    return float(norm_on_device(flat))


def norm_on_device(flat: Tensor) -> Tensor:
    """The same norm as a float64 tensor (0-d) on the device of `flat`, without waiting for it.

    Blocks of 4096 elements are summed in float32 and the block norms in float64: one float32 sum over
    100 million elements loses small addends and comes out 1 % low.
    """
    whole = flat.numel() // _BLOCK * _BLOCK
    blocks = torch.linalg.vector_norm(flat[:whole].view(-1, _BLOCK), dim=1)
    tail = torch.linalg.vector_norm(flat[whole:])
    norm: Tensor = torch.linalg.vector_norm(torch.cat([blocks, tail[None]]), dtype=torch.float64)
    return norm


class AdamW:
    """AdamW (Loshchilov and Hutter 2019) with global-norm clipping, on the buffers of a `FlatParameters`.

    `clip` is the largest gradient norm left as it is; math.inf switches clipping off. Weight decay acts
    on the ranges that `flat.decay_ranges` marks. Besides m and v there is no state: bias correction
    follows from the step alone.
    """

    def __init__(
        self,
        flat: FlatParameters,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.1,
        clip: float = 1.0,
    ) -> None:
        if not flat.training:
            raise ValueError("AdamW needs gradients and moments: build FlatParameters with training=True")
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"AdamW betas must lie in [0, 1), got {betas}")
        if not eps > 0:
            raise ValueError(f"AdamW eps must be above 0, got {eps}")
        if not weight_decay >= 0:
            raise ValueError(f"AdamW weight_decay must be 0 or more, got {weight_decay}")
        if not clip > 0:
            raise ValueError(f"AdamW clip must be above 0 (inf for no clipping), got {clip}")
        self.flat = flat
        self.betas = betas
        self.eps = eps
        self.weight_decay = weight_decay
        self.clip = clip

    def step(self, step: int, lr: float) -> float:
        """Apply the gradients in `g` as the 1-based step `step`, clear them, return the norm before clipping.

        A norm that is not finite leaves w, m and v as they were; whether to go on is the caller's decision.
        """
        self._require_step(step)
        flat = self.flat
        norm = global_norm(flat.g)  # waits for the device
        if math.isfinite(norm):
            self._update(step, lr, norm / self.clip if norm > self.clip else None)
        flat.clear_gradients()
        return norm

    def step_on_device(self, step: int, lr: float) -> Tensor:
        """`step` without waiting for the device: the norm before clipping as a float64 tensor (0-d).

        Clip and non-finite rule need no branch on the host: the fused kernel divides the gradients by
        max(1, norm / clip), and changes nothing when its flag says that the norm is not finite. Rounding differs
        from `step` where the clip acts. A torch without the fused kernel takes `step`, and waits.
        """
        if not hasattr(torch, "_fused_adamw_"):
            return torch.tensor(self.step(step, lr), dtype=torch.float64)
        self._require_step(step)
        norm = norm_on_device(self.flat.g)
        scale = (norm / self.clip).clamp(min=1.0).float()
        skip = torch.isfinite(norm).logical_not().float()
        for part in self.flat.decay_ranges:
            self._fused_update(part, step, lr, scale, skip)
        self.flat.clear_gradients()
        return norm

    def _require_step(self, step: int) -> None:
        if step < 1:
            raise ValueError(f"optimizer steps count from 1, got {step}")

    def _update(self, step: int, lr: float, divisor: float | None) -> None:
        """AdamW with the gradients divided by `divisor`, which clips them."""
        if hasattr(torch, "_fused_adamw_"):
            # Divided on the way, in the pass that reads them anyway.
            scale = None if divisor is None else torch.tensor(divisor, dtype=torch.float32, device=self.flat.device)
            for part in self.flat.decay_ranges:
                self._fused_update(part, step, lr, scale)
            return
        if divisor is not None:
            self.flat.g.div_(divisor)
        for part in self.flat.decay_ranges:
            self._plain_update(part, step, lr)

    def _fused_update(
        self, part: DecayRange, step: int, lr: float, scale: Tensor | None = None, skip: Tensor | None = None
    ) -> None:
        """One pass over the memory, with the bits of `torch.optim.AdamW(fused=True)`.

        `scale` (0-d float32) divides the gradients, and `skip` (0-d float32) 1 leaves everything as it is.
        """
        w, g, m, v = self._slices(part)
        torch._fused_adamw_(
            [w],
            [g],
            [m],
            [v],
            [],
            [torch.full((), step, dtype=torch.float32, device=w.device)],
            lr=lr,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=self._decay_of(part),
            eps=self.eps,
            amsgrad=False,
            maximize=False,
            grad_scale=scale,
            found_inf=skip,
        )

    def _plain_update(self, part: DecayRange, step: int, lr: float) -> None:
        """The same update from public operations, equal up to rounding, for a torch without the fused one."""
        w, g, m, v = self._slices(part)
        beta1, beta2 = self.betas
        root_correction = math.sqrt(1 - beta2**step)
        w.mul_(1 - lr * self._decay_of(part))
        m.lerp_(g, 1 - beta1)
        v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        w.addcdiv_(m, v.sqrt().div_(root_correction).add_(self.eps), value=-lr / (1 - beta1**step))

    def _slices(self, part: DecayRange) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        span = slice(part.start, part.stop)
        return self.flat.w[span], self.flat.g[span], self.flat.m[span], self.flat.v[span]

    def _decay_of(self, part: DecayRange) -> float:
        return self.weight_decay if part.decay else 0.0
