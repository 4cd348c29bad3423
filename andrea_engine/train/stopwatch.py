"""How long a device works, without making the host wait for it."""

from __future__ import annotations

import time

import torch


class Stopwatch:
    """Between `start` and `stop`; on CUDA measured where the kernels run, in their own order."""

    def __init__(self, device: torch.device) -> None:
        self._from = self._to = 0.0
        self._events = (
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
            if device.type == "cuda"
            else None
        )

    def start(self) -> None:
        if self._events is not None:
            self._events[0].record()
        self._from = time.perf_counter()

    def stop(self) -> None:
        if self._events is not None:
            self._events[1].record()
        self._to = time.perf_counter()

    def seconds(self) -> float:
        """The last stretch. On CUDA only after the host has waited for its end for another reason."""
        if self._events is None:
            return self._to - self._from
        return float(self._events[0].elapsed_time(self._events[1])) / 1000
