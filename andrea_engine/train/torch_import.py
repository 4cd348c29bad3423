"""PyTorch without the part of its import that only compilers need: a third of it, on the way to the first step.

`import torch` ends with `torch._meta_registrations`, the shapes of results without computing them, and what that pulls
in (`torch._decomp`, `torch._prims`, `torch._refs`). Compilers ask for all that, and `torch.optim` does; an engine that
runs its steps operation by operation never does. Measured on two cores: 0.8 s instead of 1.2 s.
"""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import version
from types import ModuleType
from typing import Any

_SHAPES = "torch._meta_registrations"
KNOWN = frozenset({"2.13.0+cpu"})  # builds that were tried this way; any other is imported whole


def import_torch() -> None:
    """`import torch`, without `_SHAPES` where that is known to do. To be called before anybody else imports it."""
    if "torch" in sys.modules or version("torch") not in KNOWN:
        importlib.import_module("torch")
        return
    sys.modules[_SHAPES] = ModuleType(_SHAPES)  # a placeholder: `import torch` takes nothing from it
    try:
        torch: Any = importlib.import_module("torch")
    finally:
        del sys.modules[_SHAPES]
    # The one thing of what was left out that a step needs: without it there is no `torch.Generator`.
    torch._C._set_generator_metaclass(importlib.import_module("torch._opaque_base").OpaqueBaseMeta)


def complete_torch() -> None:
    """Import what `import_torch` left out. To be called before anything that loads the compiler, as connecting to other
    processes does: PyTorch's circles of imports close in its own order only."""
    importlib.import_module(_SHAPES)
