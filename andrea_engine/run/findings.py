"""What a check of a run directory found: how serious, where, what, and what to do about it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from andrea_engine.run.errors import ExitCode
from andrea_engine.run.io import open_regular
from andrea_engine.run.plain import clean

Severity = Literal["ok", "note", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one file.

    `severity`: ok; note (ordinary, or settled by the next start); warning (it works, but somebody should look);
    problem (damaged, missing or contradictory). `path` is relative to the run, `advice` what to do, '' for nothing.
    """

    severity: Severity
    path: str
    text: str
    advice: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


@dataclass(slots=True)
class Report:
    """Findings in the order in which they were made."""

    findings: list[Finding] = field(default_factory=list)
    _codes: set[ExitCode] = field(default_factory=set)

    @property
    def ok(self) -> bool:
        return not self._codes

    @property
    def exit_code(self) -> ExitCode:
        """0 without a problem; 2 when run.toml cannot be used, 5 when no checkpoint is valid, 1 for all others."""
        for code in (ExitCode.USAGE, ExitCode.NO_CHECKPOINT, ExitCode.FAILED):
            if code in self._codes:
                return code
        return ExitCode.OK

    def problems(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "problem"]

    def add(self, severity: Severity, path: str, text: str, advice: str = "", code: ExitCode = ExitCode.FAILED) -> None:
        """Add a finding; `code` is the exit code that a problem asks for."""
        self.findings.append(Finding(severity, _one_line(path), _one_line(text), _one_line(advice)))
        if severity == "problem":
            self._codes.add(code)


def _one_line(text: str) -> str:
    return clean(text).replace("\n", "\u240a")


def opening_problem(path: Path) -> str:
    """Why a file that is there cannot be opened; '' when it can be, or is not there."""
    try:
        os.close(open_regular(path))
    except FileNotFoundError:
        return ""
    except OSError as error:
        what = "it is a link" if path.is_symlink() else error.strerror or str(error)
        return f"cannot be read: {what}"
    return ""
