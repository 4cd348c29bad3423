"""Which samples were on the screen at a moment of a replay, those in the archives among them."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

import msgspec

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import Event
from andrea_engine.run.samples import KEPT, Sample, read_samples
from andrea_tui.feed.past_samples import MOST_ARCHIVES, in_order
from andrea_tui.feed.timeline import Timeline

_REMOVING = ("pivot", "rollback")  # a pivot begins with no samples, a rollback leaves those up to its step


class Shown(msgspec.Struct, frozen=True):
    """A sample, and from when to when it could be seen (seconds of the replay; `until` None: to the end). `past`: it
    was a pivot that ended this, and it is still one of the run's samples."""

    sample: Sample
    since: float
    until: float | None
    past: bool = False


def stored_samples(directory: RunDirectory) -> tuple[list[Sample], list[str]]:
    """All samples that are kept, archived or not, and what could not be read."""
    found: list[Sample] = []
    problems: list[str] = []
    for path in (*_archived(directory), directory.sample_record()):
        try:
            found += read_samples(path)
        except RunError as error:
            problems.append(str(error))
    return found, problems


def _archived(directory: RunDirectory) -> list[Path]:
    try:
        with os.scandir(directory.archive) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    return [directory.archive / name / directory.samples.name for name in names[:MOST_ARCHIVES]]


def show(
    samples: Sequence[Sample], timeline: Timeline, events: Sequence[Event], moments: Sequence[float]
) -> list[Shown]:
    """When each sample was seen, in the order of appearance: with its event, or where there is none with its step."""
    made = {event.step: index for index, event in enumerate(events) if event.kind == "sample"}
    spans = timeline.spans()
    shown: list[Shown] = []
    for sample in samples:
        index = made.get(sample.step)
        if index is not None:
            since = moments[index]
        else:
            known = (timeline.moment_in(span, sample.step) for span in reversed(spans))
            since = next((moment for moment in known if moment is not None), timeline.end)
            index = bisect_right(moments, since) - 1
        later = zip(events[index + 1 :], moments[index + 1 :], strict=True)
        until, kind = next(((moment, event.kind) for event, moment in later if _removes(event, sample)), (None, ""))
        shown.append(Shown(sample, since, until, past=kind == "pivot"))
    return sorted(shown, key=lambda one: (one.since, one.sample.step))


def _removes(event: Event, sample: Sample) -> bool:
    if event.kind not in _REMOVING:
        return False
    return event.kind == "pivot" or (event.step is not None and sample.step > event.step)


def visible_at(shown: Sequence[Shown], moment: float) -> tuple[Sample, ...]:
    """The samples of a moment, oldest first."""
    return tuple(one.sample for one in shown if one.since <= moment and (one.until is None or moment < one.until))


def past_at(shown: Sequence[Shown], moment: float) -> tuple[Sample, ...]:
    """The samples of earlier policies at a moment, in order of step."""
    past = (one for one in shown if one.past and one.until is not None and one.until <= moment)
    return in_order(one.sample for one in past)[-KEPT:]
