"""The training loop: choose an arm, train a step, and at the step's end do what was asked or is due."""

from __future__ import annotations

import math
import time

import torch

from andrea_engine.data.batches import BatchSequence
from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.gpt import GPT
from andrea_engine.run.energy_facts import last_quality
from andrea_engine.run.errors import ExitCode
from andrea_engine.run.loss_entry import make_entry
from andrea_engine.run.loss_record import LossRecord
from andrea_engine.telemetry.monitor import Monitor
from andrea_engine.telemetry.nodes import Nodes
from andrea_engine.telemetry.peaks import mfu
from andrea_engine.train.audit import Audit
from andrea_engine.train.engine import EngineContext, say
from andrea_engine.train.environment import Environment
from andrea_engine.train.follower import make_step
from andrea_engine.train.leader import Leader
from andrea_engine.train.pivoting import PivotWatch
from andrea_engine.train.preparation import Prepared
from andrea_engine.train.progress import TrainingState
from andrea_engine.train.resume import resume
from andrea_engine.train.saving import Saver
from andrea_engine.train.schedule import learning_rate
from andrea_engine.train.validation import validate

NONFINITE_HALT = 3  # steps in a row whose loss or gradient is not finite
SAY_SECONDS = 5.0
MONITOR_DELAY = 1.0  # seconds: the helper is an interpreter more, which shall not stand in the way of the first step


class Trainer:
    """One session of training. The order of the constructor is the order of a start."""

    def __init__(self, context: EngineContext, prepared: Prepared) -> None:
        self.context = context
        self.config = context.config
        self.prepared = prepared
        resumed = resume(context, prepared)
        self.state: TrainingState = resumed.state
        self.flat: FlatParameters = resumed.flat
        self.record: LossRecord = resumed.record
        self.monitor: Monitor = resumed.monitor
        self.nodes = Nodes(self.monitor)
        self.environment: Environment = resumed.environment
        self.model = GPT(self.flat)  # the masters: samples and validation judge what a checkpoint holds
        self.leader: Leader | None = None
        if self.environment.world_size > 1:
            self.leader = Leader(context, self.environment, self.flat, self.nodes)
        self.pivot = PivotWatch(context, self.target)
        ranks = self.leader.ranks if self.leader is not None else None
        self.training_step, self.optimizer = make_step(self.config, self.environment, self.flat, ranks)
        self.saver = Saver(context, self.flat, self.record, self.state.curriculum.snapshot, self.pivot)
        self.saver.resumed_at(self.state.step)
        if self.leader is not None:
            self.leader.save_when_lost(self.saver)
        self.audit = Audit(context, self.model, prepared.tokenizer, self.saver)
        self._sequences: dict[str, BatchSequence] = {}
        self._said = self._published = float("-inf")
        self._energy_quality = last_quality(context.history)
        context.reporter.tokens_per_step = self.config.tokens_per_step
        context.reporter.mfu_of = self._mfu
        context.reporter.read_saving = self.saver.progress
        context.reporter.read_problem = self._problem
        context.reporter.read_telemetry = lambda: self.nodes.telemetry

    @property
    def target(self) -> int:
        return self.context.options.until_step or self.config.schedule.steps

    def run(self) -> ExitCode:
        """Train until the target, a stop or a halt; returns the exit code after everything is durable."""
        self.monitor.start(after=MONITOR_DELAY)
        try:
            code = self._loop()
            if self.leader is not None:
                self.leader.dismiss()
        finally:
            self.saver.wait()  # the lock is given back after this: no write may outlive it
            self.record.close()
            self.monitor.stop()
        return code

    def _loop(self) -> ExitCode:
        context, state, latch = self.context, self.state, self.context.latch
        halted = self.audit.halted_already(state.step)
        if halted is not None:
            return self._leave("halted", ExitCode.HALTED, halted)
        halt = self.audit.make_up_for_missing(state)
        if halt is not None:
            return self._halt(halt)
        self.pivot.look(state.step)
        context.reporter.enter("training", step=state.step, note=self.pivot.note)
        context.events.append("phase", phase="training", step=state.step)
        while state.step < self.target and latch.stop_asked is None:
            self._train_step(state.step + 1)
            halt = self._step_end()
            if halt is not None:
                return self._halt(halt)
            if not latch.stopping and self.pivot.due(state.step):
                code = self._leave_for_pivot()
                if code is not None:
                    return code
        return self._stop()

    # -- one step ---------------------------------------------------------------------------------------------

    def _train_step(self, step: int) -> None:
        started = time.perf_counter()
        joules_before = self.nodes.joules
        state, schedule = self.state, self.config.schedule
        choice = state.curriculum.choose(step)
        batch = self._sequence(choice.source).batch(choice.pull)
        lr = learning_rate(step - 1, schedule.peak_lr, schedule.floor_ratio, schedule.warmup_steps, schedule.steps)
        preparing = self.training_step.preparing
        if preparing:
            self.context.reporter.enter("compiling", note="PyTorch builds the training step; the first one is slow")
        if self.leader is not None:
            self.leader.begin_step(step, lr, torch.from_numpy(batch))
        result = self.training_step.run(batch, step, lr)
        if self.leader is not None:
            self.leader.end_step(step, counts=not preparing)
        if preparing:
            self.context.reporter.enter("training", note=self.pivot.note)
        loss, grad_norm = result.loss, result.grad_norm
        seconds = time.perf_counter() - started
        finite = math.isfinite(loss) and math.isfinite(grad_norm)
        state.curriculum.observe(step, choice.source, loss if math.isfinite(loss) else None)
        state.step = step
        state.nonfinite_in_row = 0 if finite else state.nonfinite_in_row + 1
        joules = self.nodes.joules
        state.last = make_entry(
            step=step,
            loss=loss,
            ema=state.ema.update(loss),
            source=choice.source,
            lr=lr,
            grad_norm=grad_norm,
            seconds=round(seconds, 6),
            power_w=self._power(joules_before, joules, seconds),
            energy_j=None if joules is None else round(joules, 1),
            policy=state.curriculum.generation,
            session=self.context.events.session,
        )
        self.record.append(state.last)
        self.context.reporter.step_done(step, None if preparing else seconds)
        self._publish_curriculum()
        self._note_energy()
        if not finite:
            self.context.events.append(
                "nonfinite",
                step=step,
                source=choice.source,
                pull=choice.pull,
                documents=self._sequence(choice.source).documents(choice.pull),
                fields=state.last.nonfinite,
            )

    def _mfu(self, tokens_per_second: float) -> float | None:
        shape, environment = self.flat.shape, self.environment
        flops = shape.flops_per_token(shape.context)
        each = tokens_per_second / environment.world_size
        return mfu(each, flops, environment.device_name, environment.matmul_precision)

    def _problem(self) -> str | None:
        """Why something that should be on disk is not, for the heartbeat."""
        return self.record.problem or (str(self.saver.writer.error) if self.saver.writer.error else None)

    def _publish_curriculum(self) -> None:
        """Once a second at most: the rows of the arms table. Here, because only this thread may read the bandit."""
        now = time.monotonic()
        if now - self._published >= 1.0:
            self._published = now
            self.context.reporter.set(curriculum=self.state.curriculum.snapshot())

    def _sequence(self, source: str) -> BatchSequence:
        if source not in self._sequences:
            self._sequences[source] = BatchSequence(
                self.prepared.corpus.array(source),
                source,
                self.config.seed,
                self.config.schedule.batch,
                self.config.model.context,
            )
        return self._sequences[source]

    def _power(self, before: float | None, after: float | None, seconds: float) -> float | None:
        """Mean watts over a step; a step shorter than the readings takes the newest reading."""
        if after is None:
            return None
        if before is not None and seconds > 2.0 and after > before:
            return round((after - before) / seconds, 1)
        power = self.nodes.power_w
        return None if power is None else round(power, 1)

    def _note_energy(self) -> None:
        """How the energy was measured, written down whenever that changes: the sum itself does not tell."""
        quality = self.nodes.quality
        if self.nodes.joules is None or quality == self._energy_quality:
            return
        self._energy_quality = quality
        self.context.events.append("energy", complete=quality.complete, estimated=quality.estimated)

    # -- the end of a step ------------------------------------------------------------------------------------

    def _step_end(self) -> str | None:
        """Saves and samples that are asked for or due. Returns why to halt, or None."""
        state = self.state
        if state.nonfinite_in_row >= NONFINITE_HALT:
            return f"{NONFINITE_HALT} steps in a row had a loss or gradient that is not finite"
        self._say_progress()
        self.saver.at_step_end(state.step, final=state.step == self.target)
        if self.context.latch.stop_asked is not None:
            return None  # the sample of this step is made by the next start
        self._validate()
        if self.context.latch.stopping:
            return None
        if state.step % self.config.sample.every == 0:
            halt = self.audit.sample(state)
            self.context.reporter.enter("training", note=self.pivot.note)
            return halt
        return None

    def _validate(self) -> None:
        """Validation loss where it is due. A request is served between two windows, then it begins again."""
        table, step, latch = self.config.validation, self.state.step, self.context.latch
        if not table.every or step % table.every:
            return
        self.context.reporter.enter("validating", note="")
        started = time.monotonic()
        while not latch.stopping:
            losses = validate(self.model, self.prepared.corpus, table.windows, lambda: latch.interrupting)
            if losses is not None:
                if losses:
                    mean = sum(losses.values()) / len(losses)
                    seconds = round(time.monotonic() - started, 3)
                    self.context.events.append("validation", step=step, loss=mean, arms=losses, seconds=seconds)
                    say(f"validation at step {step:,}: {mean:.3f} nats")
                break
            self.saver.serve_request(step)
        self.context.reporter.enter("training", note=self.pivot.note)

    def _say_progress(self) -> None:
        now = time.monotonic()
        entry = self.state.last
        if entry is None or now - self._said < SAY_SECONDS:
            return
        self._said = now
        loss = "not finite" if entry.loss is None else f"{entry.loss:.3f}"
        ema = "unknown" if entry.ema is None else f"{entry.ema:.3f}"
        rate = self.config.tokens_per_step / entry.seconds if entry.seconds else 0.0
        say(f"step {entry.step:,} of {self.target:,}  loss {loss}  EMA {ema}  {rate:,.0f} tokens/s  {entry.source}")

    # -- leaving ----------------------------------------------------------------------------------------------

    def _stop(self) -> ExitCode:
        """Target reached or stop asked: everything up to this step becomes durable, then exit 0, or 3."""
        step = self.state.step
        asked = self.context.latch.stop_asked
        if asked is not None:
            self.context.reporter.enter("stopping", note="saving before the exit")
        error = self.saver.final_save(step, asked)
        if error is not None:
            return self._leave("failed", ExitCode.SAVE_FAILED, f"could not save step {step:,}: {error}")
        finished = step >= self.config.schedule.steps
        if step == 0:
            note = "stopped before the first step; nothing was trained or lost"
        else:
            note = f"{'finished' if finished else 'stopped'} at step {step:,}, saved"
        return self._leave("finished" if finished else "stopped", ExitCode.OK, note)

    def _leave_for_pivot(self) -> ExitCode | None:
        """The agreed step: make it durable and exit 7. None when training goes on after all."""
        step = self.state.step
        self.context.reporter.enter("stopping", note=f"saving step {step:,} for the pivot")
        error = self.saver.final_save(step, None, reason="pivot")
        if error is not None:
            self.pivot.postpone(step, str(error))
        elif not self.context.latch.stopping and self.pivot.confirm(step):
            return self._leave("pivot", ExitCode.PIVOT, f"stopped for the pivot at step {step:,}, saved")
        self.context.reporter.enter("training", note=self.pivot.note)
        return None

    def _halt(self, reason: str) -> ExitCode:
        step = self.state.step
        self.context.reporter.enter("stopping", note="saving after the halt")
        if self.state.nonfinite_in_row == 0:
            error = self.saver.final_save(step, None, reason="halt")
            if error is not None:
                reason += f"; the present state could not be saved: {error}"
        else:
            self.saver.wait()
        last_good = self.audit.status.last_good_step
        pinned = self.saver.pin_last_good(last_good if self.state.nonfinite_in_row == 0 else step - NONFINITE_HALT)
        facts = self.audit.halt_facts(step) | {"cause": "nonfinite" if self.state.nonfinite_in_row else "gate"}
        self.context.events.append("halt", at=None, step=step, reason=reason, pinned=pinned, **facts)
        return self._leave("halted", ExitCode.HALTED, reason)

    def _leave(self, phase: str, code: ExitCode, note: str) -> ExitCode:
        self.context.events.append("stop", phase=phase, step=self.state.step, reason=note, exit_code=int(code))
        self.context.reporter.set(curriculum=self.state.curriculum.snapshot())  # what is shown from now on is the last
        self.context.reporter.finish(phase, int(code), note)
        say(note)
        return code
