"""The engine's side of a run on several processes: what it has the others do, and what it tells of them."""

from __future__ import annotations

import os

from torch import Tensor

from andrea_engine.model.flat import FlatParameters
from andrea_engine.run.errors import ExitCode
from andrea_engine.telemetry.nodes import Nodes
from andrea_engine.train.engine import EngineContext, say
from andrea_engine.train.environment import Environment
from andrea_engine.train.follower import join_ranks
from andrea_engine.train.ranks import Ranks, Report
from andrea_engine.train.saving import Saver


class Leader:
    """Waits for the others, and gives them the weights. Every call raises RunError when one of them has gone."""

    def __init__(self, context: EngineContext, environment: Environment, flat: FlatParameters, nodes: Nodes) -> None:
        context.reporter.enter("loading", note=f"waiting for {environment.world_size} processes")
        self.ranks: Ranks = join_ranks(context.config, environment)
        self.ranks.share(flat)
        self._context = context
        self._weights = flat.w
        self._nodes = nodes
        self._reports: list[Report] = []

    def save_when_lost(self, saver: Saver) -> None:
        """A save that is under way is finished before this process ends, because another has died."""

        def end(sentence: str) -> None:  # by a thread, while the loop waits for an answer that will not come
            saver.wait()
            self._context.events.append("error", error=sentence, exit_code=int(ExitCode.FAILED))
            self._context.reporter.finish("failed", int(ExitCode.FAILED), sentence)
            say(f"andrea-engine: {sentence}")
            os._exit(int(ExitCode.FAILED))

        self.ranks.when_lost(end)

    def begin_step(self, step: int, lr: float, batch: Tensor) -> None:
        """All compute their share of the batch."""
        self.ranks.order(step, lr, batch)

    def end_step(self, step: int, *, counts: bool) -> None:
        """Hear what was asked of the others, and once a second what they tell of themselves. `counts`: the time of this
        step tells something of the next ones."""
        self.ranks.end_step(step, self._weights, self._context.latch, counts=counts)
        if self.ranks.reports is not self._reports:
            self._reports = self.ranks.reports
            self._nodes.others = [report.node for report in self._reports if report.node is not None]
            self._context.reporter.set(ranks=[report.rank for report in self._reports])

    def dismiss(self) -> None:
        """Let the others go."""
        self.ranks.dismiss()
        self.ranks.leave()
