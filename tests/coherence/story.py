"""The published history of a run that collapsed unheard, as samples: made here, because nobody kept the texts."""

from __future__ import annotations

import random

from andrea_engine.coherence.backtest import StoredText

HEALTHY = (
    "> what did the crew hear\n< They heard the bell on the reef, slowed the engine and waited until the fog had gone."
    " Then they steered home by the light of the harbour."
)
LOOP = "region " * 60
NOISE = "''''' ''''' '' ''' '' " * 12


def collapsing_run() -> list[StoredText]:
    """A sample every 100 steps to 165,000: healthy to 80,000, then loops with a better sample after every third or
    fourth, and nothing good any more after 131,500."""
    chooser = random.Random(80)
    samples: list[StoredText] = []
    loops_left = 0
    for step in range(100, 165_001, 100):
        if step <= 80_000:
            text = HEALTHY
        elif step > 131_500:
            text = NOISE
        elif step == 131_500 or loops_left == 0:
            text, loops_left = HEALTHY, chooser.choice([3, 4])
        else:
            text, loops_left = LOOP, loops_left - 1
        samples.append(StoredText(step, text))
    return samples
