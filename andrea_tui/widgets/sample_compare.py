"""The newest samples in a list, and below them the last good one beside the first bad one."""

from __future__ import annotations

import msgspec

from andrea_engine.run.plain import clean
from andrea_engine.run.samples import Sample
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


def compare(samples: tuple[Sample, ...], threshold: float) -> Comparison:
    """The last good sample before the newest low streak, and the first one of that streak."""
    low = [sample.scores is not None and sample.scores.total < threshold for sample in samples]
    if any(low):
        end = len(low) - 1 - low[::-1].index(True)  # the newest low one
        start = end
        while start > 0 and low[start - 1]:
            start -= 1
        good = samples[start - 1] if start else None
        return Comparison(good, samples[start], "last good", "first bad")
    right = samples[-1] if samples else None
    return Comparison(samples[-2] if len(samples) > 1 else None, right, "before", "newest")


class SampleCompare(RowsWidget):
    """Reads the store; scrolls nothing: what does not fit ends with an ellipsis."""

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        threshold = store.config.gate.threshold if store.config else 30.0
        rows = [*_headline(store), []]
        listed = store.samples[-LISTED:]
        rows += [_listed(sample, threshold, width) for sample in listed] or [[("no samples yet", "message")]]
        rows.append([])
        rows += _side_by_side(compare(store.samples, threshold), threshold, width, max(0, height - len(rows)))
        return rows


def _headline(store: Store) -> list[Row]:
    if store.condition.word == "halted":
        rows: list[Row] = [[(" HALTED ", "alarm"), (f" {store.condition.sentence}", "bad")]]
        facts = _halt_facts(store)
        return [*rows, [(facts, "dim")]] if facts else rows
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


def _listed(sample: Sample, threshold: float, width: int) -> Row:
    text = clean(" ".join(sample.text[:400].split()))
    if sample.scores is None:
        return [(f"{human_count(sample.step, 10)}  not scored  ", "dim"), (text, "")]
    s = sample.scores
    low = s.total < threshold
    return [
        ("● " if low else "○ ", "bad" if low else "dim"),
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
    low = sample.scores is not None and sample.scores.total < threshold
    head: Row = [
        (f"{title}  ", "title"),
        (total, "bad" if low else "good"),
        (f"  step {human_count(sample.step)}", "dim"),
    ]
    lines = list(wrapped(sample.prompt + sample.text, width, max(1, height - 1)))
    return [head, *([(line, "")] for line in lines)]
