"""Check a run directory as a directory: names, kinds and permissions of everything in it, and what was left over."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from andrea_engine.run.checkpoint import parse_name
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.findings import Report
from andrea_engine.run.io import TEMP_PATTERN

MOST_ENTRIES = 100_000  # looked at: a directory without an end must not make a check without one
_SHOWN = 5
_FOREIGN = re.compile(r"[^.].*\.(loss|samples)\.json")  # `<model>.loss.json` of the original engine
_KEPT_ASIDE = re.compile(r"\.(state|samples)\.json\.unreadable-[0-9]+")
_ROTATED_LOG = re.compile(r"engine\.log\.[0-9]+")


def known_files(directory: RunDirectory) -> set[str]:
    """Names of the files that a run may hold besides its checkpoints."""
    paths = (
        directory.config,
        directory.resolved,
        directory.tokenizer,
        directory.loss,
        directory.journal,
        directory.samples,
        directory.state,
        directory.events,
        directory.heartbeat,
        directory.lock,
        directory.log,
        directory.pivot_intent,
        directory.console,
    )
    return {path.name for path in paths}


def check_files(directory: RunDirectory, running: bool, report: Report) -> None:
    """Look at every entry of the directory, its archive and its tokens, without following a link."""
    entries: list[tuple[Path, os.stat_result]] = []
    for entry in _entries(directory):
        if len(entries) == MOST_ENTRIES:
            report.add(
                "warning",
                ".",
                f"holds more than {MOST_ENTRIES:,} files; the others were not looked at",
                "move away what is yours",
            )
            break
        entries.append(entry)
    for path, status in entries:
        _check_entry(directory, path, status, running, report)
    _check_permissions(directory, entries, report)


def _entries(directory: RunDirectory) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything below the directory, down to the files of an archive, in the order of the names."""
    folders = [(directory.path, 0)]
    while folders:
        folder, depth = folders.pop(0)
        try:
            found = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            path = Path(entry.path)
            yield path, status
            ours = depth > 0 or path in (directory.archive, directory.tokens)
            if stat.S_ISDIR(status.st_mode) and ours and depth < 3:
                folders.append((path, depth + 1))


def _check_entry(directory: RunDirectory, path: Path, status: os.stat_result, running: bool, report: Report) -> None:
    name = str(path.relative_to(directory.path))
    top = path.parent == directory.path
    is_folder, is_file = stat.S_ISDIR(status.st_mode), stat.S_ISREG(status.st_mode)
    if top and path in (directory.archive, directory.tokens):
        if not is_folder:
            report.add("problem", name, "is not a folder of the run itself", "put a folder there: no link is followed")
        return
    if top and (path.name in known_files(directory) or parse_name(path.name) is not None):
        return  # each has a check of its own
    if stat.S_ISLNK(status.st_mode):
        report.add("warning", name, "is a link; nothing follows it", "remove it, or put the file itself there")
    elif not is_folder and not is_file:
        report.add("warning", name, "is neither a file nor a folder; nothing opens it", "remove it")
    elif TEMP_PATTERN.match(path.name):
        if not running:
            report.add(
                "note",
                name,
                f"half-written file of an earlier process, {status.st_size:,} bytes",
                "nothing: the next start removes it; `andrea-engine repair` moves it aside",
            )
    elif _KEPT_ASIDE.fullmatch(path.name):
        report.add("note", name, "was set aside because it could not be read", "look at it, then remove it")
    elif top and not (_FOREIGN.fullmatch(path.name) or _ROTATED_LOG.fullmatch(path.name)):
        is_near = path.name.startswith("step_")
        what = "is not named step_NNNNNN.bin, so it is no checkpoint" if is_near else "is no file of a run"
        report.add("note", name, f"{what}; nothing reads it", "nothing, if it is yours")


def _check_permissions(directory: RunDirectory, entries: list[tuple[Path, os.stat_result]], report: Report) -> None:
    try:
        own = directory.path.stat()
    except OSError:
        return
    if not os.access(directory.path, os.W_OK | os.X_OK):
        report.add(
            "warning",
            ".",
            "is not writable by this user, so the run can be looked at but not trained",
            "change its owner or its permissions to train here",
        )
    everything = [(directory.path, own), *entries]
    writable = [p for p, s in everything if s.st_mode & stat.S_IWOTH and not _is_harmless(s)]
    _permission(directory, writable, "can be written by every user", "chmod o-w", report)
    privileged = [p for p, s in entries if stat.S_ISREG(s.st_mode) and s.st_mode & (stat.S_ISUID | stat.S_ISGID)]
    _permission(directory, privileged, "has set-id bits, which no file of a run needs", "chmod ug-s", report)
    foreign = [p for p, s in entries if s.st_uid != own.st_uid]
    _permission(directory, foreign, "belongs to another user than the directory", "chown", report)


def _is_harmless(status: os.stat_result) -> bool:
    """A link has no permissions of its own, and in a sticky folder nobody replaces what is another's."""
    return stat.S_ISLNK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX))


def _permission(directory: RunDirectory, paths: list[Path], what: str, command: str, report: Report) -> None:
    """One finding for all files with the same fault."""
    if not paths:
        return
    names = [str(path.relative_to(directory.path)) for path in paths[:_SHOWN]]
    more = f" (as {len(paths) - 1:,} more: {', '.join(names[1:])}{', ...' if len(paths) > _SHOWN else ''})"
    text = what + (more if len(paths) > 1 else "")
    report.add("warning", names[0], text, f"`{command}` on it, if nobody wants it so")
