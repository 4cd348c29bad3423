"""What the checkpoint browser does to one checkpoint: read all of it in another process or thread, pin it, free it."""

from __future__ import annotations

import json
import subprocess

from andrea_engine.run.checkpoint import digest_problem
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.module_command import module_command
from andrea_engine.run.pins import pin, unpin
from andrea_engine.run.pivot import who
from andrea_engine.run.plain import clean
from andrea_tui.feed.checkpoints import CheckpointRow
from andrea_tui.plotting.format import human_count, size_bytes
from andrea_tui.widgets.checkpoint_table import Verdict

PATIENCE = 600.0
PROGRAM = "andrea-tui"


def toggle_pin(directory: RunDirectory, row: CheckpointRow) -> str:
    """Pin a checkpoint, or take its pin away; returns what was done. Raises RunError."""
    if row.pin is None:
        pin(directory, row.step, by=who(PROGRAM))
        return f"step {human_count(row.step)} is pinned: the keep rule leaves it alone"
    unpin(directory, row.step, by=who(PROGRAM))
    return f"step {human_count(row.step)} is not pinned any more"


def check_digest(directory: RunDirectory, row: CheckpointRow) -> Verdict:
    """Read the whole file and compare it with the digest recorded when it was saved."""
    if not row.sha256:
        return NO_DIGEST
    problem = digest_problem(directory.path / row.file, row.sha256)
    return _verified(row) if problem is None else Verdict("differs", f"{problem}; resume will pass it over")


NO_DIGEST = Verdict("no digest", "no digest was recorded when it was saved, so its bytes cannot be verified")


def _verified(row: CheckpointRow) -> Verdict:
    return Verdict("verified", f"all {size_bytes(row.bytes)} are as they were saved")


def inspect_file(directory: RunDirectory, row: CheckpointRow) -> tuple[Verdict, str]:
    """What `andrea-engine inspect` finds in one file: the verdict that `check_digest` would come to, and a text with
    all facts. Blocks: for a thread. Raises RunError."""
    command = module_command("andrea_engine", "inspect", "--json", "--", directory.path / row.file)
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
        report = json.loads(done.stdout)[0]
    except (OSError, subprocess.TimeoutExpired, ValueError, LookupError) as error:
        raise RunError(f"{row.file} could not be inspected: {error}") from error
    return _verdict(report, row), clean("\n".join(_report_lines(report)))


def _verdict(report: dict[str, object], row: CheckpointRow) -> Verdict:
    if report["problem"]:
        return Verdict("invalid", f"cannot be used: {report['problem']}")
    if report["digest"] == "differs":
        return Verdict("differs", "its bytes are not those that were saved; resume will pass it over")
    return _verified(row) if report["digest"] == "matches" else NO_DIGEST


def _report_lines(report: dict[str, object]) -> list[str]:
    parameters, size = report["n_params"], report["bytes"]
    lines = [f"step        {report['step']:,}", f"bytes       {size:,}"]
    if isinstance(parameters, int):
        lines.append(f"parameters  {parameters:,}")
    if report["problem"]:
        return [*lines, f"INVALID     {report['problem']}"]
    lines += [f"sha256      {report['sha256']}", f"digest      {_DIGEST[str(report['digest'])]}", ""]
    regions = report["regions"]
    if isinstance(regions, dict):
        lines.append(f"{'region':<8}{'rms':>11}{'mean':>12}{'min':>12}{'max':>12}{'not finite':>12}")
        lines += [_region_line(name, facts) for name, facts in regions.items()]
    return lines


_DIGEST = {
    "matches": "verified: the bytes are those that were saved",
    "differs": "DIFFERS from the one recorded when it was saved; resume will pass it over",
    "unverified": "none was recorded when it was saved",
}


def _region_line(name: str, facts: dict[str, float | None]) -> str:
    if facts["rms"] is None:
        return f"{name:<8}nothing finite"
    numbers = f"{facts['rms']:>11.3e}" + "".join(f"{facts[key]:>+12.3e}" for key in ("mean", "min", "max"))
    return f"{name:<8}{numbers}{facts['nonfinite']:>12,}"
