"""Which source each step trains on, and why: a pure fold over the loss record.

The state after step k depends on the seed, the policy, the live arms and the entries up to k, and on nothing
else: `fold` over a run's entries gives the state that `choose` and `observe` had when they made that run.
The bandit starts fresh with every policy generation; data order and epochs run over the whole run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, replace

from andrea_engine.curriculum.bandit import BanditState, Focus, StepRecord, bonus, top_arms
from andrea_engine.curriculum.draws import integer, uniform
from andrea_engine.curriculum.explanation import VERSION, ArmExplanation, reconcile
from andrea_engine.curriculum.mixing import HeldBy, Weight, normalise, penalty, pick, reach, weigh
from andrea_engine.run.errors import ConfigError
from andrea_engine.run.policy import Policy


@dataclass(frozen=True, slots=True)
class Choice:
    """The source of one step, and how many steps of the whole run drew from it before (the data order)."""

    source: str
    pull: int


class Curriculum:
    """The bandit, the mixing rule and the warm-up over the live arms of one run.

    `arms` maps each live source to the tokens of one pass over it, `unavailable` each configured source that
    is not live to the reason. `generation` counts the policies of the run; `start_step` is the last step before
    this one took effect, so its first step is `start_step + 1`; a fold finds it in the entries by itself.
    """

    def __init__(
        self,
        policy: Policy,
        arms: Mapping[str, int],
        unavailable: Mapping[str, str],
        *,
        seed: int,
        tokens_per_step: int,
        generation: int = 0,
        start_step: int = 0,
    ) -> None:
        self.policy = policy
        self.seed = seed
        self.tokens_per_step = tokens_per_step
        self.generation = generation
        self.start_step = start_step
        self._tokens = {name: tokens for name, tokens in arms.items() if tokens > 0}
        self._unavailable = {name: "it has no tokens" for name in arms if name not in self._tokens}
        self._unavailable.update(unavailable)
        self._live = sorted(self._tokens.keys() - self._unavailable.keys())
        self._zombies: dict[str, float | None] = {}
        self._state = BanditState()

    @property
    def step(self) -> int:
        """The last step observed or folded, at least `start_step`."""
        return max(self._state.step, self.start_step)

    @property
    def notices(self) -> list[str]:
        """What the operator should be told once on start, after the fold."""
        notices = self._warmup_notice()
        unknown = sorted(self.policy.sources() - self._tokens.keys() - self._unavailable.keys())
        if unknown:
            names = ", ".join(map(repr, unknown))
            notices.append(f"The policy names sources that this run does not have, without effect: {names}.")
        return notices

    def choose(self, step: int) -> Choice:
        """Draw the source of `step`, which must come after the last one observed. Changes nothing.

        Raises ConfigError if no arm is live or all weights are 0.
        """
        self._require_next(step)
        weights = {name: weight.weight for name, weight in self._weights(step).items()}
        if not self._live:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in sorted(self._unavailable.items()))
            raise ConfigError(f"no arm has a live source ({reasons or 'none is configured'}); restore or add one.")
        # The dice of a step are the same under every policy: two branches of a fork differ by their policy alone.
        source = pick(weights, uniform(self.seed, "arm", step))
        return Choice(source, self._state.run_pulls[source])

    def observe(self, step: int, source: str, loss: float | None) -> None:
        """Record that `step` trained on `source` and ended with `loss` (nats; None is not finite).

        Raises ValueError if `step` does not come after the last one observed.
        """
        self._require_next(step)
        self._state.pull(step, source, self._focus_at(step)).observe(loss)

    def fold(self, entries: Iterable[StepRecord]) -> None:
        """Rebuild the state from the entries of the run so far, one per step in rising order.

        An entry without `policy` is of generation 0, one without `source` counts for no arm. Entries of another
        policy generation count for the data order and the epochs only.
        Raises ValueError if the steps do not rise.
        """
        self._state = BanditState()
        for entry in entries:
            present = (entry.policy or 0) == self.generation
            if present and entry.source is not None:
                self.observe(entry.step, entry.source, entry.loss)
                continue
            if entry.step <= self._state.step:
                raise ValueError(f"step {entry.step} does not come after step {self._state.step}")
            self._state.skip(entry.step, entry.source)
            if not present:
                self.start_step = max(self.start_step, entry.step)

    def disable(self, name: str, reason: str) -> list[str]:
        """Take an arm out because its source disappeared. Returns what to tell the operator.

        The state becomes that of a curriculum which folded the same entries without this source.
        """
        self._unavailable[name] = reason
        if name not in self._live:
            return []
        told = self._warmup_notice()
        self._live.remove(name)
        focus = self._state.focus
        if focus is not None:
            standing = {arm: facts for arm, facts in focus.standing.items() if arm != name}
            arms = self._top(standing, focus.until - 1, focus.index)
            self._state.focus = replace(focus, standing=standing, arms=arms)
        notice = f"Arm {name!r} is no longer available ({reason}); it gets no share."
        return [notice] if told else [notice, *self._warmup_notice()]

    def restore(self, snapshot: object) -> list[str]:
        """Compare a saved `.state.json` with the fold, which must have run before and always wins.

        Remembers arms without a live source as zombies, for `explain`. Returns the findings as sentences.
        """
        self._zombies, notices = reconcile(
            snapshot, self.step, self.generation, self._state.arms, frozenset(self._live)
        )
        return notices

    def explain(self) -> list[ArmExplanation]:
        """What decides the share of each arm in the next step: live arms by name, then the others."""
        step = self.step + 1
        weights = self._weights(step)
        values = {name: weight.weight for name, weight in weights.items()}
        probabilities = normalise(values) if any(values.values()) else {}
        focus = self._focus_at(step).arms
        total = sum(self._state.arm(name).pulls for name in self._live)
        known = self._unavailable.keys() | self._zombies.keys() | self._state.run_pulls.keys()
        return [
            self._explain(name, weights.get(name), probabilities.get(name, 0.0), name in focus, total)
            for name in (*self._live, *sorted(known - set(self._live)))
        ]

    def snapshot(self) -> dict[str, object]:
        """The state as JSON values, for `.state.json`: the rows of `explain`, focus, phase and position."""
        step = self.step + 1
        focus = self._focus_at(step)
        phase = "warm-up" if self._warmup_arms(step) else "main"
        return {
            "version": VERSION,
            "step": self.step,
            "generation": self.generation,
            "start_step": self.start_step,
            "seed": self.seed,
            "tokens_per_step": self.tokens_per_step,
            "phase": {"name": phase, "warmup_left": max(0, self.policy.warmup_steps - self.step)},
            "focus": {"arms": list(focus.arms), "until": focus.until, "redraws": focus.index + 1},
            "arms": {row.name: asdict(row) for row in self.explain()},
        }

    def simulate(self, steps: int, policy: Policy | None = None) -> dict[str, int]:
        """Preview the next `steps` draws: live arm -> number of draws. Changes nothing.

        Each simulated pull earns the arm's present mean reward, its expected outcome, and leaves the loss EMA
        alone; epochs grow as they would. With `policy` given the bandit starts fresh, as after a pivot here.
        Raises ConfigError as `choose` does.
        """
        rewards = {name: self._state.arm(name).mean for name in self._live}
        twin = self._twin(policy)
        draws = dict.fromkeys(self._live, 0)
        for step in range(self.step + 1, self.step + 1 + steps):
            source = twin.choose(step).source
            twin._state.pull(step, source, twin._focus_at(step)).credit(rewards[source])
            draws[source] += 1
        return draws

    def reach(self, policy: Policy | None = None) -> dict[str, tuple[float, float]]:
        """Least and greatest probability of each live arm in the next step, over all possible focus sets.

        At the present epochs; with `policy` given, as after a pivot here.
        """
        twin = self._twin(policy)
        eligible = twin._eligible(twin.step + 1)
        weights = {
            name: (twin._weigh(name, in_focus=False).weight, twin._weigh(name, in_focus=True).weight)
            for name in eligible
        }
        size = len(twin._top(twin._standing(), twin.step + 1, index=0))
        return {**dict.fromkeys(self._live, (0.0, 0.0)), **reach(weights, size)}

    def _twin(self, policy: Policy | None) -> Curriculum:
        """An independent copy; with `policy` given, as a pivot to it at the present step would make it."""
        fresh = policy is not None
        twin = Curriculum(
            policy=policy or self.policy,
            arms={name: self._tokens[name] for name in self._live},
            unavailable={},
            seed=self.seed,
            tokens_per_step=self.tokens_per_step,
            generation=self.generation + fresh,
            start_step=self.step if fresh else self.start_step,
        )
        history = BanditState(run_pulls=self._state.run_pulls.copy(), step=self._state.step)
        twin._state = history if fresh else deepcopy(self._state)
        return twin

    def _require_next(self, step: int) -> None:
        if step <= self.step:
            raise ValueError(f"step {step} does not come after step {self.step}")

    def _usable(self) -> list[str]:
        """Live arms that are not switched off by a cap of 0: only they may take a place in the focus set."""
        return [name for name in self._live if self.policy.cap(name) != 0.0]

    def _warmup_arms(self, step: int) -> list[str]:
        """The only arms that `step` may draw; empty after the warm-up, and if none of its sources is usable."""
        if step > self.policy.warmup_steps:
            return []
        return [name for name in self._usable() if name in self.policy.warmup_sources]

    def _eligible(self, step: int) -> list[str]:
        return self._warmup_arms(step) or self._usable()

    def _warmup_notice(self) -> list[str]:
        step = self.step + 1
        if step > self.policy.warmup_steps or self._warmup_arms(step):
            return []
        return ["None of the warm-up sources is available; all arms are drawn instead."]

    def _standing(self) -> dict[str, tuple[int, float]]:
        state = self._state
        return {name: (state.arm(name).pulls, state.arm(name).mean) for name in self._live}

    def _top(self, standing: Mapping[str, tuple[int, float]], step: int, index: int) -> tuple[str, ...]:
        def tie(name: str) -> float:
            return uniform(self.seed, "tie", self.generation, index, name)

        return top_arms(standing, self._eligible(step), self.policy.focus, self.policy.c, tie)

    def _focus_at(self, step: int) -> Focus:
        """The focus set that holds at `step`, drawn from the present statistics if its window is a new one.

        The windows depend on seed, generation and start step alone; the end of the warm-up ends one.
        """
        focus = self._state.focus
        if focus is not None and step < focus.until:
            return focus
        index, until = (-1, self.start_step + 1) if focus is None else (focus.index, focus.until)
        while until <= step:
            index, begin = index + 1, until
            until = begin + integer(*self.policy.span, self.seed, "span", self.generation, index)
            if begin <= self.policy.warmup_steps:
                until = min(until, self.policy.warmup_steps + 1)
        standing = self._standing()
        return Focus(index, until, standing, self._top(standing, step, index))

    def _epochs(self, name: str) -> float:
        return self._state.run_pulls[name] * self.tokens_per_step / self._tokens[name]

    def _weigh(self, name: str, in_focus: bool) -> Weight:
        policy = self.policy
        return weigh(in_focus, policy.background, self._epochs(name), policy.floor(name), policy.cap(name))

    def _weights(self, step: int) -> dict[str, Weight]:
        focus = self._focus_at(step).arms
        return {name: self._weigh(name, name in focus) for name in self._eligible(step)}

    def _explain(
        self, name: str, weight: Weight | None, probability: float, in_focus: bool, total: int
    ) -> ArmExplanation:
        state, arm = self._state, self._state.arm(name)
        live = name in self._live
        zombie = not live and (name in self._zombies or state.run_pulls[name] > 0)
        epochs = self._epochs(name) if live else None
        held: HeldBy = "unavailable" if not live else "cap" if self.policy.cap(name) == 0.0 else "warm-up"
        return ArmExplanation(
            name=name,
            available=live,
            zombie=zombie,
            reason="" if live else self._unavailable.get(name, "this run has no such source"),
            pulls=arm.pulls,
            run_pulls=state.run_pulls[name],
            rejected=arm.rejected,
            share=state.recent.count(name) / max(1, len(state.recent)),
            ema=arm.ema,
            mean_reward=arm.mean,
            spread=arm.spread,
            bonus=bonus(self.policy.c, arm.pulls, total) if live and arm.pulls else None,
            in_focus=in_focus,
            tentative=weight.tentative if weight else 0.0,
            epochs=epochs,
            penalty=None if epochs is None else penalty(epochs),
            floor=self.policy.floor(name),
            cap=self.policy.cap(name),
            weight=weight.weight if weight else 0.0,
            probability=probability,
            held_by=weight.held_by if weight else held,
            tokens=self._tokens.get(name),
            stored_weight=self._zombies.get(name),
        )
