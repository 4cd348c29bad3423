"""The audit of a run: a scored sample at every cadence step, and the gate that reads them."""

from __future__ import annotations

from andrea_engine.coherence.gate import Gate, GateConfig, GateStatus
from andrea_engine.data.tokenizer import Tokenizer
from andrea_engine.model.gpt import GPT
from andrea_engine.model.sampling import SamplerConfig
from andrea_engine.run.errors import RunError
from andrea_engine.run.samples import Sample, read_samples, write_samples
from andrea_engine.run.state import set_aside
from andrea_engine.train.engine import EngineContext, say
from andrea_engine.train.progress import TrainingState
from andrea_engine.train.sample import make_sample, sample_seed, scores_of
from andrea_engine.train.saving import Saver


class Audit:
    """Makes, stores and judges samples. The gate's counters are a fold over the stored samples."""

    def __init__(self, context: EngineContext, model: GPT, tokenizer: Tokenizer, saver: Saver) -> None:
        self._context = context
        self._model = model
        self._tokenizer = tokenizer
        self._saver = saver
        table = context.config.gate
        self._gate = Gate(
            GateConfig(
                threshold=table.threshold,
                consecutive=table.consecutive,
                window=table.window,
                window_share=table.window_share,
                halt=table.halt,
                halt_on_window=table.halt_on_window,
            )
        )
        self._samples = self._stored_samples()
        self.status: GateStatus = self._gate.status
        saver.writer.protect = self._protected
        overridden = [e.step for e in context.history if e.kind == "override" and e.step]
        self._counted_after = max(overridden, default=-1)

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
        self._samples = [sample for sample in self._samples if sample.step <= step]
        self._counted_after = min(self._counted_after, step)  # a roll-back below an override counts again
        if self._context.options.override_halt:
            self._counted_after = step
            self._context.events.append("override", step=step, reason="--override-halt")
        for sample in self._samples:
            if sample.step > self._counted_after:
                self.status = self._gate.observe(sample.step, scores_of(sample))
        if not self.status.should_halt:
            return None
        return (
            f"the coherence gate halted this run at step {step:,} ({self.status.consecutive_low} samples in a row "
            f"below {self._context.config.gate.threshold:g}); "
            f"go on only with --override-halt, or from an earlier checkpoint"
        )

    def make_up_for_missing(self, state: TrainingState) -> str | None:
        """The sample of the step resumed from, when a stop or a kill came before it. Returns why to halt, or None."""
        every = self._context.config.sample.every
        newest = self._samples[-1].step if self._samples else 0
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
                session=context.events.session,
                should_stop=lambda: latch.interrupting,
            )
            if sample is not None:
                return self._judge(sample)
            if latch.stop_asked is not None:
                return None
            self._saver.serve_request(state.step)

    def _judge(self, sample: Sample) -> str | None:
        context = self._context
        self._samples.append(sample)
        try:
            write_samples(context.directory.samples, self._samples)
        except OSError as error:
            context.events.append("error", step=sample.step, error=f"samples cannot be written: {error.strerror}")
        scores = scores_of(sample)
        before = self.status.consecutive_low
        self.status = self._gate.observe(sample.step, scores)
        context.events.append(
            "sample",
            step=sample.step,
            total=scores.total,
            bigram=scores.bigram,
            trigram=scores.trigram,
            english=scores.english,
            character=scores.character,
            source=sample.source,
            consecutive_low=self.status.consecutive_low,
        )
        say(f"sample at step {sample.step:,}: {scores.total:.1f} of 100")
        for alarm in self.status.alarms:
            context.events.append("gate", step=alarm.step, alarm=alarm.kind, axis=alarm.axis, text=alarm.message)
            say(alarm.message)
        if before and not self.status.consecutive_low:
            context.events.append("gate", step=sample.step, alarm="recovered", text="a good sample reset the counter")
        if self.status.should_halt:
            return (
                f"halted by the coherence gate at step {sample.step:,}: {self.status.consecutive_low} samples in a row "
                f"below {context.config.gate.threshold:g}"
            )
        return None

    def _protected(self) -> set[int]:
        """While a bad streak lasts, the last good checkpoint must outlive the keep rule."""
        good = self.status.last_good_step
        return {good} if good is not None and self.status.consecutive_low else set()
