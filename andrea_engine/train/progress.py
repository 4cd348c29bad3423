"""Where a run stands, besides its weights."""

from __future__ import annotations

from dataclasses import dataclass

from andrea_engine.curriculum.curriculum import Curriculum
from andrea_engine.run.loss_entry import LossEntry
from andrea_engine.run.smoothing import Ema


@dataclass(slots=True)
class TrainingState:
    """Everything a step changes besides the weights; rebuilt from the loss record at every start."""

    step: int
    curriculum: Curriculum
    ema: Ema
    nonfinite_in_row: int = 0
    last: LossEntry | None = None
