"""Child process: `andrea-engine train RUN` that prints the monotonic time at the end of its first step and exits.

With `torch-optim` the engine's optimizer is replaced by `torch.optim.AdamW(fused=True)` over the same buffers. Nothing
here imports torch before the engine does: that would change what is measured.
"""

from __future__ import annotations

import os
import sys
import time
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from andrea_engine.cli import run
from andrea_engine.latch import LATCH
from andrea_engine.train.reporter import Reporter
from andrea_engine.train.torch_import import complete_torch

OPTIMIZER = "andrea_engine.train.optimizer"


class _Finder:
    """Finds the optimizer's module as usual, and has its class replaced once it is loaded."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != OPTIMIZER:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        module.AdamW = _with_torch_optim(module.AdamW)  # type: ignore[attr-defined]


def _with_torch_optim(ours: Any) -> Any:
    """The engine's optimizer class with its update made by `torch.optim`; clipping stays as it is."""
    import torch

    complete_torch()  # as every program that uses `torch.optim` has it

    class TorchAdamW(ours):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            super().__init__(*arguments, **keywords)
            groups = []
            for part in self.flat.decay_ranges:
                parameter = torch.nn.Parameter(self.flat.w[part.start : part.stop])
                parameter.grad = self.flat.g[part.start : part.stop]
                groups.append({"params": [parameter], "weight_decay": self.weight_decay if part.decay else 0.0})
            self.inner = torch.optim.AdamW(groups, betas=self.betas, eps=self.eps, fused=True)

        def _update(self, step: int, lr: float, divisor: float | None) -> None:
            if divisor is not None:
                self.flat.g.div_(divisor)
            for group in self.inner.param_groups:
                group["lr"] = lr
            self.inner.step()

    return TorchAdamW


def _leave(reporter: Reporter, step: int, seconds: float) -> None:
    print(f"\n{time.monotonic()}", flush=True)
    os._exit(0)


def main() -> int:
    """`first_step.py ours|torch-optim RUN`; leaves by itself, so the exit code of a return is that of a failure."""
    kind, directory = sys.argv[1:]
    if kind == "torch-optim":
        sys.meta_path.insert(0, _Finder)
    Reporter.step_done = _leave  # type: ignore[method-assign,assignment]
    return run(["train", directory], LATCH) or 1


if __name__ == "__main__":
    LATCH.arm()
    sys.exit(main())
