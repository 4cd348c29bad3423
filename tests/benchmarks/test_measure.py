"""The arithmetic of the stopwatch, with clocks that are told what to say."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import measure
from benchmarks.measure import (
    NEEDED,
    QUIET,
    Case,
    Sample,
    differences,
    interleave,
    ratios,
    repeats_for,
    summarise,
    take,
)


@dataclass
class Clocks:
    """Wall clock, CPU of the whole machine, CPU of this process; all in seconds."""

    wall: float = 100.0
    busy: float = 500.0
    own: float = 50.0

    def work(self, wall: float, own: float = 0.0, foreign: float = 0.0) -> None:
        self.wall += wall
        self.own += own
        self.busy += own + foreign


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    told = Clocks()
    monkeypatch.setattr(time, "perf_counter", lambda: told.wall)
    monkeypatch.setattr(measure, "_busy_cpu", lambda: told.busy)
    monkeypatch.setattr(measure, "_own_cpu", lambda: told.own)
    return told


def test_a_sample_is_the_time_of_one_repeat_and_the_cpu_that_others_used(clocks: Clocks) -> None:
    sample = take(Case(lambda: clocks.work(2.0, own=3.0, foreign=1.0), repeats=4))
    assert sample == Sample(seconds=2.0, foreign=0.5)  # 4 s of foreign CPU in 8 s


def test_preparing_is_not_timed_but_belongs_to_what_others_may_disturb(clocks: Clocks) -> None:
    case = Case(lambda: clocks.work(1.0, own=1.0), lambda: clocks.work(3.0, own=1.0, foreign=2.0), repeats=2)
    assert take(case) == Sample(seconds=1.0, foreign=0.5)  # 4 s of foreign CPU in 8 s


def test_a_case_may_report_its_own_seconds(clocks: Clocks) -> None:
    def run() -> float:
        clocks.work(5.0, own=5.0)
        return 0.25

    assert take(Case(run, repeats=2)) == Sample(seconds=0.25, foreign=0.0)


def test_clocks_of_unequal_resolution_never_give_less_than_no_foreign_cpu(clocks: Clocks) -> None:
    def run() -> None:
        clocks.work(1.0, own=1.0, foreign=-0.5)

    assert take(Case(run)).foreign == 0.0


def test_only_quiet_samples_count_when_there_are_enough() -> None:
    quiet = [Sample(1.0, 0.0), Sample(3.0, QUIET), Sample(2.0, 0.05)]
    summary = summarise([Sample(90.0, 1.5), *quiet, Sample(80.0, QUIET + 0.01)])
    assert (summary.median, summary.least, summary.most) == (2.0, 1.0, 3.0)
    assert (summary.samples, summary.quiet, summary.disturbed) == (5, 3, False)
    assert summary.foreign == QUIET  # the median over all: 0, 0.05, 0.12, 0.13, 1.5


def test_the_quietest_stand_in_when_too_few_are_quiet_and_it_is_said() -> None:
    summary = summarise([Sample(5.0, 0.9), Sample(1.0, 0.0), Sample(4.0, 0.8), Sample(3.0, 0.7)])
    assert summary.median == 3.0  # of 1, 3 and 4
    assert summary.quiet == 1
    assert summary.disturbed
    assert summary.facts()["median_ms"] == 3000.0


def test_a_summary_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        summarise([])


_SAMPLES = st.lists(st.builds(Sample, seconds=st.floats(1e-6, 1e3), foreign=st.floats(0, 2)), min_size=1, max_size=20)


@settings(deadline=None)
@given(_SAMPLES, st.floats(0, 2))
def test_the_median_is_over_exactly_the_quiet_ones_or_a_fixed_number(samples: list[Sample], limit: float) -> None:
    summary = summarise(samples, limit)
    quiet = [sample.seconds for sample in samples if sample.foreign <= limit]
    assert summary.quiet == len(quiet)
    assert summary.least <= summary.median <= summary.most
    if len(quiet) >= NEEDED:
        assert summary.median == statistics.median(quiet)
        assert not summary.disturbed
    else:
        assert summary.disturbed
        assert min(s.seconds for s in samples) <= summary.median <= max(s.seconds for s in samples)


def test_differences_are_taken_round_by_round() -> None:
    with_save = [Sample(5.0, 0.1), Sample(7.0, 0.3)]
    without = [Sample(4.0, 0.2), Sample(5.5, 0.0)]
    assert differences(with_save, without) == [Sample(1.0, 0.2), Sample(1.5, 0.3)]


def test_ratios_are_taken_round_by_round() -> None:
    peer, ours = [Sample(3.0, 0.0), Sample(2.0, 0.3)], [Sample(2.0, 0.1), Sample(2.0, 0.0)]
    assert ratios(peer, ours) == [Sample(1.5, 0.1), Sample(1.0, 0.3)]


def test_rounds_alternate_their_order(clocks: Clocks) -> None:
    order: list[str] = []
    cases = {name: Case(lambda: clocks.work(1.0), partial(order.append, name)) for name in "abc"}
    taken = interleave(cases, least=3, most=9)
    assert "".join(order) == "abccbaabc"
    assert {name: len(samples) for name, samples in taken.items()} == {"a": 3, "b": 3, "c": 3}


def test_more_rounds_are_made_until_every_case_has_enough_quiet_samples(clocks: Clocks) -> None:
    disturbed = iter([1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    cases = {
        "quiet": Case(lambda: clocks.work(1.0)),
        "noisy": Case(lambda: clocks.work(1.0, foreign=next(disturbed))),
    }
    assert len(interleave(cases, least=2, most=9)["quiet"]) == 6


def test_a_machine_that_is_never_quiet_ends_at_the_most(clocks: Clocks) -> None:
    cases = {"noisy": Case(lambda: clocks.work(1.0, foreign=1.0))}
    assert len(interleave(cases, least=1, most=4)["noisy"]) == 4


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, 1), (0.5, 2), (0.9, 4), (0.2, 1)])
def test_repeats_fill_the_time_of_a_sample_after_two_calls_to_warm_up(
    clocks: Clocks, seconds: float, expected: int
) -> None:
    durations = iter([9.0, 5.0, 0.25])
    assert repeats_for(lambda: clocks.work(next(durations)), seconds) == expected


def test_the_clocks_of_this_machine_move_forward() -> None:
    sample = take(Case(lambda: sum(range(200_000)) and None))
    assert sample.seconds > 0
    assert sample.foreign >= 0
