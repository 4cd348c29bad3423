"""Learning rate as a pure function of the step, so that a resumed run needs no scheduler state."""

from __future__ import annotations

import math


def learning_rate(step0: int, peak: float, floor_ratio: float, warmup_steps: int, total_steps: int) -> float:
    """Learning rate of the 0-based step `step0`: cosine(t) * min(1, (t + 1) / warmup_steps).

    The cosine falls from `peak` at t = 0 to `floor_ratio * peak` at t = `total_steps` and stays there.
    `warmup_steps` 0 means no warm-up. Raises ValueError for arguments out of range.
    """
    if step0 < 0:
        raise ValueError(f"the step must be 0 or more, got {step0}")
    if not (math.isfinite(peak) and peak >= 0):
        raise ValueError(f"the peak learning rate must be finite and not negative, got {peak}")
    if not 0 <= floor_ratio <= 1:
        raise ValueError(f"the learning rate floor must be a share of the peak from 0 to 1, got {floor_ratio}")
    if warmup_steps < 0:
        raise ValueError(f"warm-up steps must be 0 or more, got {warmup_steps}")
    if total_steps < 1:
        raise ValueError(f"total steps must be 1 or more, got {total_steps}")
    progress = min(1.0, step0 / total_steps)
    cosine = 0.5 * (1.0 + math.cos(math.pi * progress))
    warmup = min(1.0, (step0 + 1) / warmup_steps) if warmup_steps else 1.0
    return peak * (floor_ratio + (1.0 - floor_ratio) * cosine) * warmup
