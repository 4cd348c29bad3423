"""The engine's side of a pivot: notice the intent, agree on a step, train to exactly that step, and leave."""

from __future__ import annotations

import time

import msgspec

from andrea_engine.run.config import load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import read_events
from andrea_engine.run.intent import (
    PivotIntent,
    agreed_step,
    at_step,
    guard,
    next_boundary,
    read_intent,
    write_intent,
)
from andrea_engine.run.pivot_sequence import finish_locked
from andrea_engine.run.samples import read_samples
from andrea_engine.train.engine import EngineContext

DOORBELL_SECONDS = 10.0  # between writing an intent and ringing for it
PATIENCE = 1.0  # for somebody who changes the intent at the same moment: training must not wait for long


def finish_pending(context: EngineContext) -> None:
    """Complete the pivot that an earlier process left, if its step is saved. Before anything reads the policy."""
    from andrea_engine.train.checkpointing import content_problem

    context.reporter.enter("preparing", note="completing a pivot")
    finished = finish_locked(context.directory, by="andrea-engine train", deep=content_problem)
    context.config = load_config(context.directory)
    context.history = read_events(context.directory.events)
    if finished is not None:
        receipt = finished.receipt
        context.notice(
            f"completed the pivot at step {receipt.step:,}: policy {receipt.generation} from step "
            f"{receipt.first_step:,} on, {receipt.problem or 'weights and loss record unchanged'}"
        )


def archived_sample_step(directory: RunDirectory) -> int:
    """Step of the newest sample that the last pivot archived, 0 when there is none."""
    archives = directory.archives()
    try:
        samples = read_samples(archives[-1] / directory.samples.name) if archives else []
    except RunError:
        return 0
    return samples[-1].step if samples else 0


class PivotWatch:
    """Follows `pivot.json` while training. `target` is the step at which training ends in any case."""

    def __init__(self, context: EngineContext, target: int) -> None:
        self._context = context
        self._every = context.config.checkpoint.every
        self._target = target
        self._intent: PivotIntent | None = None
        self._rung = False
        self._not_before = 0  # after a save that failed
        self._damage = ""

    @property
    def note(self) -> str:
        """What the screen should say while a pivot is ahead, else ''."""
        intent = self._intent
        return f"pivot to policy {intent.generation} at step {intent.step:,}" if intent else ""

    def is_doorbell(self, step: int, asked: float) -> bool:
        """True when the SIGUSR1 of the time `asked` says that there is a new intent, and does not ask for a save.

        Each intent is rung for once. A later signal is the operator's, also while the pivot is pending.
        """
        if self.look(step):
            self._rung = True
            return True
        intent = self._intent
        if intent is None or self._rung or abs(asked - intent.asked) > DOORBELL_SECONDS:
            return False
        self._rung = True  # it was noticed at a boundary, a moment before its bell
        return True

    def look(self, step: int) -> bool:
        """Read the intent at the end of `step` and agree on its step. Returns whether it is a new one."""
        known = self._intent.id if self._intent else None
        self._intent = self._agreed(self._read(), step)
        intent = self._intent
        if intent is None or intent.id == known:
            return False
        self._rung = False
        self._context.events.append(
            "pivot_seen", step=step, agreed=intent.step, generation=intent.generation, id=intent.id
        )
        self._context.reporter.set(note=self.note)
        return True

    def due(self, step: int) -> bool:
        """Whether the pivot happens at the end of `step`. Looks again then: it may have been cancelled."""
        if self._intent is None or step < self._intent.step:
            return False
        self.look(step)
        return self._intent is not None and step >= self._intent.step

    def confirm(self, step: int) -> bool:
        """`step` is saved: note in the intent that the engine leaves for it. False when training has to go on."""
        try:
            with guard(self._context.directory, PATIENCE):
                intent = self._read()
                if intent is None or self._intent is None or intent.id != self._intent.id:
                    self._intent = None
                    return False
                if intent.step != step:
                    intent = at_step(self._context.directory, intent, step)
                reached = msgspec.structs.replace(intent, phase="reached", reached=round(time.time(), 3))
                write_intent(self._context.directory, reached)
        except (OSError, RunError) as error:
            self.postpone(step, f"pivot.json cannot be written: {error}")
            return False
        return True

    def postpone(self, step: int, why: str) -> None:
        """What the pivot needs could not be saved at `step`: training goes on, and it is tried at the next boundary."""
        self._not_before = next_boundary(step, self._every, self._target)
        self._context.notice(f"the pivot moves from step {step:,} to step {self._not_before:,}: {why}")
        self.look(step)

    def _read(self) -> PivotIntent | None:
        try:
            return read_intent(self._context.directory)
        except RunError as error:
            if str(error) != self._damage:
                self._damage = str(error)
                self._context.notice(f"no pivot: {error}")
            return None

    def _agreed(self, intent: PivotIntent | None, step: int) -> PivotIntent | None:
        """The intent with the step that is possible, also on disk. That it cannot be written there changes nothing."""
        if intent is None:
            return None
        wanted = max(agreed_step(intent, step, self._every, self._target), self._not_before)
        if intent.step == wanted and intent.phase == "asked":
            return intent
        moved = msgspec.structs.replace(at_step(self._context.directory, intent, wanted), phase="asked", reached=None)
        try:
            with guard(self._context.directory, PATIENCE):
                again = self._read()
                if again is None or again.id != intent.id:
                    return again
                write_intent(self._context.directory, moved)
        except (OSError, RunError):
            pass
        return moved
