"""`andrea-engine backtest`: where the coherence gate would have stopped an old run, and what that would have saved."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from pathlib import Path

from andrea_engine.coherence.backtest import StoredText, backtest, render
from andrea_engine.coherence.gate import GateConfig
from andrea_engine.latch import SignalLatch
from andrea_engine.run.errors import ConfigError, ExitCode
from andrea_engine.run.samples import read_samples

HELP = "run the coherence gate over stored samples: where would it have fired, what would it have saved"
TEXT_LIMIT = 4 * 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "samples", type=Path, metavar="SAMPLES", help="array of step and text in JSON, or a folder of text files"
    )
    parser.add_argument("--threshold", type=float, default=30.0)
    parser.add_argument("--consecutive", type=int, default=5)
    parser.add_argument("--steps-per-minute", type=float)
    parser.add_argument("--watts", type=float)
    parser.add_argument("--price", type=float, help="price of one kWh")
    parser.add_argument("--ended-at", type=int, metavar="STEP", help="step at which the run was stopped in the end")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    samples = _from_folder(options.samples) if options.samples.is_dir() else _from_file(options.samples)
    if not samples:
        raise ConfigError(f"{options.samples} holds no samples with a step and a text")
    result = backtest(
        samples,
        GateConfig(threshold=options.threshold, consecutive=options.consecutive),
        steps_per_minute=options.steps_per_minute,
        watts=options.watts,
        ended_at=options.ended_at,
        price_per_kwh=options.price,
    )
    if options.json:
        report = dataclasses.asdict(result)
        report["scored"] = [{"step": step, **dataclasses.asdict(s), "total": s.total} for step, s in result.scored]
        print(json.dumps(report))
    else:
        print(render(result))
    return ExitCode.OK


def _from_file(path: Path) -> list[StoredText]:
    if not path.exists():
        raise ConfigError(f"{path} does not exist; name a samples file or a folder of text files")
    return [StoredText(sample.step, sample.text, sample.ema) for sample in read_samples(path)]


def _from_folder(folder: Path) -> list[StoredText]:
    """Text files in the order of the last number in their names, which is the step; without one, their position."""
    found = []
    for path in folder.iterdir():
        if path.is_file() and not path.is_symlink() and path.suffix in {".txt", ".md", ""}:
            numbers = re.findall(r"\d+", path.stem)
            found.append((int(numbers[-1]) if numbers else None, path))
    found.sort(key=lambda item: (item[0] is None, item[0] or 0, item[1].name))
    samples = []
    for position, (step, path) in enumerate(found):
        with path.open("rb") as file:
            text = file.read(TEXT_LIMIT).decode("utf-8", "replace")
        samples.append(StoredText(position if step is None else step, text))
    return samples
