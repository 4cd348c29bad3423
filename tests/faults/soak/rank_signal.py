"""Signals to each process of a run on two processes, 20 times each: saved, and nobody is left."""

from __future__ import annotations

import random
import time
from pathlib import Path
from signal import SIGTERM, SIGUSR1

from andrea_engine.run.condition import condition
from tests.support import records
from tests.support.engines import wait_until
from tests.support.ranks import Pair, pair
from tests.support.tiny import RARELY, make_run

TARGETS = ("leader", "follower", "agent", "launcher", "group", "everyone")
CASES = [(number, target) for number in (SIGUSR1, SIGTERM) for target in TARGETS]
REPETITIONS = 20
LATEST = 0.5  # seconds after the third step


def trial(seed: int, scratch: Path) -> None:
    number, target = CASES[seed % len(CASES)]
    directory = make_run(scratch / "run", RARELY)
    with pair(directory) as two:
        two.training(3)
        time.sleep(random.Random(seed).uniform(0.0, LATEST))
        two.send(number, target)
        if number == SIGUSR1:
            _saves_and_goes_on(two, target)
            two.send(SIGTERM, "launcher")
        code = two.ended()
        assert code == 0, f"{number.name} to {target} ended the run with {code}\n{two.output}"
        assert "Traceback" not in two.output, two.output
        saved = records.checkpoints(directory)
        assert saved, f"{number.name} to {target}: nothing was saved"
        assert records.steps(directory) == list(range(1, max(saved) + 1)), "the record has a gap"
        assert condition(directory).word == "stopped"


def _saves_and_goes_on(two: Pair, target: str) -> None:
    wait_until(lambda: two.saves() or None, f"the save that was asked of {target}")
    step = two.training(3).step
    two.training(step + 3)
