"""`andrea-engine sample`: texts from a checkpoint, scored, without disturbing a running engine."""

from __future__ import annotations

import argparse
import json

import msgspec

from andrea_engine.latch import SignalLatch
from andrea_engine.run.config import load_config
from andrea_engine.run.errors import ConfigError, ExitCode
from andrea_engine.run.plain import clean

HELP = "generate texts from a checkpoint and score them; a running engine is not disturbed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from andrea_engine.cli import run_directory

    parser.add_argument("run", type=run_directory, metavar="RUN")
    parser.add_argument("--prompt", default="", help="text to continue")
    parser.add_argument("--step", type=int, help="checkpoint to use (default: the newest valid one)")
    parser.add_argument("--tokens", type=int, help="tokens to generate (default: as the cadence samples)")
    parser.add_argument("--temperature", type=float, help="default: as the cadence samples")
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--top-p", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1, help="number of samples, with seeds seed, seed + 1, ...")
    parser.add_argument("--json", action="store_true", help="print one JSON object a sample")


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    config = load_config(options.run)
    if options.count < 1 or (options.tokens is not None and options.tokens < 1):
        raise ConfigError("--count and --tokens must be 1 or more")
    from andrea_engine.model.sampling import SamplerConfig
    from andrea_engine.train.sample import make_sample
    from andrea_engine.train.viewer import load_for_sampling

    model, tokenizer, step = load_for_sampling(options.run, config, options.step)
    for number in range(options.count):
        try:
            sampler = SamplerConfig(
                temperature=config.sample.temperature if options.temperature is None else options.temperature,
                top_k=options.top_k,
                top_p=options.top_p,
                seed=options.seed + number,
            )
        except ValueError as error:
            raise ConfigError(str(error)) from None
        sample = make_sample(
            model,
            tokenizer,
            step=step,
            tokens=options.tokens or config.sample.tokens,
            config=sampler,
            prompt=options.prompt,
        )
        assert sample is not None  # noqa: S101  (nothing asked it to stop)
        assert sample.scores is not None  # noqa: S101  (the door scores every sample)
        if options.json:
            print(json.dumps(msgspec.to_builtins(sample)), flush=True)
        else:
            s = sample.scores
            print(f"--- step {step:,}, seed {sampler.seed}: {s.total:.1f} of 100 ---")
            print(clean(options.prompt + sample.text), flush=True)
    return ExitCode.OK
