"""`andrea-engine inspect`: what a checkpoint or a run holds, with statistics of each region."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec

from andrea_engine.latch import SignalLatch
from andrea_engine.run.checkpoint import HEADER, CheckpointFile, file_digest, inspect_checkpoint, list_checkpoints
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, ExitCode
from andrea_engine.run.events import known_digests, read_events
from andrea_engine.run.loss_entry import current_branch
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.plain import clean
from andrea_engine.run.record_view import by_policy

HELP = "show headers and statistics of checkpoints, a file or all of a run; with --policy its loss record by policy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="RUN|FILE")
    parser.add_argument(
        "--policy", metavar="N|all", help="show what one policy generation trained instead (0 is the first), or all"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    path: Path = options.path
    if options.policy is not None:
        return _inspect_policies(RunDirectory(path), options.policy, as_json=options.json)
    if path.is_dir():
        files = list_checkpoints(path)
    elif path.exists() or path.is_symlink():
        files = [inspect_checkpoint(path)]
    else:
        raise ConfigError(f"{path} does not exist; name a run directory or a checkpoint file")
    digests = known_digests(read_events(RunDirectory(path if path.is_dir() else path.parent).events))
    reports = [_report(file, digests) for file in files]
    if options.json:
        print(json.dumps(reports, indent=1))
    else:
        _print(reports, path)
    return ExitCode.OK if all(file.valid for file in files) else ExitCode.NO_CHECKPOINT


def _inspect_policies(directory: RunDirectory, which: str, *, as_json: bool) -> ExitCode:
    if not directory.path.is_dir():
        raise ConfigError(f"{directory.path} is not a run directory; --policy shows the loss record of a run")
    record = [*LossReader(directory.loss_record()).read_all(), *LossReader(directory.journal).read_all()]
    views = by_policy(current_branch(record))
    known = [str(view.policy) for view in views]
    if which != "all":
        views = [view for view in views if str(view.policy) == which]
        if not views:
            raise ConfigError(
                f"{directory.path} has no steps under policy {which}; it has: {', '.join(known) or 'none'}"
            )
    if as_json:
        print(json.dumps(msgspec.to_builtins(views), indent=1))
        return ExitCode.OK
    for view in views:
        ema = "unknown" if view.last_ema is None else f"{view.first_ema:.3f} -> {view.last_ema:.3f}"
        print(f"policy {view.policy}: steps {view.first_step:,} to {view.last_step:,}, EMA {ema} nats")
        for source, pulls in view.pulls.items():
            print(f"  {clean(source):<20} {pulls:>8,} steps  {pulls / view.entries:6.1%}")
    return ExitCode.OK


def _report(file: CheckpointFile, digests: dict[int, str]) -> dict[str, object]:
    report: dict[str, object] = {
        "file": file.path.name,
        "step": file.step,
        "n_params": file.n_params,
        "bytes": file.bytes,
        "problem": file.problem,
    }
    if file.valid and file.n_params is not None:
        digest = file_digest(file.path)
        known = digests.get(file.step)
        report["sha256"] = digest
        report["digest"] = "unverified" if known is None else "matches" if known == digest else "differs"
        report["regions"] = _regions(file.path, file.n_params)
    return report


def _regions(path: Path, n_params: int) -> dict[str, dict[str, float | int | None]]:
    import numpy as np

    data = np.memmap(path, dtype="<f4", mode="r", offset=HEADER.size)
    regions: dict[str, dict[str, float | int | None]] = {}
    for index, name in enumerate(("weights", "m", "v")):
        values = data[index * n_params : (index + 1) * n_params]
        finite = values[np.isfinite(values)].astype(np.float64)
        regions[name] = {
            "nonfinite": int(len(values) - len(finite)),
            "mean": float(finite.mean()) if len(finite) else None,
            "rms": float(np.sqrt(np.mean(finite**2))) if len(finite) else None,
            "min": float(finite.min()) if len(finite) else None,
            "max": float(finite.max()) if len(finite) else None,
        }
    return regions


def _print(reports: list[dict[str, object]], path: Path) -> None:
    if not reports:
        print(f"no checkpoints in {path}")
    for report in reports:
        if report["problem"]:
            print(f"{report['file']}  INVALID: {report['problem']}")
            continue
        print(
            f"{report['file']}  step {report['step']:,}  {report['n_params']:,} parameters  {report['bytes']:,} bytes"
        )
        print(f"  sha256 {report['sha256']}  ({report['digest']})")
        regions = report["regions"]
        assert isinstance(regions, dict)  # noqa: S101
        for name, r in regions.items():
            if r["rms"] is None:
                print(f"  {name:<8} nothing finite")
                continue
            print(
                f"  {name:<8} rms {r['rms']:.3e}  mean {r['mean']:+.3e}  min {r['min']:+.3e}  max {r['max']:+.3e}"
                f"  not finite {r['nonfinite']:,}"
            )
