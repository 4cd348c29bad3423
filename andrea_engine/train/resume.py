"""Build the model of a run and bring it to where the run stands: exactly what an unbroken run would hold."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from andrea_engine.curriculum.curriculum import Curriculum
from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.shape import ModelShape
from andrea_engine.run.checkpoint import choose_checkpoint
from andrea_engine.run.energy_facts import last_quality
from andrea_engine.run.errors import NoCheckpointError, RunError
from andrea_engine.run.events import Event, known_digests
from andrea_engine.run.loss_entry import LossEntry
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.loss_record import LossRecord
from andrea_engine.run.smoothing import Ema
from andrea_engine.run.state import read_state, set_aside
from andrea_engine.telemetry.energy import EnergyMeter
from andrea_engine.telemetry.monitor import Monitor
from andrea_engine.train.checkpointing import content_problem, load_checkpoint
from andrea_engine.train.engine import EngineContext, say
from andrea_engine.train.environment import Environment, choose_environment, compile_obstacle
from andrea_engine.train.metering import make_monitor
from andrea_engine.train.preparation import Prepared
from andrea_engine.train.progress import TrainingState


@dataclass(frozen=True, slots=True)
class Resumed:
    """A run, ready for its next step."""

    state: TrainingState
    flat: FlatParameters
    record: LossRecord
    monitor: Monitor
    environment: Environment


def resume(context: EngineContext, prepared: Prepared) -> Resumed:
    """Load the newest valid checkpoint, or start fresh weights where there is no history at all."""
    config = context.config
    environment = choose_environment(config, deterministic=context.options.deterministic)
    flat, step = _weights(context, environment)
    record = LossRecord(context.directory)
    recovery = record.recover(step, accept_damage=context.options.accept_damage)
    for text in recovery.notices:
        context.notice(text)
    ema = Ema()
    for entry in recovery.entries:
        ema.update(entry.loss)
    curriculum = _curriculum(context, prepared, recovery.entries)
    monitor = _monitor(context.history, recovery.entries, environment)
    _announce(context, environment, step)
    last = recovery.entries[-1] if recovery.entries else None
    return Resumed(TrainingState(step, curriculum, ema, last=last), flat, record, monitor, environment)


def _weights(context: EngineContext, environment: Environment) -> tuple[FlatParameters, int]:
    config = context.config
    shape = ModelShape.of(config)
    flat = FlatParameters(shape, environment.device)
    chosen = choose_checkpoint(context.directory.path, shape.n_params, known_digests(context.history), content_problem)
    if chosen is None:
        if LossReader(context.directory.loss).read_all():
            raise NoCheckpointError(
                f"{context.directory.path} has a loss record but no checkpoint; random weights would not continue it. "
                f"Restore a checkpoint, or start a new run elsewhere"
            )
        flat.init_weights(config.seed)
        return flat, 0
    for skipped in chosen.skipped:
        context.notice(f"passed over {skipped.name}: it {skipped.reason}")
    if not chosen.verified:
        context.notice(f"{chosen.file.path.name} is unverified: no digest of it was recorded")
    load_checkpoint(chosen.file.path, flat)
    say(f"resuming from {chosen.file.path.name}")
    return flat, chosen.file.step


def _monitor(history: list[Event], entries: list[LossEntry], environment: Environment) -> Monitor:
    """Goes on with the run's energy, and with what is known about how good that number is."""
    joules = next((e.energy_j for e in reversed(entries) if e.energy_j is not None), None)
    quality = last_quality(history)
    estimated = joules is not None and quality.estimated is not False  # earlier versions could only integrate
    return make_monitor(EnergyMeter(joules, complete=quality.complete is not False, estimated=estimated), environment)


def _curriculum(context: EngineContext, prepared: Prepared, entries: list[LossEntry]) -> Curriculum:
    """The bandit as the fold over the record; the snapshot on disk is only compared with it."""
    config, directory = context.config, context.directory
    recorded = (entries[-1].policy or 0) if entries else 0  # a fork has the record and no archives
    generation = max(directory.policy_generation(), recorded)
    curriculum = Curriculum(
        config.parsed_policy(str(directory.config)),
        {name: arm.tokens for name, arm in prepared.corpus.arms.items()},
        prepared.corpus.unavailable,
        seed=config.seed,
        tokens_per_step=config.tokens_per_step,
        generation=generation,
    )
    curriculum.fold(entries)
    for text in curriculum.notices:
        context.notice(text)
    try:
        snapshot = read_state(directory.state)
    except RunError as error:
        context.notice(f"{error}; kept as {set_aside(directory.state)}, the bandit is rebuilt from the loss record")
        snapshot = None
    if snapshot is not None:
        for text in curriculum.restore(snapshot):
            context.notice(text)
    return curriculum


def _announce(context: EngineContext, environment: Environment, step: int) -> None:
    """Record the start, and say in one sentence what may change the bits since the last one."""
    before = [event for event in context.history if event.kind == "resumed"]
    earlier = before[-1].facts.get("environment") if before else None
    context.events.append("resumed", step=step, environment=environment.facts(), n_params=context.config.n_params)
    if isinstance(earlier, dict):
        differences = environment.differences(earlier)
        if differences:
            context.notice(f"{'; '.join(differences)}: the run goes on, but not bit for bit as an unbroken one would")
    if environment.inexact is not None:
        context.notice(environment.inexact)
    if environment.is_cuda and not environment.compile and context.config.device.compile == "auto":
        obstacle = compile_obstacle(torch.cuda.get_device_capability(environment.device))
        context.notice(f"the step is not compiled, so training is slower: {obstacle}")
    context.reporter.set(
        device=environment.device_name, threads=environment.threads, n_params=context.config.n_params, step=step
    )
