"""Does it write sense? The newest sample, its four scores, and the cells of the gate."""

from __future__ import annotations

from bisect import bisect_right

from andrea_engine.run.samples import Sample
from andrea_tui.feed.sample_history import history, next_sample, none_yet, walkable
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import human_count, points
from andrea_tui.plotting.strips import bar
from andrea_tui.view import ViewState
from andrea_tui.widgets.panel import Panel
from andrea_tui.widgets.rows import Row
from andrea_tui.widgets.wrapping import filled, message

AXES = (
    ("bigram", "bigram", 35),
    ("trigram", "trigram", 35),
    ("English", "english", 20),
    ("characters", "character", 10),
)
LOW_AXIS = 0.4
NARROW = 44  # cells of a title


class SamplePanel(Panel):
    """`back` samples before the newest one are skipped, so that the history can be walked, also behind a pivot: right
    after it there is no newest one, and the way back begins at what is awaited. With a time cursor it is the newest
    sample at or before it, and walking moves the cursor."""

    NUMBER = "3"

    def __init__(self, view: ViewState | None = None) -> None:
        super().__init__(id="sample")
        self.view = view if view is not None else ViewState()
        self.back = 0

    def walk(self, steps: int) -> None:
        """Go `steps` samples back in time (negative: forth)."""
        if self.store is None:
            return
        samples = history(self.store)
        if self.view.cursor is not None:
            index = max(0, min(self._index(self.store, samples) - steps, len(samples) - 1))
            self.view.cursor = samples[index].step if samples else self.view.cursor
            return
        self.back = max(0, min(self.back + steps, _newest(self.store, samples)))

    def _sample(self, store: Store) -> Sample | None:
        samples = history(store)
        index = self._index(store, samples)
        return samples[index] if 0 <= index < len(samples) else None

    def _index(self, store: Store, samples: tuple[Sample, ...]) -> int:
        """Which of the samples is shown; one that is not there for none."""
        if self.view.cursor is None:
            return max(0, _newest(store, samples) - self.back)
        return bisect_right(samples, self.view.cursor, key=lambda sample: sample.step) - 1

    def title(self, store: Store, room: int) -> Row:
        sample = self._sample(store)
        if sample is None:
            return [("sample", "title")]
        roomy = room >= NARROW
        row: Row = [("sample  " if roomy else "sample ", "title")]
        if sample.scores is None:
            row.append(("not scored", "dim"))
        else:
            row += [(points(sample.scores.total), _health(store, sample)), (" of 100" if roomy else "", "dim")]
        row.append((f"  step {human_count(sample.step)}" if roomy else f" at {human_count(sample.step)}", "dim"))
        if self.view.cursor is not None:
            row.append((", at the cursor" if roomy else " cursor", "cursor-text"))
        elif self.back:
            words = f", {self.back} before the newest" if sample in store.samples else ", before the pivot"
            row.append((words if roomy else f" (-{self.back})", "warn"))
        return [*row, *_gate(store, roomy)]

    def footer(self, store: Store) -> Row:
        return [(" [ older  newer ] ", "faint")] if walkable(store) else []

    def content(self, store: Store, width: int, height: int) -> list[Row]:
        sample = self._sample(store)
        if sample is None and self.view.cursor is not None and history(store):
            return message(f"no sample is kept from step {human_count(self.view.cursor)} or before", width, height)
        if sample is None:
            return message(_awaited(store) if store.condition.word != "missing" else "", width, height)
        scores = _bars(sample, width, self.kind == "ascii") if height >= 8 else _numbers(sample, width)
        room = max(0, height - len(scores))
        rows: list[Row] = [[(line, "")] for line in filled(sample.prompt + sample.text, width, room)]
        rows += [[] for _ in range(room - len(rows))]
        return [*rows, *scores]


def _newest(store: Store, samples: tuple[Sample, ...]) -> int:
    """Index of the present policy's newest sample; while it has none, of the one that is awaited."""
    return len(samples) - 1 if store.samples else len(samples)


def _awaited(store: Store) -> str:
    missing = none_yet(store)
    return next_sample(store) if missing == "none yet" else f"{next_sample(store)}; {missing}"


def _health(store: Store, sample: Sample) -> str:
    threshold = store.config.gate.threshold if store.config else 30.0
    return "bad" if sample.scores is not None and sample.scores.total < threshold else "accent-bold"


def _gate(store: Store, roomy: bool) -> Row:
    """`gate ○○○○○`: one cell for each sample in a row below the threshold, with a word once there is one."""
    low = store.gate_low
    if low is None:
        return []
    cells = store.config.gate.consecutive if store.config else 5
    filled = min(low, cells)
    row: Row = [("  gate ", "dim"), ("●" * filled, "bad"), ("○" * (cells - filled), "dim")]
    if low and roomy:
        row.append((f" {low} low in a row", "bad"))
    return row


def _bars(sample: Sample, width: int, ascii_only: bool) -> list[Row]:
    rows: list[Row] = []
    room = max(4, min(40, width - 28))
    for label, name, maximum in AXES:
        value = getattr(sample.scores, name) if sample.scores else None
        low = value is not None and value < LOW_AXIS * maximum
        rows.append(
            [
                (f"{label:<11} ", "dim"),
                (bar(value, maximum, room, "ascii" if ascii_only else "braille"), "bar-low" if low else "bar"),
                (f" {value:5.1f}" if value is not None else "     –", ""),
                (f" of {maximum}", "dim"),
                (" low" if low else "", "warn"),
            ]
        )
    return rows


def _numbers(sample: Sample, width: int) -> list[Row]:
    """The axes in one line; without their maxima where those have no room."""
    if sample.scores is None:
        return [[("not scored", "dim")]]
    told = [(label[0].upper(), points(getattr(sample.scores, name)), maximum) for label, name, maximum in AXES]
    full = " ".join(f"{letter} {score}/{maximum}" for letter, score, maximum in told)
    brief = " ".join(f"{letter} {score}" for letter, score, _ in told)
    return [[(full if len(full) <= width else brief, "")]]
