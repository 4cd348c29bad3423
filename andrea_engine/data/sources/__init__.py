"""Sources of text. A new kind is one file here and one row in `KINDS`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from andrea_engine.data.sources import hf_datasets, jsonl, python_text, text_files
from andrea_engine.data.sources.base import CappedSource, Options, Source, SourceUnavailable, excerpts
from andrea_engine.run.errors import ConfigError

__all__ = [
    "KINDS",
    "Kind",
    "Source",
    "SourceUnavailable",
    "check_name",
    "excerpts",
    "make_source",
    "make_sources",
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_COMMON_KEYS = ("name", "kind")


@dataclass(frozen=True, slots=True)
class Kind:
    """The keys a `[[sources]]` table of this kind may have, and what makes a source of them."""

    keys: tuple[str, ...]
    build: Callable[[str, Options, Path], CappedSource]


KINDS: dict[str, Kind] = {
    "python-text": Kind(python_text.KEYS, python_text.build),
    "text": Kind(text_files.KEYS, text_files.build),
    "jsonl": Kind(jsonl.KEYS, jsonl.build),
    "hf": Kind(hf_datasets.KEYS, hf_datasets.build),
}


def check_name(name: object) -> str:
    """A name that is safe as a file name, a table key and a label. Raises ConfigError for any other."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"source name {str(name)[:60]!r} is not usable: take 1 to 64 letters, digits, '.', '_' or '-', "
            "beginning with a letter or digit"
        )
    return name


def make_source(name: str, spec: Mapping[str, object], base: Path) -> Source:
    """The source that one `[[sources]]` table asks for; relative paths in it start at `base`.

    Nothing is read yet: a missing file shows when the documents are asked for. Raises ConfigError.
    """
    check_name(name)
    kind = KINDS.get(str(spec.get("kind")))
    if kind is None:
        raise ConfigError(f"source '{name}': 'kind' must be one of {', '.join(KINDS)}, not {spec.get('kind')!r}")
    allowed = (*_COMMON_KEYS, *kind.keys)
    unknown = sorted(set(spec) - set(allowed))
    if unknown:
        raise ConfigError(
            f"source '{name}': unknown key '{unknown[0]}'; kind '{spec['kind']}' has {', '.join(allowed)}"
        )
    source = kind.build(name, Options(name, spec), base)
    source.identity = json.dumps({**spec, "name": name}, sort_keys=True)
    return source


def make_sources(specs: list[dict[str, object]], base: Path) -> list[Source]:
    """The sources of a whole run.toml, in its order. Raises ConfigError."""
    return [make_source(check_name(spec.get("name")), spec, base) for spec in specs]
