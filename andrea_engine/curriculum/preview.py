"""What another policy would do to the mix of a run, from the files of the run alone."""

from __future__ import annotations

from dataclasses import dataclass

from andrea_engine.curriculum.curriculum import Curriculum
from andrea_engine.run.config import load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError
from andrea_engine.run.loss_entry import current_branch
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.pivot import present_generation
from andrea_engine.run.policy import Policy
from andrea_engine.run.resolved import live_tokens, read_resolved, unavailable

PREVIEW_STEPS = 500


@dataclass(frozen=True, slots=True)
class ArmPreview:
    """One live arm under the present policy and another one.

    `least` and `most`: its probability in a step over all focus sets. `draws`: how often it is drawn in the next
    steps, were each arm to go on earning what it has earned on average.
    """

    name: str
    old_least: float
    old_most: float
    old_draws: int
    new_least: float
    new_most: float
    new_draws: int


def rebuild(directory: RunDirectory, until: int | None = None) -> Curriculum:
    """The curriculum of a run where it stands, also while it trains; with `until` as it was at the end of that step.

    Raises ConfigError before the first start.
    """
    config = load_config(directory)
    resolved = read_resolved(directory)
    tokens = live_tokens(resolved)
    if not tokens:
        raise ConfigError(f"{directory.path} was never started, so the sizes of its sources are not known yet")
    entries = current_branch([*LossReader(directory.loss).read_all(), *LossReader(directory.journal).read_all()])
    curriculum = Curriculum(
        config.parsed_policy(str(directory.config)),
        tokens,
        unavailable(resolved),
        seed=config.seed,
        tokens_per_step=config.tokens_per_step,
        generation=present_generation(directory),
    )
    curriculum.fold(entry for entry in entries if until is None or entry.step <= until)
    return curriculum


def preview(curriculum: Curriculum, policy: Policy, steps: int = PREVIEW_STEPS) -> list[ArmPreview]:
    """The mix of the next `steps` under the present policy and after a pivot to `policy`, by name.

    Raises ConfigError when `policy` leaves nothing to draw from.
    """
    old_draws, new_draws = curriculum.simulate(steps), curriculum.simulate(steps, policy)
    old_reach, new_reach = curriculum.reach(), curriculum.reach(policy)
    return [
        ArmPreview(name, *old_reach[name], old_draws[name], *new_reach[name], new_draws[name])
        for name in sorted(old_draws)
    ]
