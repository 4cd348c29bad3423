"""The process that talks to NVML: one JSON line after another on standard output, until its parent is gone."""

from __future__ import annotations

import os
import sys
import time

import msgspec

from andrea_engine.run.io import write_all
from andrea_engine.telemetry.nvml import NvmlUnavailableError, open_nvml, read_gpus


def main(interval: float, retry: float) -> int:
    """Report every `interval` seconds until the parent ends, its pipe closes, or asking again cannot help.

    When the driver went away, begin anew after `retry` seconds as a fresh process image: a library that is loaded
    already would go on being the version that the driver refused.
    """
    parent = os.getppid()
    try:
        open_nvml()
        while os.getppid() == parent:
            _report({"gpus": read_gpus(), "problem": ""})
            time.sleep(interval)
    except NvmlUnavailableError as error:
        _report({"gpus": [], "problem": str(error), "final": error.final})
        if not error.final:
            time.sleep(retry)
            command = [sys.executable, "-m", "andrea_engine.telemetry.helper", str(interval), str(retry)]
            os.execv(sys.executable, command)  # noqa: S606  (no shell: the same interpreter again)
    except OSError:
        pass  # the parent's end of the pipe is closed
    return 0


def _report(report: dict[str, object]) -> None:
    write_all(sys.stdout.fileno(), msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:])))
