"""The console in a real terminal of 120 x 40: how soon it shows a long record, what it weighs, and what it costs.

*First paint*: from the spawn until the first printable cell is on the screen. *Whole curve*: until the loss panel no
longer says that it reads, the status line stands at the record's last step, and the one spike of the record is named
with its value and step. Memory is that of the process tree, resident, when the whole curve has stood for a second.

Records are 200,000 and 2,000,000 steps of a power law with noise, one value of 50 and eleven steps without a finite
loss, in the engine's own format. Live figures are with ten points a second.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from benchmarks.console_append import append_ratio
from benchmarks.console_idle import console_cost
from benchmarks.console_record import SPIKE, make_run, spike_step
from benchmarks.console_supervision import supervision
from benchmarks.measure import QUIET, Case, interleave, summarise, take
from benchmarks.report import Outcome, Scale, Target
from benchmarks.terminal import SIZE, Terminal

TARGETS = {
    "first_paint_vs_textual": Target("<=", 1.4),
    "curve_200k_s": Target("<=", 1.2, "s"),
    "rss_200k_mb": Target("<=", 110.0, "MB"),
    "curve_2m_s": Target("<=", 5.0, "s"),
    "rss_2m_mb": Target("<=", 300.0, "MB"),
    "cpu_append_2m_vs_20k": Target("<=", 1.3),
    "idle_cpu_share": Target("<=", 0.005),
    "idle_tty_bytes": Target("<=", 0.0, "bytes"),
    "live_tty_bytes": Target("<=", 20_000.0, "bytes"),
    "live_cpu_s": Target("<=", 1.0, "s"),
    "append_to_visible_s": Target("<=", 0.5, "s"),
    "supervision_steps_ratio": Target(">=", 0.99),
}
ROOT = Path(__file__).resolve().parent.parent
READING = "reading the record"
LIMIT = 60.0  # seconds for a console to show everything
RATE = 10.0  # points a second
MORE = 100_000  # steps that a live run still has to do
ON_THEIR_WAY = 3.0  # seconds that a point may take to the screen of a busy machine


def measure(scale: Scale) -> Outcome:
    """Everything in `TARGETS`. Problems tell what could not be seen on the screen."""
    outcome = Outcome()
    lengths = (2_000, 5_000) if scale.quick else (200_000, 2_000_000)
    seconds, settle = (0.5, 0.5) if scale.quick else (20.0, 5.0)
    short, long = (make_run(scale.scratch / str(steps), steps, planned=steps + MORE) for steps in lengths)

    def append() -> None:
        outcome.compare("cpu_append_2m_vs_20k", *append_ratio(scale, long, lengths[1], outcome.details))

    def idle() -> None:
        cost = console_cost(short.path, seconds, SIZE, settle)
        outcome.values["idle_cpu_share"] = cost.core_share
        outcome.values["idle_tty_bytes"] = float(cost.tty_bytes)

    def live() -> None:
        _live(short, lengths[0], seconds, settle, outcome)

    def supervised() -> None:
        outcome.values["supervision_steps_ratio"] = supervision(scale, outcome.details)

    _part(outcome, lambda: _first_paint(scale, outcome, short, lengths[0]))
    _part(outcome, lambda: _long_record(scale, outcome, long, lengths[1]))
    _part(outcome, append)
    _part(outcome, idle, "idle_cpu_share")
    _part(outcome, live, "live_cpu_s", "live_tty_bytes", "append_to_visible_s")
    _part(outcome, supervised, "supervision_steps_ratio")
    return outcome


def _part(outcome: Outcome, run: Callable[[], None], *names: str) -> None:
    """Run once; where others were at work meanwhile, these values are doubtful. What fails leaves the rest standing."""
    try:
        if take(Case(run)).foreign > QUIET:
            outcome.disturbed.update(names)
    except (RunError, RuntimeError, OSError) as error:
        outcome.problems.append(f"console: {error}")


# -- start ----------------------------------------------------------------------------------------------------------


class Start:
    """Opens the console on one record again and again, and keeps what was seen: seconds and megabytes.

    It is looked at until it has been at rest for `settle` seconds.
    """

    def __init__(self, directory: RunDirectory, steps: int, settle: float) -> None:
        self._directory = directory
        self._steps = steps
        self._settle = settle
        self.curves: list[float] = []
        self.weights: list[float] = []
        self.progress: list[bool] = []

    def first_paint(self) -> float:
        with Terminal([sys.executable, "-m", "andrea_tui", self._directory.path]) as terminal:
            terminal.wait_for_rest(self._settle, LIMIT)
            self.weights.append(terminal.rss() / 1e6)
            seen = list(terminal.screens())
        whole = next((at for at, text in seen if is_whole(text, self._steps)), None)
        if whole is None:
            raise RunError(f"the whole curve of {self._steps:,} steps was not on the screen")
        self.curves.append(whole)
        self.progress.append(any(READING in text for _, text in seen))
        return next(at for at, text in seen if text.strip())

    def tell(self, outcome: Outcome, name: str, *, disturbed: bool) -> None:
        """Medians, as values of the outcome."""
        outcome.values[f"curve_{name}_s"] = statistics.median(self.curves)
        outcome.values[f"rss_{name}_mb"] = statistics.median(self.weights)
        outcome.details[f"curve_{name}"] = [round(value, 3) for value in self.curves]
        if disturbed:
            outcome.disturbed.add(f"curve_{name}_s")


def _first_paint(scale: Scale, outcome: Outcome, directory: RunDirectory, steps: int) -> None:
    settle = 0.3 if scale.quick else 1.0
    if not scale.quick:  # read both programs into the page cache
        interleave({"ours": Case(Start(directory, steps, settle).first_paint), "textual": Case(_peer)}, 1, 1)
    start = Start(directory, steps, settle)
    cases = {"ours": Case(start.first_paint), "textual": Case(_peer)}
    samples = interleave(cases, *scale.rounds(11, 15))
    outcome.compare_rounds("first_paint_vs_textual", samples["ours"], samples["textual"])
    taken = {name: summarise(found) for name, found in samples.items()}
    outcome.details["first_paint"] = {name: summary.facts() for name, summary in taken.items()}
    start.tell(outcome, "200k", disturbed=taken["ours"].disturbed)


def _peer() -> float:
    with Terminal([sys.executable, "-m", "benchmarks.console_peer"]) as terminal:
        terminal.wait_for_rest(0.3, LIMIT)
        painted = terminal.first(lambda text: bool(text.strip()))
    if painted is None:
        raise RunError("the peer has painted nothing")
    return painted


def _long_record(scale: Scale, outcome: Outcome, directory: RunDirectory, steps: int) -> None:
    start = Start(directory, steps, 0.3 if scale.quick else 1.0)
    summary = summarise(interleave({"ours": Case(start.first_paint)}, *scale.rounds(3, 5))["ours"])
    start.tell(outcome, "2m", disturbed=summary.disturbed)
    if not scale.quick and not all(start.progress):
        outcome.problems.append("console: the long record was read without a word of progress")


def is_whole(text: str, steps: int) -> bool:
    """True when the screen shows the whole record of `make_run`: see above."""
    spike = f"{SPIKE:.1f} at {spike_step(steps):,}"
    return READING not in text and f"step {steps:,} of" in text and spike in text


# -- live -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def writer(directory: RunDirectory, first: int) -> Iterator[Callable[[], list[tuple[int, float]]]]:
    """An engine that only writes, as a process. The value gives step and time (`time.monotonic`) of its entries; ask
    after the end."""
    command = [sys.executable, "-m", "benchmarks.console_record", str(directory.path), str(first), str(RATE)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    lines: list[str] = []
    try:
        yield lambda: [(int(step), float(at)) for step, at in (line.split() for line in lines)]
    finally:
        lines += process.communicate()[0].splitlines()


def _live(directory: RunDirectory, steps: int, seconds: float, settle: float, outcome: Outcome) -> None:
    with writer(directory, steps + 1) as written:
        with Terminal([sys.executable, "-m", "andrea_tui", directory.path]) as terminal:
            terminal.wait_for_output(LIMIT)
            time.sleep(settle)
            begin, cpu, bytes_before = time.monotonic(), terminal.cpu(), terminal.written()
            time.sleep(seconds)
            end = time.monotonic()
            outcome.values["live_cpu_s"] = terminal.cpu() - cpu
            outcome.values["live_tty_bytes"] = float(terminal.written() - bytes_before)
            time.sleep(max(settle, ON_THEIR_WAY))  # the last points
        shown = [(terminal.spawned + at, step_shown(text)) for at, text in terminal.screens()]
    delays = [
        next((at - made for at, step in shown if step >= number and at >= made), None)
        for number, made in written()
        if begin <= made <= end
    ]
    known = [delay for delay in delays if delay is not None]
    if not known or len(known) < len(delays):
        outcome.problems.append(f"console: {len(delays) - len(known)} of {len(delays)} points were never shown")
    outcome.values["append_to_visible_s"] = statistics.median(known) if known else None
    outcome.details["live"] = {"points": len(known), "most_s": round(max(known, default=0.0), 3), "seconds": seconds}


def step_shown(text: str) -> int:
    """The step in the status line; -1 when there is none."""
    words = text.split("\n", 1)[0].replace(",", "").split()
    number = words[words.index("step") + 1] if "step" in words[:-1] else ""
    return int(number) if number.isdigit() else -1
