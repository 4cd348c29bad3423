"""From run.toml to data that can be trained on: tokenizer, encoded sources, and `run.lock.json`."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import msgspec

from andrea_engine import __version__
from andrea_engine.data import token_cache
from andrea_engine.data.sources import make_source
from andrea_engine.data.sources.base import Source, SourceUnavailable, excerpts
from andrea_engine.data.token_cache import Corpus, PreparationStopped
from andrea_engine.data.tokenizer import Tokenizer, train
from andrea_engine.run.checkpoint import checkpoint_bytes
from andrea_engine.run.config import RunConfig
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, RunError
from andrea_engine.run.io import atomic_write, read_optional
from andrea_engine.run.loss_entry import loads_bounded

LOCK_FORMAT = 1
TOKENIZER_TEXT = 5_000_000  # bytes of text that the tokenizer learns from: more changes little and takes longer


@dataclass(frozen=True, slots=True)
class Prepared:
    """What training needs besides the model."""

    tokenizer: Tokenizer
    corpus: Corpus
    notices: tuple[str, ...]


def prepare(
    directory: RunDirectory, config: RunConfig, report: Callable[[str], None], should_stop: Callable[[], bool]
) -> Prepared:
    """Load, or make and store, tokenizer and encoded sources. Raises ConfigError, RunError or PreparationStopped."""
    base = Path.cwd()
    sources = [make_source(str(spec.get("name", "")), spec, base) for spec in config.sources]
    if not sources:
        raise ConfigError(f"{directory.config} names no [[sources]]; add at least one text source")
    tokenizer = _tokenizer(directory, config, sources, report)

    if should_stop():
        raise PreparationStopped
    corpus = token_cache.prepare(
        sources,
        tokenizer,
        directory.tokens,
        config.model.context,
        progress=lambda name, documents, tokens: report(f"encoding {name}: {documents:,} texts, {tokens:,} tokens"),
        should_stop=should_stop,
    )
    notices = [f"source '{name}' is unavailable: {reason}" for name, reason in corpus.unavailable.items()]
    notices += _lock_run(directory, config, tokenizer, corpus)
    return Prepared(tokenizer, corpus, tuple(notices))


def _tokenizer(
    directory: RunDirectory, config: RunConfig, sources: list[Source], report: Callable[[str], None]
) -> Tokenizer:
    path = directory.tokenizer
    if path.exists():
        tokenizer = Tokenizer.load(path)
        if tokenizer.vocab_size != config.vocab:
            raise ConfigError(
                f"{path} has a vocabulary of {tokenizer.vocab_size:,}, but {directory.config} asks for "
                f"{config.vocab:,}; "
                f"tokenizer.segments cannot change within a run"
            )
        return tokenizer
    _require_text(sources)
    report("learning the tokenizer")
    tokenizer = train(excerpts(sources, TOKENIZER_TEXT), config.tokenizer.segments)
    tokenizer.save(path)
    return tokenizer


def _require_text(sources: list[Source]) -> None:
    """Raise ConfigError with the reason of every source unless at least one has text."""
    reasons = []
    for source in sources:
        try:
            next(source.documents())
        except SourceUnavailable as error:
            reasons.append(f"{source.name}: {error}")
        else:
            return
    raise ConfigError(f"no source has any text ({'; '.join(reasons)})")


def _lock_run(directory: RunDirectory, config: RunConfig, tokenizer: Tokenizer, corpus: Corpus) -> list[str]:
    """Write what was resolved; on a later start name every difference that changes what is trained."""
    arms = {a.name: {"tokens": a.tokens, "documents": a.documents, "sha256": a.digest} for a in corpus.arms.values()}
    earlier = read_lock(directory)
    notices = []
    if earlier is not None:
        if earlier.get("tokenizer_sha256") not in (None, tokenizer.digest):
            raise ConfigError(
                f"{directory.tokenizer} is not the tokenizer this run was started with; restore it, or the weights "
                f"mean other tokens"
            )
        before = earlier.get("arms")
        known = before if isinstance(before, dict) else {}
        changed = sorted(n for n in arms if n in known and known[n].get("sha256") != arms[n]["sha256"])
        if changed:
            notices.append(f"the text of {', '.join(changed)} has changed, so a resume will not equal an unbroken run")
    lock = {
        "format": LOCK_FORMAT,
        "versions": {
            "andrea": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy", "wordfreq")},
        },
        "n_params": config.n_params,
        "checkpoint_bytes": checkpoint_bytes(config.n_params),
        "vocab": config.vocab,
        "tokens_per_step": config.tokens_per_step,
        "tokenizer_sha256": tokenizer.digest,
        "arms": arms,
        "unavailable": corpus.unavailable,
        "config": msgspec.to_builtins(config),
    }
    data = msgspec.json.format(msgspec.json.encode(lock), indent=1) + b"\n"
    if earlier is None or read_optional(directory.resolved) != data:
        atomic_write(directory.resolved, data)
    return notices


def read_lock(directory: RunDirectory) -> dict[str, object] | None:
    """`run.lock.json` as a mapping, None when there is none. Raises RunError when it is damaged."""
    try:
        data = read_optional(directory.resolved, 16 * 1024 * 1024)
        lock = loads_bounded(data) if data else None
    except (OSError, ValueError) as error:
        raise RunError(f"{directory.resolved} cannot be read: {error}") from error
    return lock if isinstance(lock, dict) else None
