"""Hugging Face data sets, through the optional `datasets` package, streamed so that a byte budget ends the reading."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from andrea_engine.data.sources.base import CappedSource, Options, SourceUnavailable
from andrea_engine.data.sources.records import render
from andrea_engine.run.errors import ConfigError

KEYS = ("dataset", "config", "split", "data_files", "field", "max_bytes")


@dataclass(slots=True, kw_only=True)
class HuggingFace(CappedSource):
    """Records are read like JSON Lines; those without text are skipped and counted."""

    dataset: str
    config: str | None = None
    split: str = "train"
    data_files: tuple[str, ...] = ()
    field: str | None = None

    def _texts(self) -> Iterator[str]:
        records = self._load()
        try:
            for record in records:
                text = render(record, self.field)
                if text is None:
                    self.skipped += 1
                else:
                    yield text
        except Exception as error:
            raise self._failed(error) from error

    def _load(self) -> Iterable[object]:
        try:
            datasets = importlib.import_module("datasets")
        except ImportError as error:
            raise SourceUnavailable(
                "the package 'datasets' is not installed; install the extra: pip install 'andrea[datasets]'"
            ) from error
        try:
            loaded: Iterable[object] = datasets.load_dataset(
                self.dataset,
                self.config,
                split=self.split,
                data_files=list(self.data_files) or None,
                streaming=True,
            )
        except Exception as error:  # network, disk, missing split, script errors: the library raises anything
            raise self._failed(error) from error
        return loaded

    def _failed(self, error: Exception) -> SourceUnavailable:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        return SourceUnavailable(f"data set '{self.dataset}' ({self.split}) cannot be read: {reason[:200]}")

    def _nothing(self) -> str:
        wanted = f"the text field '{self.field}'" if self.field else "a 'text' field or a 'messages' list"
        return f"none of the {self.skipped:,} records of '{self.dataset}' ({self.split}) has {wanted}"


def build(name: str, options: Options, base: Path) -> HuggingFace:
    """`dataset` as for `load_dataset` (`json` with `data_files` for local files, relative ones from `base`)."""
    dataset = options.text("dataset")
    if dataset is None:
        raise ConfigError(f"source '{name}': kind 'hf' needs 'dataset', for instance 'json' with 'data_files'")
    return HuggingFace(
        name=name,
        dataset=dataset,
        config=options.text("config"),
        split=options.text("split") or "train",
        data_files=tuple(item if "://" in item else str(base / item) for item in options.texts("data_files")),
        field=options.text("field"),
        max_bytes=options.count("max_bytes"),
    )
