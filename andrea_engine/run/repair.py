"""Repair what can be repaired without losing anything: originals are moved to `archive/repair-TIME/`, never deleted.

A repair is found by looking, announced, and carried out by renames and atomic replacements. One that is cut short
anywhere is therefore found again, or is complete; what is right is left alone, so that a second repair finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from andrea_engine.run.checkpoint import Deep
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import LockedError, RunError
from andrea_engine.run.events import continued_log
from andrea_engine.run.findings import opening_problem
from andrea_engine.run.lock import EngineLock, is_locked
from andrea_engine.run.plain import clean
from andrea_engine.run.repair_stages import STAGES
from andrea_engine.run.workshop import Rebuild, Repair, Workshop


def repair(
    directory: RunDirectory,
    *,
    apply: bool,
    announce: Callable[[Repair], None],
    deep: Deep | None = None,
    rebuild: Rebuild | None = None,
) -> int:
    """Find every repair, announce each before it is carried out, and with `apply` do so; returns how many there were.

    `deep(path)` finds a problem in the numbers of a checkpoint: with it digests and numbers count too. Raises
    LockedError while an engine runs, RunError when a file cannot be written: nothing is lost then.
    """
    directory.require()
    if not apply:
        if is_locked(directory):
            raise LockedError(f"{directory.path} is in use by an engine; stop it first, then repair the run")
        return repair_locked(directory, apply=False, announce=announce, deep=deep, rebuild=rebuild)
    lock = EngineLock(directory)
    try:
        return repair_locked(directory, apply=True, announce=announce, deep=deep, rebuild=rebuild)
    finally:
        lock.release()


def repair_locked(
    directory: RunDirectory,
    *,
    apply: bool,
    announce: Callable[[Repair], None],
    deep: Deep | None = None,
    rebuild: Rebuild | None = None,
) -> int:
    """`repair` for the holder of the engine's lock."""
    workshop = Workshop(directory, deep, rebuild)
    count = 0
    for stage in STAGES:
        for found in stage(workshop):
            count += 1
            announce(found)
            if apply:
                _carry_out(workshop, found)
    return count


def _carry_out(workshop: Workshop, found: Repair) -> None:
    directory = workshop.directory
    try:
        found.act()
    except OSError as error:
        reason = error.strerror or error
        raise RunError(f"{directory.path}: {found.path} could not be repaired ({reason}); nothing is lost") from error
    if not opening_problem(directory.events):
        log = continued_log(directory.events)
        log.append("notice", text=f"repair: {clean(found.path)}: {clean(found.sentence)}")
