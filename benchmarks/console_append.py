"""Processor time of one appended point, through the console's own reader, store and loss panel."""

from __future__ import annotations

import time

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.io import append_line
from andrea_engine.run.loss_entry import LossEntry
from andrea_tui.feed.store import Store
from andrea_tui.feed.tailer import DirectoryReader
from andrea_tui.plotting.raster import Kind
from andrea_tui.widgets.loss_panel import LossPanel
from benchmarks.console_record import make_run
from benchmarks.measure import Case, Summary, interleave, summarise
from benchmarks.report import Scale

WIDTH, HEIGHT = 84, 18  # of the panel on a screen of 120 x 40
POINTS = 25  # a sample


class Panel(LossPanel):
    """The panel, drawn without a screen."""

    kind: Kind = "braille"  # type: ignore[assignment]


class Reading:
    """A console's feed and store on a record of `steps` steps, read to its end and drawn."""

    def __init__(self, directory: RunDirectory, steps: int) -> None:
        self.directory = directory
        self.step = steps
        self.reader, self.store, self.panel = DirectoryReader(directory), Store(), Panel()
        while not self.store.complete:
            self.store.apply(self.reader.poll())
        self.draw()
        while self.panel.unfinished:
            self.draw()

    def draw(self) -> None:
        self.panel.store = self.store
        self.panel.lay_out(self.store, WIDTH, HEIGHT)

    def append(self) -> float:
        """One more point on the screen; the processor seconds of everything but the writing."""
        self.step += 1
        fields = {
            "ema": 3.2,
            "source": "chat",
            "lr": 3e-4,
            "grad_norm": 0.84,
            "seconds": 9.8,
            "policy": 0,
            "session": 1,
        }
        entry = LossEntry(step=self.step, loss=3.1 + self.step % 10 / 50, **fields)  # type: ignore[arg-type]
        append_line(self.directory.journal, entry.to_line())
        began = time.process_time()
        self.store.apply(self.reader.poll())
        self.draw()
        used = time.process_time() - began
        if self.store.step != self.step:
            raise RuntimeError(f"step {self.step:,} was written and step {self.store.step:,} is shown")
        return used


def append_ratio(
    scale: Scale, directory: RunDirectory, steps: int, details: dict[str, object]
) -> tuple[Summary, Summary]:
    """Of the long record in `directory`, and of a short one."""
    short = steps // 100
    readings = {
        "long": Reading(directory, steps),
        "short": Reading(make_run(scale.scratch / "short", short, planned=steps * 2), short),
    }
    repeats = 3 if scale.quick else POINTS
    cases = {name: Case(reading.append, repeats=repeats) for name, reading in readings.items()}
    taken = {name: summarise(samples) for name, samples in interleave(cases, *scale.rounds(7, 15)).items()}
    details["append"] = {name: summary.facts() for name, summary in taken.items()}
    directory.journal.unlink()
    return taken["long"], taken["short"]
