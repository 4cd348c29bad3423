"""The kinds of trials, and how many of each `--scale 1` runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "tests.faults.soak"


@dataclass(frozen=True, slots=True)
class Kind:
    """`function` of `module` is the trial: called with a seed and an empty folder, it raises AssertionError with a
    sentence when a promise was broken. `reason` of the module, where there is one, tells why it cannot be run here.

    `count`: trials at scale 1. Those that are `listed` are so many different ones, numbered from 0, and not random.
    `on_disk`: its folder is not in memory. To a killed process that makes no difference, but thousands of fsyncs do.
    """

    name: str
    count: int
    module: str
    function: str = "trial"
    listed: bool = False
    on_disk: bool = False

    @property
    def trial(self) -> Callable[[int, Path], None]:
        function: Callable[[int, Path], None] = getattr(self._loaded(), self.function)
        return function

    def reason(self) -> str | None:
        """Why this machine cannot run the kind; None when it can."""
        ask: Callable[[], str | None] = getattr(self._loaded(), "reason", lambda: None)
        return ask()

    def _loaded(self) -> object:
        return importlib.import_module(f"{PACKAGE}.{self.module}")


ALL = (
    Kind("engine_kill", 2000, "engine_kill"),
    Kind("record_kill", 10_000, "record_kill"),
    Kind("power_cut", 300, "power_cut", on_disk=True),
    Kind("startup_signal", 500, "startup_signal", on_disk=True),
    Kind("rank_signal", 240, "rank_signal", listed=True, on_disk=True),
    Kind("console_kill", 200, "consoles", "killed"),
    Kind("hang_up", 100, "consoles", "hung_up"),
    Kind("malformed_checkpoint", 20_000, "malformed_checkpoint"),
    Kind("malformed_json", 20_000, "malformed_json"),
    Kind("hostile_sample", 2000, "hostile_sample"),
    Kind("single_fault", 12, "single_fault", listed=True),
)
KINDS = {kind.name: kind for kind in ALL}
