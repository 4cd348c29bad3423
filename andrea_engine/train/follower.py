"""A process that only computes: its share of each batch, as the leader of the run orders it."""

from __future__ import annotations

import gc
import os
import socket

from andrea_engine.latch import SignalLatch
from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.shape import ModelShape
from andrea_engine.run.config import RunConfig
from andrea_engine.run.errors import ExitCode
from andrea_engine.telemetry.energy import EnergyMeter
from andrea_engine.telemetry.monitor import Monitor
from andrea_engine.telemetry.nodes import NodeReading
from andrea_engine.train.environment import Environment, choose_environment
from andrea_engine.train.metering import make_monitor
from andrea_engine.train.optimizer import AdamW
from andrea_engine.train.place import Place
from andrea_engine.train.ranks import Ranks
from andrea_engine.train.step import TrainingStep


def join_ranks(config: RunConfig, environment: Environment) -> Ranks:
    """Wait for all processes of the run. Raises ConfigError or RunError."""
    return Ranks(Place.of(), environment, (config.schedule.batch, config.model.context + 1))


def make_step(
    config: RunConfig, environment: Environment, flat: FlatParameters, ranks: Ranks | None
) -> tuple[TrainingStep, AdamW]:
    """The step that each process of a run makes."""
    schedule = config.schedule
    optimizer = AdamW(flat, (schedule.beta1, schedule.beta2), schedule.eps, schedule.weight_decay, schedule.clip)
    step = TrainingStep(
        flat,
        optimizer,
        precision=environment.precision,
        micro_batch=environment.micro_batch,
        compile=environment.compile,
        cuda_graphs=environment.cuda_graphs,
        ranks=ranks,
    )
    return step, optimizer


def follow(config: RunConfig, latch: SignalLatch, *, deterministic: bool) -> ExitCode:
    """Make the steps that the leader orders until it ends; a stop has its ordinary effect until all have met.
    Raises RunError when the leader has gone."""
    environment = choose_environment(config, deterministic=deterministic)
    flat = FlatParameters(ModelShape.of(config), environment.device)
    ranks = join_ranks(config, environment)
    latch.arm()
    print(f"rank {ranks.place.rank} of {ranks.place.size}, process {os.getpid()}", flush=True)
    training_step, _ = make_step(config, environment, flat, ranks)
    ranks.share(flat)
    monitor = _watch_machine(ranks, environment)
    gc.freeze()
    try:
        while (order := ranks.receive()) is not None:
            preparing = training_step.preparing
            training_step.run(order.batch, order.step, order.lr)
            ranks.end_step(order.step, flat.w, latch, counts=not preparing)
    finally:
        if monitor is not None:
            monitor.stop()
    ranks.leave()
    return ExitCode.OK


def _watch_machine(ranks: Ranks, environment: Environment) -> Monitor | None:
    """On each machine but the leader's one process reads what its devices use."""
    place = ranks.place
    if place.node == 0 or place.local_rank != 0:
        return None
    monitor = make_monitor(EnergyMeter(), environment)
    ranks.read_node = lambda: NodeReading.of(socket.gethostname(), monitor)
    monitor.start()
    return monitor
