"""The process that talks to NVML: one JSON line after another on standard output, until its parent is gone."""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn

import msgspec

from andrea_engine.run.io import write_all
from andrea_engine.run.module_command import module_command
from andrea_engine.telemetry.nvml import GpuReader, NvmlUnavailableError, open_nvml


def main(interval: float, retry: float) -> int:
    """Report every `interval` seconds until the parent ends, its pipe closes, or asking again cannot help.

    When the driver or a device went away, begin anew after `retry` seconds as a fresh process image: a library that
    is loaded already would go on being the version that the driver refused, or not know of the device's return.
    """
    parent = os.getppid()
    try:
        open_nvml()
        reader = GpuReader()
        lost_since: float | None = None
        while os.getppid() == parent:
            gpus = reader.read()
            _report({"gpus": gpus, "problem": ""})
            lost = any(gpu.problem for gpu in gpus)
            lost_since = (lost_since or time.monotonic()) if lost else None
            if lost_since is not None and time.monotonic() - lost_since >= retry:
                _begin_anew(interval, retry)
            time.sleep(interval)
    except NvmlUnavailableError as error:
        _report({"gpus": [], "problem": str(error), "final": error.final})
        if not error.final:
            time.sleep(retry)
            _begin_anew(interval, retry)
    except OSError:
        pass  # the parent's end of the pipe is closed
    return 0


def _begin_anew(interval: float, retry: float) -> NoReturn:
    command = module_command("andrea_engine.telemetry.helper", interval, retry)
    os.execv(sys.executable, command)  # noqa: S606  (no shell: the same interpreter again)


def _report(report: dict[str, object]) -> None:
    write_all(sys.stdout.fileno(), msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:])))
