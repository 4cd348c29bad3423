"""All samples that lead to the present weights, those of earlier policies among them, and when the next one comes."""

from __future__ import annotations

from bisect import bisect_left

from andrea_engine.run.samples import Sample
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import human_count

USUALLY_EVERY = 100  # steps, of a run that has no run.toml


def history(store: Store) -> tuple[Sample, ...]:
    """In order of step; the present policy's are its end. Older ones of steps that the run has gone back behind are
    left out: they are in the archive of a pivot that came after that step."""
    past = store.past_samples
    if not past:
        return store.samples
    end = store.samples[0].step if store.samples else past[-1].step + 1
    if store.last is not None:
        end = min(end, store.step + 1)
    return past[: bisect_left(past, end, key=_step)] + store.samples


def _step(sample: Sample) -> int:
    return sample.step


def walkable(store: Store) -> bool:
    """Whether there is a sample to see besides the one on the screen, or before the one that is awaited."""
    return len(history(store)) > (1 if store.samples else 0)


def none_yet(store: Store) -> str:
    """What stands where the newest sample would, when there is none of the present policy."""
    pivot = next((event for event in reversed(store.events) if event.kind == "pivot"), None)
    if pivot is not None and pivot.step is not None:
        return f"none since the pivot at step {human_count(pivot.step)}"
    return "none since the last pivot" if history(store) else "none yet"


def next_sample(store: Store) -> str:
    """When the next sample comes, as a clause."""
    every = max(1, store.config.sample.every if store.config else USUALLY_EVERY)
    step, total = store.step, store.total_steps
    due = -(-step // every) * every
    if due == 0 or (due == step and _was_made(store, step)):
        due += every
    first = not history(store) and not len(store.score)
    if total is not None and due > total:
        return f"no {'' if first else 'further '}sample comes: the run ends at step {human_count(total)}"
    when = "" if store.condition.alive else ", when the engine runs"
    return f"the {'first' if first else 'next'} sample comes at step {human_count(due)}{when}"


def _was_made(store: Store, step: int) -> bool:
    """A sample is made after its step: at that step it may be under way."""
    at = store.score.index_before(step)
    made = history(store)
    return (at is not None and store.score.xs[at] == step) or bool(made and made[-1].step >= step)
