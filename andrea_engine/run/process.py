"""Who is a process really: pid, start time, boot, and whether it holds the engine's lock."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

_PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1


def boot_id() -> str:
    """Identifies this boot of this kernel; '' where the system does not tell."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _stat_fields(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    return text[text.rfind(")") + 2 :].split()


def start_time(pid: int) -> int | None:
    """Start of a process in clock ticks since boot; None when there is no such process."""
    fields = _stat_fields(pid)
    return int(fields[19]) if fields and len(fields) > 19 else None


def process_state(pid: int) -> str | None:
    """State letter of the kernel (R, S, D, T, Z ...); None when there is no such process."""
    fields = _stat_fields(pid)
    return fields[0] if fields else None


def is_alive(pid: int) -> bool:
    """True for a process that still runs; a zombie has ended."""
    if pid <= 0:
        return False
    state = process_state(pid)
    if state is not None:
        return state not in "ZX"
    if _PROC.is_dir() and (_PROC / "self").exists():
        return False
    with contextlib.suppress(OSError):
        os.kill(pid, 0)
        return True
    return False


def lock_holders(path: Path) -> list[int]:
    """Pids that the kernel's lock table lists for an flock on `path`."""
    try:
        inode = path.stat(follow_symlinks=False).st_ino
        table = (_PROC / "locks").read_text()
    except OSError:
        return []
    holders = []
    for line in table.splitlines():
        fields = line.split()
        if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5].rsplit(":", 1)[-1] == str(inode):
            holders.append(int(fields[4]))
    return holders


def signal_at_parents_end(number: int) -> None:
    """Where the kernel can: this process gets a signal when its parent ends. Nothing comes for one that has already."""
    if sys.platform == "linux":
        import ctypes  # a console and an engine of one process that nobody guards do without

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
