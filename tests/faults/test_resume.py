"""What a resume has to continue exactly: the learning rate of every step, and which batches are read."""

from __future__ import annotations

import math
from pathlib import Path

from tests.support import records
from tests.support.inprocess import andrea_engine
from tests.support.tiny import make_run

WARMUP, STOP, END = 20, 30, 40
TABLES = {
    "schedule": {"steps": 200, "warmup_steps": WARMUP, "peak_lr": 1e-3, "floor_ratio": 0.1},
    "checkpoint": {"every": 1000},
    "sample": {"every": 1000},
}


def test_the_learning_rate_after_a_resume_is_that_of_the_unbroken_run(tmp_path: Path) -> None:
    """Case C02: stopped after the warm-up, which must not begin again."""
    unbroken = make_run(tmp_path / "unbroken", TABLES)
    assert andrea_engine("train", unbroken.path, "--steps", END).code == 0
    broken = make_run(tmp_path / "broken", TABLES)
    for target in (STOP, END):
        assert andrea_engine("train", broken.path, "--steps", target).code == 0
    rates = [entry.lr for entry in records.entries(broken)]
    assert rates == [entry.lr for entry in records.entries(unbroken)]
    assert [entry.session for entry in records.entries(broken)] == [1] * STOP + [2] * (END - STOP)
    for step in (STOP, STOP + 1, END):
        cosine = 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (step - 1) / 200))
        rate = rates[step - 1]
        assert rate is not None
        assert math.isclose(rate, 1e-3 * cosine, rel_tol=1e-9)
    assert max(rate for rate in rates[:WARMUP] if rate is not None) < 1e-3
    records.assert_same_run(broken, unbroken, END)
