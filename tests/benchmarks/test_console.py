"""What the console is measured with: records, the engine that only writes, and the terminal."""

from __future__ import annotations

import math
import sys
from itertools import accumulate
from pathlib import Path

import pytest

from andrea_engine.run.condition import condition
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.summary import summarise
from benchmarks import console, console_record
from benchmarks.console_append import Reading
from benchmarks.console_record import SPIKE, losses, make_run, nonfinite_steps, spike_step
from benchmarks.console_supervision import AFTER, BEFORE, Timed, frames_of, lost_share, timed
from benchmarks.terminal import Terminal


def test_the_spike_and_the_gap_are_where_the_peers_were_measured() -> None:
    assert [spike_step(n) for n in (200_000, 2_000_000)] == [123_456, 123_456]
    assert [nonfinite_steps(n) for n in (200_000, 2_000_000)] == [range(150_000, 150_011)] * 2
    values = list(losses(2_000))
    assert [step for step, value in enumerate(values, 1) if value == SPIKE] == [1_200]
    assert [step for step, value in enumerate(values, 1) if value is None] == list(range(1_500, 1_511))
    rest = [value for value in values if value is not None and value != SPIKE]
    assert max(rest) < 10.0
    assert sum(rest[:100]) > sum(rest[-100:]), "a power law falls"


@pytest.mark.parametrize("steps", [1, 40, console_record.CHUNK, console_record.CHUNK + 1])
def test_a_generated_record_is_one_of_the_engine(steps: int, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", steps, planned=steps + 10)
    reader = LossReader(directory.loss)
    entries = reader.read_all()
    assert [entry.step for entry in entries] == list(range(1, steps + 1))
    assert reader.damage.lines == 0
    assert [entry.loss for entry in entries] == pytest.approx(list(losses(steps)))
    last = entries[-1]
    assert all(getattr(last, name) is not None for name in ("ema", "lr", "grad_norm", "seconds", "power_w", "energy_j"))
    summary = summarise(directory)
    assert (summary.state, summary.step, summary.total_steps, summary.problems) == ("finished", steps, steps + 10, [])


def test_the_writer_is_an_engine_until_its_input_ends(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", 20, planned=100)
    with console.writer(directory, 21) as written:
        reader = LossReader(directory.journal)
        while reader.entries_read < 3:
            reader.read()
        found = condition(directory)
        assert (found.word, found.alive) == ("training", True)
    assert not condition(directory).alive
    steps = [step for step, _ in written()]
    assert steps == list(range(21, 21 + len(steps)))
    assert [entry.step for entry in LossReader(directory.journal).read_all()] == steps
    times = [at for _, at in written()]
    assert times == sorted(times)


def test_an_appended_point_is_read_and_drawn(tmp_path: Path) -> None:
    reading = Reading(make_run(tmp_path / "run", 300, planned=1000), 300)
    assert reading.append() > 0
    assert reading.append() > 0
    assert reading.store.step == 302
    assert reading.panel.picture is not None
    assert len(reading.panel.picture.main.raw) == 302


WHOLE = "ANDREA  200000  finished  step 200,000 of 300,000\n1 loss  EMA 3.4\n 50.0 at 123,456"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (WHOLE, True),
        (WHOLE.replace("EMA 3.4", "reading the record, 99 %"), False),
        (WHOLE.replace("step 200,000", "step 199,999"), False),
        (WHOLE.replace("123,456", "123,000"), False),
        ("", False),
    ],
)
def test_when_a_curve_is_whole(text: str, whole: bool) -> None:
    assert console.is_whole(text, 200_000) is whole


@pytest.mark.parametrize(
    ("line", "step"),
    [("ANDREA run  ● training  step 1,234 of 5,000", 1234), ("ANDREA run", -1), ("step", -1), ("step x of", -1)],
)
def test_the_step_in_the_status_line(line: str, step: int) -> None:
    assert console.step_shown(f"{line}\nstep 9") == step


def even_steps(count: int, seconds: float, slow: dict[int, float]) -> list[Timed]:
    """Steps of the same duration from 0 on, but for those that take `slow` seconds longer, by index."""
    took = [seconds + slow.get(index, 0.0) for index in range(count)]
    return [Timed(end, duration) for end, duration in zip(accumulate(took), took, strict=True)]


def test_pieces_that_belong_to_one_frame() -> None:
    frames = frames_of([10.0, 10.02, 15.0])
    assert frames == [(10.0 - BEFORE, 10.02 + AFTER), (15.0 - BEFORE, 15.0 + AFTER)]


def test_what_a_frame_takes_from_the_steps() -> None:
    steps = even_steps(1000, 0.1, {200: 0.03, 201: 0.01, 700: 0.04})
    frames = frames_of([steps[201].end, steps[700].end])
    assert lost_share(steps, frames) == pytest.approx(0.08 / (1000 * 0.1 + 0.08))


def test_what_comes_where_no_frame_is_made_is_the_machine_and_not_the_console() -> None:
    steps = even_steps(1000, 0.1, dict.fromkeys(range(300, 400), 0.05))  # far from both frames
    assert lost_share(steps, frames_of([10.0, 80.0])) == pytest.approx(0.0, abs=1e-12)


def test_a_machine_that_drifts_is_not_the_console() -> None:
    steps = even_steps(1000, 0.1, {index: 1e-5 * index for index in range(1000)})
    assert lost_share(steps, frames_of([20.0, 40.0, 60.0])) == pytest.approx(0.0, abs=1e-4)


def test_a_console_that_never_draws_takes_nothing() -> None:
    assert lost_share(even_steps(10, 0.1, {}), []) == 0.0


def test_steps_are_placed_between_what_is_known_of_their_ends() -> None:
    took = {4: 1.0, 5: 1.0, 6: 3.0, 7: 9.0}
    steps = timed(took, [(3, 100.0), (5, 102.5), (6, 105.5)])
    assert [(step.end, step.seconds) for step in steps] == [(101.25, 1.0), (102.5, 1.0), (105.5, 3.0)]


def test_what_was_on_the_terminal_and_when() -> None:
    program = "import sys; sum(range(10**7))\nfor word in 'one', 'two':\n print(word, flush=True); sys.stdin.readline()"
    with Terminal([sys.executable, "-c", program]) as terminal:
        terminal.wait_for_output(20.0)
        assert terminal.rss() > 1_000_000
        assert terminal.cpu() > 0
    assert terminal.process.returncode != 0, "it was told to end"
    assert terminal.written() == len("one\r\n")
    at = terminal.first(lambda text: "one" in text)
    assert at is not None
    assert 0 < at < math.inf
    assert terminal.first(lambda text: "two" in text) is None


def test_a_program_that_ends_by_itself_is_no_figure() -> None:
    with Terminal([sys.executable, "-c", ""]) as terminal, pytest.raises(RuntimeError, match="ended with exit code 0"):
        terminal.wait_for_output(20.0)
