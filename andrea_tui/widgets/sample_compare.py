"""The newest samples in a list, and below them the last good one beside the first bad one."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from andrea_engine.run.plain import clean
from andrea_engine.run.samples import Sample
from andrea_tui.feed.sample_history import history, next_sample, none_yet
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import energy, human_count
from andrea_tui.widgets.rows import Row, RowsWidget, fit
from andrea_tui.widgets.wrapping import wrapped

LISTED = 5


class Comparison(msgspec.Struct, frozen=True):
    """Two samples worth seeing side by side. Without a bad one: the one before the newest, and the newest."""

    left: Sample | None
    right: Sample | None
    left_title: str
    right_title: str


def compare(samples: tuple[Sample, ...], threshold: float, past: tuple[Sample, ...] = ()) -> Comparison:
    """The last good sample before the newest low streak, and the first one of that streak. `past` samples, of earlier
    policies, only stand in on the left where these ones have none, and on both sides where there are none at all."""
    if past and not samples:
        found = compare(past, threshold)
        return replace(found, right_title="before the pivot") if found.right_title == "newest" else found
    low = [_is_low(sample, threshold) for sample in samples]
    if any(low):
        end = len(low) - 1 - low[::-1].index(True)  # the newest low one
        start = end
        while start > 0 and low[start - 1]:
            start -= 1
        good = samples[start - 1] if start else None
        if good is None:
            good = next((sample for sample in reversed(past) if not _is_low(sample, threshold)), None)
        return Comparison(good, samples[start], "last good", "first bad")
    right = samples[-1] if samples else None
    left = (*past, *samples)[-2:-1]
    return Comparison(left[0] if left else None, right, "before", "newest")


def _is_low(sample: Sample, threshold: float) -> bool:
    return sample.scores is not None and sample.scores.total < threshold


class SampleCompare(RowsWidget):
    """Reads the store; scrolls nothing: what does not fit ends with an ellipsis."""

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        threshold = store.config.gate.threshold if store.config else 30.0
        rows = [*_headline(store), []]
        samples = history(store)
        past = samples[: len(samples) - len(store.samples)]
        listed = [*[(sample, True) for sample in past], *[(sample, False) for sample in store.samples]][-LISTED:]
        rows += [_listed(sample, threshold, width, past=old) for sample, old in listed]
        if not store.samples:
            rows.append([(next_sample(store), "message")])
        rows.append([])
        rows += _side_by_side(compare(store.samples, threshold, past), threshold, width, max(0, height - len(rows)))
        return rows


def _headline(store: Store) -> list[Row]:
    if store.condition.word == "halted":
        rows: list[Row] = [[(" HALTED ", "alarm"), (f" {store.condition.sentence}", "bad")]]
        facts = _halt_facts(store)
        return [*rows, [(facts, "dim")]] if facts else rows
    if not store.samples:
        return [[("samples ", "dim"), (none_yet(store), "")]]
    low = store.gate_low
    cells = store.config.gate.consecutive if store.config else 5
    text = "the newest sample is good" if not low else f"{low} of {cells} low in a row"
    return [[("gate ", "dim"), (text, "bad" if low else "good")]]


def _halt_facts(store: Store) -> str:
    """What the engine wrote about the halt: since when, and what it has cost since."""
    for event in reversed(store.events):
        if event.kind != "halt":
            continue
        parts = []
        good = event.integer("last_good_step")
        if good is not None:
            parts.append(f"last good sample at step {human_count(good)}")
        since = event.integer("steps_since_good")
        if since is not None:
            parts.append(f"{human_count(since)} steps since")
        spent = event.number("energy_wh_since_good")
        if spent is not None:
            parts.append(f"{energy(spent * 3600)} spent since")
        pinned = event.integer("pinned")
        if pinned is not None:
            parts.append(f"checkpoint {human_count(pinned)} is pinned")
        return ", ".join(parts)
    return ""


def _listed(sample: Sample, threshold: float, width: int, *, past: bool) -> Row:
    """One sample a line; those of earlier `past` policies have no dot, for the gate does not count them."""
    text = clean(" ".join(sample.text[:400].split()))
    if sample.scores is None:
        return [(f"{human_count(sample.step, 10)}  not scored  ", "dim"), (text, "")]
    s = sample.scores
    low = _is_low(sample, threshold)
    return [
        ("  " if past else "● " if low else "○ ", "bad" if low else "dim"),
        (f"{human_count(sample.step, 9)}  ", "dim"),
        (f"{s.total:5.1f}", "bad" if low else "good"),
        (f"  B {s.bigram:4.1f} T {s.trigram:4.1f} E {s.english:4.1f} C {s.character:4.1f}  ", "dim"),
        (text, ""),
    ]


def _side_by_side(pair: Comparison, threshold: float, width: int, height: int) -> list[Row]:
    half = max(1, (width - 3) // 2)
    columns = [
        _column(pair.left, pair.left_title, threshold, half, height),
        _column(pair.right, pair.right_title, threshold, half, height),
    ]
    count = max(len(column) for column in columns)
    padded = [column + [[] for _ in range(count - len(column))] for column in columns]
    return [[*fit(left, half), (" │ ", "frame"), *fit(right, half)] for left, right in zip(*padded, strict=True)]


def _column(sample: Sample | None, title: str, threshold: float, width: int, height: int) -> list[Row]:
    if sample is None:
        return [[(title, "title"), ("  none", "dim")]]
    total = "not scored" if sample.scores is None else f"{sample.scores.total:.1f} of 100"
    low = _is_low(sample, threshold)
    head: Row = [
        (f"{title}  ", "title"),
        (total, "bad" if low else "good"),
        (f"  step {human_count(sample.step)}", "dim"),
    ]
    lines = list(wrapped(sample.prompt + sample.text, width, max(1, height - 1)))
    return [head, *([(line, "")] for line in lines)]
