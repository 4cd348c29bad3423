"""Readings of NVIDIA devices through NVML. Runs in a helper process only: a driver call may hang or crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pynvml

from andrea_engine.run.heartbeat import Gpu

T = TypeVar("T")
_GONE = (
    pynvml.NVMLError_GpuIsLost,
    pynvml.NVMLError_Uninitialized,
    pynvml.NVMLError_DriverNotLoaded,
    pynvml.NVMLError_LibRmVersionMismatch,
)


class NvmlUnavailableError(Exception):
    """There are no readings at present. `final` is True when asking again cannot help."""

    def __init__(self, reason: str, *, final: bool) -> None:
        super().__init__(reason)
        self.final = final


def open_nvml() -> None:
    """Initialise the library. Raises NvmlUnavailableError with the reason in words."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        raise NvmlUnavailableError("no NVIDIA GPU", final=True) from None
    except pynvml.NVMLError as error:
        raise NvmlUnavailableError(f"GPU telemetry off: {error}", final=False) from None


def read_gpus() -> list[Gpu]:
    """Readings of all devices; a field that a device does not support is None, never 0.

    Raises NvmlUnavailableError when the driver went away.
    """
    try:
        count = pynvml.nvmlDeviceGetCount()
        return [_read(pynvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]
    except pynvml.NVMLError as error:
        raise NvmlUnavailableError(f"GPU telemetry off: {error}", final=False) from None


def _read(handle: object) -> Gpu:
    memory = _ask(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    utilisation = _ask(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
    return Gpu(
        uuid=_text(_ask(lambda: pynvml.nvmlDeviceGetUUID(handle)) or ""),
        name=_text(_ask(lambda: pynvml.nvmlDeviceGetName(handle)) or "NVIDIA GPU"),
        power_w=_scaled(_ask(lambda: pynvml.nvmlDeviceGetPowerUsage(handle)), 1000),
        limit_w=_scaled(_ask(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)), 1000),
        utilisation=None if utilisation is None else float(utilisation.gpu),
        memory_used=None if memory is None else int(memory.used),
        memory_total=None if memory is None else int(memory.total),
        temperature_c=_scaled(_ask(lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)), 1),
    )


def _ask(call: Callable[[], T]) -> T | None:
    """One reading; a lost device or driver ends the poll, a reading that the device does not offer is None."""
    try:
        return call()
    except _GONE:
        raise
    except pynvml.NVMLError:
        return None


def _scaled(value: int | None, divisor: int) -> float | None:
    return None if value is None else value / divisor


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
