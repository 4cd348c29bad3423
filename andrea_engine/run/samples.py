"""The stored samples of a run: text, where it came from, and its four scores."""

from __future__ import annotations

from pathlib import Path

import msgspec

from andrea_engine.run.errors import RunError
from andrea_engine.run.io import atomic_write, read_optional
from andrea_engine.run.loss_entry import loads_bounded

KEPT = 1000  # samples in the file; the scores of all older ones stand in events.jsonl
FILE_LIMIT = 64 * 1024 * 1024


class StoredScores(msgspec.Struct, frozen=True):
    """Points on the four axes (35, 35, 20, 10 at most) and their sum."""

    bigram: float
    trigram: float
    english: float
    character: float
    total: float


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One generated text. `source` is the arm that the step trained on; `tokens` counts the generated ones.

    `loss` and `ema` (the smoothed loss) are those of the step, in nats.
    """

    step: int
    text: str
    scores: StoredScores | None = None
    source: str | None = None
    loss: float | None = None
    ema: float | None = None
    time: float | None = None
    tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    prompt: str = ""
    metrics_version: int | None = None
    session: int | None = None


def read_samples(path: Path) -> list[Sample]:
    """All samples, oldest first; [] when there is no file. Entries without step and text are left out.

    Raises RunError when the file is there and is not a JSON array.
    """
    try:
        data = read_optional(path, FILE_LIMIT)
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from error
    if data is None or not data.strip():
        return []
    try:
        return msgspec.json.decode(data, type=list[Sample])
    except (ValueError, RecursionError):
        pass
    try:
        items = loads_bounded(data)
    except ValueError as error:
        raise RunError(f"{path} is not JSON ({error})") from None
    if not isinstance(items, list):
        raise RunError(f"{path} is not a JSON array of samples")
    return [sample for sample in map(_liberal, items) if sample is not None]


def _liberal(item: object) -> Sample | None:
    """A sample from the original's `step`, `loss`, `text`, or with fields of unexpected types."""
    if not isinstance(item, dict):
        return None
    try:
        return msgspec.convert(item, Sample)
    except msgspec.ValidationError:
        pass
    step, text, source = item.get("step"), item.get("text"), item.get("source")
    if not isinstance(step, int) or isinstance(step, bool) or not isinstance(text, str):
        return None
    return Sample(step=step, text=text, source=source if isinstance(source, str) else None)


def write_samples(path: Path, samples: list[Sample]) -> None:
    """Replace the file by the newest `KEPT` samples, one a line. Raises OSError."""
    lines = b",\n".join(msgspec.json.encode(sample) for sample in samples[-KEPT:])
    atomic_write(path, b"[\n" + lines + b"\n]\n")
