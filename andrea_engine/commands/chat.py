"""`andrea-engine chat`: talk to a checkpoint; a running engine is not disturbed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from andrea_engine.latch import SignalLatch
from andrea_engine.run.config import load_config
from andrea_engine.run.errors import ConfigError, ExitCode
from andrea_engine.run.plain import clean

HELP = "talk to the model of a checkpoint, turn by turn; a running engine is not disturbed"
NEXT_TURN = "\n> "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from andrea_engine.cli import run_directory

    parser.add_argument("run", type=run_directory, metavar="RUN")
    parser.add_argument("--step", type=int, help="checkpoint to use (default: the newest valid one)")
    parser.add_argument("--tokens", type=int, default=120, help="longest answer")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=0)


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    config = load_config(options.run)
    if options.tokens < 1:
        raise ConfigError("--tokens must be 1 or more")
    from andrea_engine.model.sampling import SamplerConfig
    from andrea_engine.train.sample import make_sample
    from andrea_engine.train.viewer import load_for_sampling

    model, tokenizer, step = load_for_sampling(options.run, config, options.step)
    print(f"step {step:,} of {options.run.path}; an empty line or ctrl+d ends", flush=True)
    history = ""
    turn = 0
    while line := _ask():
        history += f"> {line}\n< "
        try:
            sampler = SamplerConfig(options.temperature, options.top_k, options.top_p, options.seed + turn)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        answer = Answer(sys.stdout.write)
        sample = make_sample(
            model,
            tokenizer,
            step=step,
            tokens=options.tokens,
            config=sampler,
            prompt=history,
            on_text=answer.show,
        )
        text = answer.end()
        scores = sample.scores if sample else None
        print(f"\n  [{scores.total:.0f} of 100]" if scores else "", flush=True)
        history += text + "\n"
        turn += 1
    return ExitCode.OK


def _ask() -> str:
    try:
        return input("> ").strip()
    except EOFError:
        print()
        return ""


class Answer:
    """Shows an answer while it grows, and ends it where the model begins the next turn."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._shown = 0
        self._text = ""
        write("< ")

    def show(self, text: str) -> bool:
        """The text so far; True once the answer is complete."""
        turn = text.find(NEXT_TURN)
        done = turn >= 0
        # The end may be half a character, or the beginning of the next turn: it is held back.
        self._text = text[:turn] if done else text.rstrip("\ufffd").removesuffix("\n>").removesuffix("\n")
        if len(self._text) > self._shown:
            self._write(clean(self._text[self._shown :]))
            sys.stdout.flush()
            self._shown = len(self._text)
        return done

    def end(self) -> str:
        """The whole answer."""
        return self._text
