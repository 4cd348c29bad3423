"""`andrea-engine init`: make a run directory."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from andrea_engine.latch import SignalLatch
from andrea_engine.run.checkpoint import checkpoint_bytes
from andrea_engine.run.config import create_run, preset_names, suggest_preset
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, ExitCode

HELP = "make a new run directory from a preset"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="directory to create")
    parser.add_argument(
        "--preset", choices=preset_names(), help="default: suggested by the directory's name, else demo"
    )
    parser.add_argument("--steps", type=int, help="planned total of steps")
    parser.add_argument("--seed", type=int, help="seed of weights, data order and samples")
    parser.add_argument("--batch", type=int, help="sequences in one step")
    parser.add_argument("--device", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--nproc", type=int, metavar="N", help="processes that share each batch, on CUDA one a device")
    parser.add_argument("--threads", type=int, help="CPU threads of each process, 0 for all that may be used")
    parser.add_argument(
        "--text",
        action="append",
        default=[],
        metavar="PATH",
        help="own text instead of the preset's: a folder, a text file or a glob; may be given several times",
    )
    parser.add_argument(
        "--jsonl",
        action="append",
        default=[],
        metavar="FILE",
        help="own JSON lines with a text field or chat messages; may be given several times",
    )


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    directory = RunDirectory(options.run)
    preset = options.preset or suggest_preset(options.run)
    config = create_run(directory, preset, _overrides(options), _sources(options.text, options.jsonl))
    print(
        f"created {directory.path}: preset {preset}, {config.n_params:,} parameters, "
        f"{checkpoint_bytes(config.n_params) / 1e6:,.1f} MB a checkpoint, {config.schedule.steps:,} steps planned"
    )
    print(f"train it with: andrea-tui {directory.path}   or: andrea-engine train {directory.path}")
    return ExitCode.OK


def _overrides(options: argparse.Namespace) -> dict[str, object]:
    tables: dict[str, object] = {}
    schedule = {"steps": options.steps, "batch": options.batch}
    device = {"name": options.device, "nproc": options.nproc, "threads": options.threads}
    for name, table in (("schedule", schedule), ("device", device)):
        given = {key: value for key, value in table.items() if value is not None}
        if given:
            tables[name] = given
    if options.seed is not None:
        tables["seed"] = options.seed
    return tables


def _sources(texts: list[str], jsonl: list[str]) -> list[dict[str, object]]:
    """`[[sources]]` tables for paths given on the command line; paths are stored absolute."""
    sources: list[dict[str, object]] = []
    for kind, given in (("text", texts), ("jsonl", jsonl)):
        for text in given:
            path = Path(text).expanduser().absolute()
            is_glob = kind == "text" and any(character in text for character in "*?[")
            if not is_glob and not path.exists():
                raise ConfigError(f"{text} does not exist; --{kind} takes a folder or file that is there")
            sources.append({"name": _name(path, sources), "kind": kind, "glob" if is_glob else "path": str(path)})
    return sources


def _name(path: Path, taken: list[dict[str, object]]) -> str:
    stem = re.sub(r"[^a-z0-9]+", "-", (path.stem if path.suffix else path.name).lower()).strip("-") or "text"
    name, number = stem, 2
    while any(source["name"] == name for source in taken):
        name, number = f"{stem}-{number}", number + 1
    return name
