"""One engine per run directory, held by the kernel and not by a file's existence."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from pathlib import Path

import msgspec

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, LockedError
from andrea_engine.run.io import open_regular, read_optional
from andrea_engine.run.loss_entry import loads_bounded
from andrea_engine.run.plain import clean
from andrea_engine.run.process import lock_holders


class EngineLock:
    """The flock on `engine.lock`, for the lifetime of the process. Forked children close it at once."""

    def __init__(self, directory: RunDirectory) -> None:
        self._descriptor = _acquire(directory)
        os.register_at_fork(after_in_child=self.release)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _acquire(directory: RunDirectory) -> int | None:
    path = directory.lock
    try:
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise ConfigError(f"{directory.path} cannot be written ({error.strerror}); check its permissions") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise _locked(directory) from None
    except OSError as error:
        os.close(descriptor)
        raise ConfigError(
            f"{path} cannot be locked ({error.strerror}), so two engines could spoil the run; "
            f"keep the run on a disk of this machine"
        ) from error
    # The content only helps people; the kernel's lock is what counts.
    holder = msgspec.json.encode({"pid": os.getpid(), "host": socket.gethostname()})
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder + b"\n", 0)
    return descriptor


def _locked(directory: RunDirectory) -> LockedError:
    return LockedError(f"{directory.path} is in use by {_holder(directory)}")


def _holder(directory: RunDirectory) -> str:
    try:
        data = loads_bounded(read_optional(directory.lock, 4096) or b"null")
    except (OSError, ValueError):
        data = None
    if isinstance(data, dict):
        return clean(f"the engine with pid {data.get('pid')} on {data.get('host')}")
    return "another engine"


def require_free(directory: RunDirectory) -> None:
    """Raises LockedError while an engine on this machine holds the lock. It may be taken the moment after."""
    if is_locked(directory):
        raise _locked(directory)


def is_locked(directory: RunDirectory) -> bool:
    """True while an engine on this machine holds the lock."""
    if lock_holders(directory.lock):
        return True
    if Path("/proc/locks").exists():
        return False
    try:
        descriptor = open_regular(directory.lock)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
