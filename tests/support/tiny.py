"""A tiny run: 32 thousand parameters on two short texts, so that an engine starts fast and learns at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import tomli_w

from andrea_engine.run.directory import RunDirectory

TEXTS = Path(__file__).with_name("texts")
D_MODEL, CONTEXT, SEGMENTS = 32, 32, 40
VOCAB = SEGMENTS + 256 + 1
N_PARAMS = 2 * VOCAB * D_MODEL + CONTEXT * D_MODEL + 12 * D_MODEL**2
CHECKPOINT_BYTES = 8 + 12 * N_PARAMS
EVERY = 10

TABLES: dict[str, object] = {
    "seed": 7,
    "model": {"d_model": D_MODEL, "layers": 1, "heads": 2, "context": CONTEXT},
    "tokenizer": {"segments": SEGMENTS},
    "schedule": {"steps": 1_000_000, "batch": 4, "peak_lr": 3e-3, "warmup_steps": 5},
    "checkpoint": {"every": EVERY, "keep": "all"},
    "sample": {"every": EVERY, "tokens": 24},
    "gate": {"halt": False},
    "device": {"name": "cpu", "threads": 1},
    "sources": [{"name": name, "kind": "text", "path": str(TEXTS / f"{name}.txt")} for name in ("harbour", "garden")],
}

RARELY = {"checkpoint": {"every": 1_000_000}, "sample": {"every": 1_000_000}}
"""Neither checkpoints nor samples by themselves: what is saved was asked for."""


def make_run(path: Path, tables: Mapping[str, object] | None = None) -> RunDirectory:
    """A run directory that holds nothing but run.toml: the tiny tables with `tables` laid over them, key by key."""
    path.mkdir(parents=True, exist_ok=True)
    directory = RunDirectory(path)
    configure(directory, tables or {}, TABLES)
    return directory


def configure(directory: RunDirectory, tables: Mapping[str, object], base: Mapping[str, object] = TABLES) -> None:
    """Write run.toml as `base` with `tables` laid over it."""
    directory.config.write_text(tomli_w.dumps(_merged(base, tables)), encoding="utf-8")


def _merged(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = _merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result
