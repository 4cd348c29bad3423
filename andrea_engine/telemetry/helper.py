"""The process that talks to NVML: one JSON line a second on standard output, until its parent is gone."""

from __future__ import annotations

import os
import sys
import time

import msgspec

from andrea_engine.telemetry.nvml import NvmlUnavailableError, open_nvml, read_gpus

RETRY_SECONDS = 60.0


def main(interval: float = 1.0) -> int:
    """Report until the parent ends, its pipe closes, or asking again cannot help."""
    parent = os.getppid()
    opened = False
    while os.getppid() == parent:
        pause = interval
        try:
            if not opened:
                open_nvml()
                opened = True
            report: dict[str, object] = {"gpus": read_gpus(), "problem": ""}
        except NvmlUnavailableError as error:
            opened = False
            report = {"gpus": [], "problem": str(error), "final": error.final}
            pause = RETRY_SECONDS
        try:
            sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
            sys.stdout.buffer.flush()
        except OSError:
            return 0
        if report.get("final"):
            return 0
        time.sleep(pause)
    return 0


if __name__ == "__main__":
    sys.exit(main())
