"""Runs that the coherence gate has something to say about."""

from __future__ import annotations

import msgspec

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.samples import StoredScores, read_samples, write_samples

# Greedy text of a young model repeats itself, and never reaches the full 100 points.
COLLAPSED = {"gate": {"halt": True, "threshold": 100.0}, "sample": {"temperature": 0.0}}

FULL_MARKS = StoredScores(bigram=35.0, trigram=35.0, english=20.0, character=10.0, total=100.0)
NO_MARKS = StoredScores(bigram=0.0, trigram=0.0, english=0.0, character=0.0, total=0.0)


def give_scores(directory: RunDirectory, scores: dict[int, StoredScores]) -> None:
    """Replace the scores of the stored samples of these steps."""
    samples = [
        msgspec.structs.replace(sample, scores=scores.get(sample.step, sample.scores))
        for sample in read_samples(directory.samples)
    ]
    write_samples(directory.samples, samples)
