"""The one door for samples: whoever wants a text from the model gets it here, and it leaves scored."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict

from andrea_engine.coherence.metrics import METRICS_VERSION, Scores, score
from andrea_engine.curriculum.draws import integer
from andrea_engine.data.tokenizer import BOS, Tokenizer
from andrea_engine.model.gpt import GPT
from andrea_engine.model.sampling import SamplerConfig, generate
from andrea_engine.run.samples import Sample, StoredScores


def sample_seed(run_seed: int, step: int) -> int:
    """Seed of the cadence sample of a step, so that it can be made again."""
    return integer(0, 2**62, run_seed, "sample", step)


def make_sample(
    model: GPT,
    tokenizer: Tokenizer,
    *,
    step: int,
    tokens: int,
    config: SamplerConfig,
    prompt: str = "",
    source: str | None = None,
    loss: float | None = None,
    ema: float | None = None,
    session: int | None = None,
    should_stop: Callable[[], bool] | None = None,
    on_text: Callable[[str], bool] | None = None,
) -> Sample | None:
    """Generate at most `tokens` tokens after `prompt` and score the generated text; None when it was cut short.

    `on_text` gets the whole text so far with each new token; True from it ends the sample there.
    Of a prompt that leaves no room for an answer only the end is read. Raises RunError when the weights are damaged.
    """
    context = model.shape.context
    room = context - 1 - min(tokens, context // 2)  # for the end of a long prompt
    prompt_ids = tokenizer.encode(prompt)[-room:] if prompt and room > 0 else []
    so_far: list[int] = []

    def on_token(token: int) -> bool:
        so_far.append(token)
        return on_text is not None and on_text(tokenizer.decode(so_far))

    generated = generate(model, [BOS, *prompt_ids], tokens, config, should_stop, on_token if on_text else None)
    if not generated.finished:
        return None
    text = tokenizer.decode(generated.ids)
    return Sample(
        step=step,
        text=text,
        scores=stored(score(text)),
        source=source,
        loss=loss,
        ema=ema,
        time=round(time.time(), 3),
        tokens=len(generated.ids),
        temperature=config.temperature,
        seed=config.seed,
        prompt=prompt,
        metrics_version=METRICS_VERSION,
        session=session,
    )


def stored(scores: Scores) -> StoredScores:
    """The scores as they are written to the sample record."""
    return StoredScores(**asdict(scores), total=scores.total)


def scores_of(sample: Sample) -> Scores:
    """Scores of a stored sample; scored now if it was stored without."""
    s = sample.scores
    return score(sample.text) if s is None else Scores(s.bigram, s.trigram, s.english, s.character)
