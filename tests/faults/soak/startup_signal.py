"""Signals from the first moment of an engine on, launched as the console does it: none kills, none is lost."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from signal import SIGTERM, SIGUSR1

from andrea_engine.run.condition import condition
from tests.support import records
from tests.support.engines import Engine, Engines
from tests.support.tiny import RARELY, make_run

LATEST = 3.0  # seconds after the spawn
PLANS = ("save", "stop", "mixed")


def trial(seed: int, scratch: Path) -> None:
    choice = random.Random(seed)
    plan = choice.choice(PLANS)
    count = {"save": 1, "stop": 1, "mixed": choice.randint(2, 6)}[plan]
    pauses = sorted(choice.choice((0.0, choice.uniform(0.0, LATEST))) for _ in range(count))
    directory = make_run(scratch / "run", RARELY)
    with Engines() as factory:
        engine = factory.launch(directory)
        passed, saves, stopped = 0.0, 0, False
        for pause in pauses:
            if _ended_within(engine, pause - passed):
                break
            passed = pause
            number = {"save": SIGUSR1, "stop": SIGTERM, "mixed": choice.choice((SIGUSR1, SIGUSR1, SIGTERM))}[plan]
            engine.send(number)
            saves += number == SIGUSR1 and not stopped
            stopped = stopped or number == SIGTERM
        if saves and not stopped:
            engine.wait_event("save_durable", reason="operator")
        if not stopped:
            engine.send(SIGTERM)
        code = engine.wait()
        assert code == 0, f"signals {plan} at {pauses} ended the engine with {code}\n{engine.output}"
        saved = records.checkpoints(directory)
        assert saved or stopped, "no save although it was asked for"
        if saved:
            assert engine.events("save_durable", reason="stop"), "the stop was not answered by a save"
            seen = len(engine.events("save_seen"))
            assert seen == len(engine.events("save_asked")), "a request was not seen"
        assert records.steps(directory) == list(range(1, max(saved, default=0) + 1)), "the record has a gap"
        assert condition(directory).word == "stopped"


def _ended_within(engine: Engine, seconds: float) -> bool:
    try:
        engine.process.wait(max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        return False
    return True
