"""Errors a person can act on: one sentence and the exit code that belongs to it."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of `andrea-engine`; the console and supervisors rely on them."""

    OK = 0  # saved and stopped, or finished
    FAILED = 1  # an unforeseen error; the traceback is in engine.log
    USAGE = 2  # usage or configuration
    SAVE_FAILED = 3  # could not save
    LOCKED = 4  # another engine owns the run directory
    NO_CHECKPOINT = 5  # no valid checkpoint where one is required
    HALTED = 6  # halted by the coherence gate
    PIVOT = 7  # stopped at a pivot point


class RunError(Exception):
    """A foreseeable failure. `str(error)` is the one sentence shown to the user."""

    exit_code: ExitCode = ExitCode.FAILED


class ConfigError(RunError):
    """The configuration or the command line cannot be used as written."""

    exit_code = ExitCode.USAGE


class SaveError(RunError):
    """A checkpoint could not be made durable; the earlier ones are intact."""

    exit_code = ExitCode.SAVE_FAILED


class LockedError(RunError):
    """Another engine holds the run directory."""

    exit_code = ExitCode.LOCKED


class NoCheckpointError(RunError):
    """The run has history but no checkpoint that passes validation."""

    exit_code = ExitCode.NO_CHECKPOINT
