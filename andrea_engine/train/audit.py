"""The audit of a run: a scored sample at every cadence step, and the gate that reads them."""

from __future__ import annotations

import msgspec

from andrea_engine.coherence.gate import Alarm, Gate, GateConfig, GateStatus
from andrea_engine.data.tokenizer import Tokenizer
from andrea_engine.model.gpt import GPT
from andrea_engine.model.sampling import SamplerConfig
from andrea_engine.run.config import GateTable
from andrea_engine.run.errors import RunError
from andrea_engine.run.gate_facts import counted_after, nonfinite_halt
from andrea_engine.run.loss_entry import current_branch
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.samples import Sample, read_samples, write_samples
from andrea_engine.run.state import set_aside
from andrea_engine.train.engine import EngineContext, say
from andrea_engine.train.pivoting import archived_sample_step
from andrea_engine.train.progress import TrainingState
from andrea_engine.train.sample import make_sample, sample_seed, scores_of
from andrea_engine.train.saving import Saver


def gate_config(table: GateTable, *, no_halt: bool = False) -> GateConfig:
    """The gate's rule as run.toml asks for it; `no_halt` only watches."""
    return GateConfig(**{**msgspec.structs.asdict(table), "halt": table.halt and not no_halt})


class Audit:
    """Makes, stores and judges samples. The gate's counters are a fold over the stored samples."""

    def __init__(self, context: EngineContext, model: GPT, tokenizer: Tokenizer, saver: Saver) -> None:
        self._context = context
        self._model = model
        self._tokenizer = tokenizer
        self._saver = saver
        self._gate = Gate(gate_config(context.config.gate, no_halt=context.options.no_halt))
        self._samples = self._stored_samples()
        self.status: GateStatus = self._gate.status
        saver.writer.protect = self._protected
        self._counted_after = counted_after(context.history)

    def _stored_samples(self) -> list[Sample]:
        """Samples of earlier sessions; an unreadable file is kept aside and never blocks a start."""
        path = self._context.directory.samples
        try:
            return read_samples(path)
        except RunError as error:
            kept = set_aside(path)
            self._context.notice(f"{error}; kept as {kept}, the gate starts counting anew")
            return []

    def halted_already(self, step: int) -> str | None:
        """Count the stored samples. Returns why the run must not simply go on, None when it may."""
        kept = [sample for sample in self._samples if sample.step <= step]
        if len(kept) < len(self._samples):  # the others are of steps that a crash took back: they are made again
            self._samples = kept
            self._store(step)
        if self._context.options.override_halt:
            self._counted_after = step
            self._context.events.append("override", step=step, reason="--override-halt")
        counted = [sample for sample in self._samples if sample.step > self._counted_after]
        before = self.status
        for sample in counted:
            before, self.status = self.status, self._observe(sample)
        if counted and not self._recorded(counted[-1].step):
            self._record(counted[-1], before)
        advice = "go on only with --override-halt, or from an earlier checkpoint"
        if self.status.halt_reason is not None:
            return f"the coherence gate halted this run at step {step:,} ({self.status.halt_reason}); {advice}"
        if self._context.options.override_halt:
            return None
        halt = nonfinite_halt(self._context.history)
        return None if halt is None else f"this run was halted at step {halt.step:,} ({halt.text('reason')}); {advice}"

    def _observe(self, sample: Sample) -> GateStatus:
        return self._gate.observe(sample.step, scores_of(sample), sample.ema)

    def _recorded(self, step: int) -> bool:
        """Whether an earlier session got as far as the events of this sample, on this branch of the run."""
        for event in reversed(self._context.history):
            if event.step is not None and event.kind == "sample" and event.step == step:
                return True
            if event.step is not None and event.kind == "rollback" and event.step < step:
                return False
        return False

    def make_up_for_missing(self, state: TrainingState) -> str | None:
        """The sample of the step resumed from, when a stop or a kill came before it. Returns why to halt, or None."""
        every = self._context.config.sample.every
        newest = self._samples[-1].step if self._samples else archived_sample_step(self._context.directory)
        if state.step > newest and state.step % every == 0:
            return self.sample(state)
        return None

    def sample(self, state: TrainingState) -> str | None:
        """Make and judge the sample of this step. Returns why to halt, or None.

        A request is served within one token: the half-made sample is dropped, and made again after a save.
        """
        context, latch, config = self._context, self._context.latch, self._context.config
        context.reporter.enter("sampling", note="")
        sampler = SamplerConfig(temperature=config.sample.temperature, seed=sample_seed(config.seed, state.step))
        prompts = config.sample.prompts
        while True:
            sample = make_sample(
                self._model,
                self._tokenizer,
                step=state.step,
                tokens=config.sample.tokens,
                config=sampler,
                prompt=prompts[state.step // config.sample.every % len(prompts)],
                source=state.last.source if state.last else None,
                loss=state.last.loss if state.last else None,
                ema=state.last.ema if state.last else None,
                session=context.events.session,
                should_stop=lambda: latch.interrupting,
            )
            if sample is not None:
                return self._judge(sample)
            if latch.stop_asked is not None:
                return None
            self._saver.serve_request(state.step)

    def _judge(self, sample: Sample) -> str | None:
        self._samples.append(sample)
        self._store(sample.step)
        before, self.status = self.status, self._observe(sample)
        self._record(sample, before)
        say(f"sample at step {sample.step:,}: {scores_of(sample).total:.1f} of 100")
        if self.status.halt_reason is None:
            return None
        return f"halted by the coherence gate at step {sample.step:,}: {self.status.halt_reason}"

    def _store(self, step: int) -> None:
        try:
            write_samples(self._context.directory.samples, self._samples)
        except OSError as error:
            self._context.events.append("error", step=step, error=f"samples cannot be written: {error.strerror}")

    def _record(self, sample: Sample, before: GateStatus) -> None:
        """The events of a sample: its scores with the gate's counters, and each alarm that came or went."""
        events, scores, status = self._context.events, scores_of(sample), self.status
        events.append(
            "sample",
            step=sample.step,
            total=scores.total,
            bigram=scores.bigram,
            trigram=scores.trigram,
            english=scores.english,
            character=scores.character,
            source=sample.source,
            consecutive_low=status.consecutive_low,
            window_low=status.low_in_window,
            window_filled=status.window_filled,
            last_good_step=status.last_good_step,
            first_bad_step=status.first_bad_step,
            alarms=list(status.active),
        )
        for alarm in status.alarms:
            events.append("gate", step=alarm.step, alarm=alarm.kind, axis=alarm.axis, text=alarm.message)
            say(alarm.message)
            self._keep_last_good(alarm)
        if before.consecutive_low and not status.consecutive_low:
            events.append("gate", step=sample.step, alarm="recovered", text="a good sample reset the counter")
        for kind in before.active:
            if kind != "collapse" and kind not in status.active:
                text = f"the {kind} alarm is over"
                events.append("gate", step=sample.step, alarm="recovered", of=kind, text=text)

    def _keep_last_good(self, alarm: Alarm) -> None:
        """Where only an alarm stands for the halt, the checkpoint to come back to is pinned all the same."""
        if alarm.kind == "collapse" and not self._gate.config.halt:
            self._saver.pin_last_good(self.status.last_good_step, "last good before the collapse")

    def halt_facts(self, step: int) -> dict[str, object]:
        """What a halt at `step` has to tell about the samples, for its event."""
        status = self.status
        good = status.last_good_step
        if status.consecutive_low >= self._gate.config.consecutive:
            judged = self._samples[-self._gate.config.consecutive :]
        else:
            judged = self._samples[-status.window_filled :] if status.should_halt else []
        return {
            "last_good_step": good,
            "first_bad_step": status.first_bad_step,
            "steps_since_good": None if good is None else step - good,
            "energy_wh_since_good": None if good is None else self._energy_since(good, step),
            "samples": [{"step": sample.step, "total": scores_of(sample).total} for sample in judged],
        }

    def _energy_since(self, good: int, step: int) -> float | None:
        """Watt-hours from the end of step `good` to that of `step`; None when they were not measured."""
        directory = self._context.directory
        recorded = [*LossReader(directory.loss).read_all(), *LossReader(directory.journal).read_all()]
        joules = {entry.step: entry.energy_j for entry in current_branch(recorded) if entry.step in {good, step}}
        start, end = joules.get(good), joules.get(step)
        return None if start is None or end is None else round((end - start) / 3600, 3)

    def _protected(self) -> set[int]:
        """While a bad streak lasts, the last good checkpoint must outlive the keep rule."""
        good, every = self.status.last_good_step, self._context.config.checkpoint.every
        return {good, good - good % every} if good is not None and self.status.consecutive_low else set()
