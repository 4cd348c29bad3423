"""Readings of NVIDIA devices through NVML. Runs in a helper process only: a driver call may hang or crash."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec
import pynvml

from andrea_engine.run.heartbeat import Gpu

T = TypeVar("T")

# NVML's codes in words that say what it means here; other codes keep the library's own words.
_WORDS = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: "not supported",
    pynvml.NVML_ERROR_NO_PERMISSION: "no permission",
    pynvml.NVML_ERROR_NOT_FOUND: "not found",
    pynvml.NVML_ERROR_INSUFFICIENT_POWER: "insufficient power, look at its cables",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    pynvml.NVML_ERROR_TIMEOUT: "the driver timed out",
    pynvml.NVML_ERROR_IRQ_ISSUE: "the kernel sees an interrupt problem with it",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "the driver is too old for it",
    pynvml.NVML_ERROR_GPU_IS_LOST: "lost, the driver cannot reach it",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "version mismatch, the driver was updated",
}
_DRIVER_GONE = (
    pynvml.NVMLError_Uninitialized,
    pynvml.NVMLError_DriverNotLoaded,
    pynvml.NVMLError_LibRmVersionMismatch,
)
# Bits of the clocks' event reasons (NVML documentation). Idle is no obstacle.
_THROTTLE = (
    (pynvml.nvmlClocksThrottleReasonSwPowerCap, "power limit"),
    (pynvml.nvmlClocksThrottleReasonSwThermalSlowdown, "too hot"),
    (pynvml.nvmlClocksThrottleReasonHwThermalSlowdown, "far too hot"),
    (pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown, "power brake from outside"),
    (pynvml.nvmlClocksThrottleReasonHwSlowdown, "hardware slowdown"),
    (pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting, "clocks set by the user"),
    (pynvml.nvmlClocksThrottleReasonSyncBoost, "in step with other GPUs"),
    (pynvml.nvmlClocksThrottleReasonDisplayClockSetting, "display clocks"),
)
_MIG_ON = 1


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
        raise NvmlUnavailableError("no NVIDIA GPU: there is no NVML library", final=True) from None
    except pynvml.NVMLError as error:
        raise _unavailable(error) from None


def _unavailable(error: pynvml.NVMLError) -> NvmlUnavailableError:
    return NvmlUnavailableError(f"GPU telemetry off: {_in_words(error)}", final=False)


def _in_words(error: pynvml.NVMLError) -> str:
    return _WORDS.get(error.value, str(error))


class GpuReader:
    """Reads all devices; remembers who they are, to name one that is lost later."""

    def __init__(self) -> None:
        self._known: dict[int, list[Gpu]] = {}

    def read(self) -> list[Gpu]:
        """Boards in the driver's order, each followed by its MIG instances. A reading that a device does not offer is
        None with the reason in `missing`, never 0; a device that cannot be reached has a `problem`.

        Raises NvmlUnavailableError when the driver went away.
        """
        try:
            count = pynvml.nvmlDeviceGetCount()
            gpus = [gpu for index in range(count) for gpu in self._board(index)]
        except pynvml.NVMLError as error:
            raise _unavailable(error) from None
        if not gpus:
            raise NvmlUnavailableError("no NVIDIA GPU: the driver knows of none", final=False)
        return gpus

    def _board(self, index: int) -> list[Gpu]:
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            board = _read(handle, index)
            gpus = [board, *(_read(instance, index, board.uuid) for instance in _mig_instances(handle))]
        except _DRIVER_GONE:
            raise
        except pynvml.NVMLError as error:
            known = self._known.get(index, [Gpu(uuid="", name=f"GPU {index}", index=index)])
            return [msgspec.structs.replace(gpu, problem=_in_words(error)) for gpu in known]
        self._known[index] = [Gpu(uuid=gpu.uuid, name=gpu.name, index=index, board=gpu.board) for gpu in gpus]
        return gpus


def _mig_instances(handle: object) -> list[object]:
    """Handles of a board's MIG instances; [] where it is not divided."""
    ask = _Questions()
    mode = ask("", lambda: pynvml.nvmlDeviceGetMigMode(handle))
    if mode is None or mode[0] != _MIG_ON:
        return []
    found = []
    for place in range(ask("", lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0):
        instance = ask("", partial(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place))
        if instance is not None:
            found.append(instance)
    return found


class _Questions:
    """Single readings. One that the device does not offer is None and noted; a lost device or driver is raised."""

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}

    def __call__(self, name: str, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except (pynvml.NVMLError_GpuIsLost, *_DRIVER_GONE):
            raise
        except pynvml.NVMLError as error:
            self.missing[name] = _in_words(error)
            return None


def _read(handle: object, index: int, board: str = "") -> Gpu:
    ask = _Questions()
    identity = _Questions()
    uuid = identity("uuid", lambda: pynvml.nvmlDeviceGetUUID(handle))
    name = identity("name", lambda: pynvml.nvmlDeviceGetName(handle))
    memory = ask("memory", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    utilisation = ask("utilisation", lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
    reasons = ask("throttle", lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    return Gpu(
        uuid=_text(uuid or ""),
        name=_text(name or "NVIDIA GPU"),
        index=index,
        board=board,
        power_w=_scaled(ask("power", lambda: pynvml.nvmlDeviceGetPowerUsage(handle)), 1000),
        limit_w=_scaled(ask("limit", lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)), 1000),
        energy_j=_scaled(ask("energy", lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)), 1000),
        utilisation=None if utilisation is None else float(utilisation.gpu),
        memory_used=None if memory is None else int(memory.used),
        memory_total=None if memory is None else int(memory.total),
        temperature_c=_scaled(
            ask("temperature", lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)), 1
        ),
        sm_mhz=_scaled(ask("clock", lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)), 1),
        memory_mhz=_scaled(
            ask("memory clock", lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)), 1
        ),
        throttle=None if reasons is None else [word for bit, word in _THROTTLE if reasons & bit],
        missing=ask.missing,
    )


def _scaled(value: int | None, divisor: int) -> float | None:
    return None if value is None else value / divisor


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
