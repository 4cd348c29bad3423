"""The samples of earlier policies: each pivot moves those made until then into its archive."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.samples import FILE_LIMIT, KEPT, Sample, read_samples

LOOK_SECONDS = 2.0  # a pivot takes longer
MOST_ARCHIVES = 1000


class PastSamples:
    """Reads each archive once. `look` is called from one thread only.

    Kept are the newest `KEPT` samples, from files of `FILE_LIMIT` bytes in all. Roll-backs have archives of their own,
    of samples that are no part of the run any more; where one went back behind a pivot, what came after it in the
    pivot's archive is no part of it either.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._archives: list[Path] = []
        self._read: dict[Path, list[Sample]] = {}
        self._next_look = 0.0

    def look(self) -> tuple[Sample, ...] | None:
        """All of them in order of step; None when no archive has come or gone since the last look."""
        now = time.monotonic()
        if now < self._next_look:
            return None
        self._next_look = now + LOOK_SECONDS
        archives = self._directory.archives()[-MOST_ARCHIVES:]
        if archives == self._archives:
            return None
        self._archives = archives
        self._read = self._contents(archives)
        return in_order(sample for archive in archives for sample in self._read.get(archive, ()))[-KEPT:]

    def _contents(self, archives: list[Path]) -> dict[Path, list[Sample]]:
        """Samples by archive, the newest first, as long as there is room for more."""
        contents: dict[Path, list[Sample]] = {}
        count = size = 0
        for archive in reversed(archives):
            path = archive / self._directory.samples.name
            size += _size(path)
            if count >= KEPT or size > FILE_LIMIT:
                break
            contents[archive] = self._read[archive] if archive in self._read else _samples(path)
            count += len(contents[archive])
        return contents


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _samples(path: Path) -> list[Sample]:
    """One that cannot be read is skipped: `andrea-engine check` tells."""
    try:
        return read_samples(path)
    except RunError:
        return []


def in_order(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    """Samples as they were made, without those that a later one of the same or an earlier step has replaced."""
    kept: list[Sample] = []
    for sample in samples:
        while kept and kept[-1].step >= sample.step:
            kept.pop()
        kept.append(sample)
    return tuple(kept)
