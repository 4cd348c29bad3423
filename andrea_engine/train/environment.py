"""Device, threads and way of computing of an engine. Recorded with every start, because they change the bits."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sysconfig
from dataclasses import MISSING, asdict, dataclass
from pathlib import Path
from typing import Literal

import torch

from andrea_engine.model.shape import ModelShape
from andrea_engine.run.config import RunConfig
from andrea_engine.run.errors import ConfigError
from andrea_engine.telemetry.peaks import MatmulPrecision, peak_tflops
from andrea_engine.train.place import Place
from andrea_engine.train.torch_import import complete_torch

Precision = Literal["fp32", "bf16"]

_BF16_CAPABILITY = (8, 0)
_COMPILE_CAPABILITY = (7, 0)  # the oldest that Triton compiles for
_KERNELS_PER_LAYER = 40  # forward and backward, roughly
_LAUNCH_SECONDS = 5e-6
_LAUNCH_BOUND = 3.0


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything outside the run that may change the bits of a resumed run.

    The defaults are what engines did that did not record the field yet. `micro_batch` is 0 for the whole batch.
    """

    device: str
    device_name: str
    threads: int
    torch: str
    python: str
    machine: str
    world_size: int = 1
    precision: Precision = "fp32"
    micro_batch: int = 0
    compile: bool = False
    cuda_graphs: bool = False
    deterministic: bool = False

    def facts(self) -> dict[str, object]:
        return asdict(self)

    def differences(self, earlier: dict[str, object]) -> list[str]:
        """What differs from the facts of an earlier start, as `threads 2 -> 4`."""
        defaults = {name: field.default for name, field in self.__dataclass_fields__.items()}
        return [
            f"{name} {_word(before)} -> {_word(value)}"
            for name, value in self.facts().items()
            if (before := earlier.get(name, defaults[name])) is not MISSING and before != value
        ]

    @property
    def is_cuda(self) -> bool:
        return self.device.startswith("cuda")

    @property
    def inexact(self) -> str | None:
        """Why a resume equals an unbroken run only up to rounding, in one sentence; None when it does bit for bit."""
        if self.deterministic:
            return None
        if self.is_cuda:
            return (
                "on CUDA some sums are added in no fixed order, so a resume equals an unbroken run up to rounding; "
                "with --deterministic it does so bit for bit"
            )
        if self.compile and self.threads > 1:
            return (
                "a compiled step on several CPU threads is not reproducible bit for bit; with --deterministic, "
                "without device.compile or with one thread it is"
            )
        return None

    @property
    def matmul_precision(self) -> MatmulPrecision:
        """What the matrix products run in: float32 ones become TF32 on CUDA, unless bits are promised."""
        tf32 = self.precision == "fp32" and self.is_cuda and not self.deterministic
        return "tf32" if tf32 else self.precision


def available_threads() -> int:
    """CPUs that this process may use: its affinity, cut down by a container's quota."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cpus = min(cpus, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return max(1, cpus)


def choose_environment(config: RunConfig, *, deterministic: bool = False) -> Environment:
    """Resolve every `auto`, set up PyTorch accordingly, and describe the result. Call it before CUDA is used.

    `deterministic` adds to `device.deterministic`. Raises ConfigError for a device, precision or compiler that is not
    there.
    """
    table = config.device
    deterministic = deterministic or table.deterministic
    _set_deterministic(deterministic)
    place = Place.of()
    device = _device(table.name, place)
    threads = table.threads or max(1, available_threads() // place.local_size)
    torch.set_num_threads(threads)
    is_cuda = device.type == "cuda"
    device_name = torch.cuda.get_device_name(device) if is_cuda else _cpu_name()
    capability = torch.cuda.get_device_capability(device) if is_cuda else None
    precision = _precision(table.precision, capability, device_name)
    environment = Environment(
        device=str(device),
        device_name=device_name,
        threads=threads,
        torch=str(torch.__version__),
        python=platform.python_version(),
        machine=platform.machine(),
        world_size=place.size,
        precision=precision,
        micro_batch=_micro_batch(config.schedule.micro_batch, config.schedule.batch // place.size),
        compile=_compile(table.compile, capability),
        cuda_graphs=_cuda_graphs(config, device, device_name, precision),
        deterministic=deterministic,
    )
    if device.index:
        torch.cuda.set_device(device)  # events and streams are made on the current device
    if is_cuda:
        torch.set_float32_matmul_precision("highest" if deterministic else "high")  # high: TF32
    return environment


def launch_bound(shape: ModelShape, tokens: int, tflops: float) -> bool:
    """Whether launching the kernels of `tokens` tokens takes time worth saving beside computing them.

    Assumed: 40 kernels a layer, 5 us each, and half of the peak of `tflops`; below three times the launches, a CUDA
    graph pays. Arithmetic, not measured.
    """
    computing = shape.flops_per_token(shape.context) * tokens / (0.5e12 * tflops)
    return computing < _LAUNCH_BOUND * _KERNELS_PER_LAYER * shape.layers * _LAUNCH_SECONDS


def compile_obstacle(capability: tuple[int, int] | None) -> str | None:
    """Why torch.compile would fail on this machine, or None. `capability`: of the CUDA device, None for the CPU."""
    if not any(shutil.which(name) for name in (os.environ.get("CC", "cc"), "gcc", "clang")):
        return "there is no C compiler"
    if capability is None:
        return None
    if capability < _COMPILE_CAPABILITY:
        return f"compute capability {capability[0]}.{capability[1]} is too old for Triton"
    if importlib.util.find_spec("triton") is None:
        return "the package triton is missing"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "the header files of Python are missing (package python3-dev)"
    return None


def _device(name: str, place: Place) -> torch.device:
    """Each process of a machine takes a CUDA device of its own."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError("device.name asks for CUDA, but PyTorch finds no CUDA device; use auto or cpu")
    device = torch.device(name)
    if device.type != "cuda":
        return device
    count = torch.cuda.device_count()
    if place.local_size > 1:
        if ":" in name:
            raise ConfigError(f"device.name is {name}, but {place.local_size} processes need a device each; use auto")
        if place.local_size > count:
            raise ConfigError(f"{place.local_size} processes need a CUDA device each, and there are {count}")
        return torch.device("cuda", place.local_rank)
    if (device.index or 0) >= count:
        raise ConfigError(f"device.name is {name}, but there are only {count} CUDA devices")
    return device


def _micro_batch(asked: int, rows: int) -> int:
    """Sequences at a time, of the `rows` of this process: as asked or the next smaller divisor of them; 0 for all."""
    if not asked or asked >= rows:
        return 0
    return next(size for size in range(asked, 0, -1) if rows % size == 0)


def _set_deterministic(wanted: bool) -> None:
    """The whole process takes the deterministic kernel of every operation, or an error where there is none.

    cuBLAS reads its variable when CUDA starts. Filling fresh memory changes no result here and costs time.
    """
    if wanted:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.backends.cudnn.benchmark = False
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if wanted != torch.are_deterministic_algorithms_enabled():  # this call alone imports the compiler: 1.4 s
        complete_torch()
        torch.use_deterministic_algorithms(wanted)


def _precision(asked: str, capability: tuple[int, int] | None, device_name: str) -> Precision:
    """bf16 where the hardware multiplies it faster. A CPU without AMX is slower in bf16 than in float32."""
    if capability is None:
        fast = "amx_bf16" in _cpu_flags()
    else:
        fast = capability >= _BF16_CAPABILITY
        if asked == "bf16" and not fast:
            raise ConfigError(f'{device_name} has no bf16: set device.precision to "auto" or "fp32"')
    if asked == "auto":
        return "bf16" if fast else "fp32"
    return "bf16" if asked == "bf16" else "fp32"


def _compile(asked: str, capability: tuple[int, int] | None) -> bool:
    if asked == "off" or (asked == "auto" and capability is None):
        return False
    obstacle = compile_obstacle(capability)
    if obstacle is not None and asked == "on":
        raise ConfigError(f'device.compile is on, but {obstacle}; set it to "auto" or "off"')
    return obstacle is None


def _cuda_graphs(config: RunConfig, device: torch.device, device_name: str, precision: Precision) -> bool:
    asked = config.device.cuda_graphs
    if device.type != "cuda":
        if asked == "on":
            raise ConfigError(f'device.cuda_graphs is on, but the device is {device}; set it to "auto" or "off"')
        return False
    if asked != "auto":
        return asked == "on"
    tflops = peak_tflops(device_name, "bf16" if precision == "bf16" else "tf32")
    tokens = (config.schedule.micro_batch or config.schedule.batch) * config.model.context
    return tflops is not None and launch_bound(ModelShape.of(config), tokens, tflops)


def _cpu_name() -> str:
    return _cpu_info("model name") or platform.processor() or "CPU"


def _cpu_flags() -> list[str]:
    return _cpu_info("flags").split()


def _cpu_info(key: str) -> str:
    """The first value of `key` in /proc/cpuinfo, empty where there is none."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
    except OSError:
        pass
    return ""


def _word(value: object) -> object:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value
