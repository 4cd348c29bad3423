from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.coherence.gate import Alarm, AlarmKind, Gate, GateConfig, GateStatus, Observed, evaluate
from andrea_engine.coherence.metrics import AXES, Scores
from andrea_engine.run.errors import ConfigError, ExitCode

GOOD = Scores(35, 35, 20, 10)
LOW = Scores(0.2, 0.2, 20, 3)
FOREIGN = Scores(34, 35, 0, 10)  # passes as a whole, fails English
EMPTY = GateStatus(0, 0, 0, None, None, (), (), None)

History = list[Observed]


def at(*scores: Scores, ema: float | None = None) -> History:
    """A sample every 100 steps."""
    return [Observed(100 * number, value, ema) for number, value in enumerate(scores, start=1)]


def falling(*totals: float, by: float = 0.1) -> History:
    """Samples of these totals whose EMA falls from 5 nats on, by `by` from one to the next."""
    return [
        Observed(100 * number, Scores(*(axis.maximum * total / 100 for axis in AXES)), 5 - by * number)
        for number, total in enumerate(totals, start=1)
    ]


def naive(history: History, config: GateConfig) -> GateStatus:
    """The specification, recomputed from the whole history at every sample."""

    def low(scores: Scores) -> bool:
        return scores.total < config.threshold

    def streak(upto: int, condition: Any) -> int:
        count = 0
        while count < upto and condition(history[upto - 1 - count].scores):
            count += 1
        return count

    def lows(upto: int) -> int:
        return sum(low(sample.scores) for sample in history[max(0, upto - config.window) : upto])

    def collapse(upto: int) -> bool:
        return streak(upto, low) >= config.consecutive

    def window(upto: int) -> bool:
        return upto >= config.window and lows(upto) / config.window > config.window_share

    def axis(upto: int, name: str, maximum: float) -> bool:
        def weak(scores: Scores) -> bool:
            return not low(scores) and getattr(scores, name) < config.axis_share * maximum

        return streak(upto, weak) >= config.axis_consecutive

    def divergence(upto: int) -> bool:
        count = config.divergence_samples
        span = history[upto - 2 * count : upto] if upto >= 2 * count else []
        if not span or any(sample.ema is None for sample in span):
            return False
        old, new = span[:count], span[count:]
        drop = sum(s.scores.total for s in old) / count - sum(s.scores.total for s in new) / count
        return drop >= config.divergence_drop - 1e-7 and sum(s.ema or 0 for s in new) < sum(s.ema or 0 for s in old)

    total = len(history)
    raised: list[tuple[AlarmKind, str | None]] = []
    if total:
        raised += [("collapse", None)] if collapse(total) and not collapse(total - 1) else []
        raised += [("window", None)] if window(total) and not window(total - 1) else []
        raised += [("axis", n) for n, m in AXES if axis(total, n, m) and not axis(total - 1, n, m)]
        raised += [("divergence", None)] if divergence(total) and not divergence(total - 1) else []
    active: dict[AlarmKind, bool] = {
        "collapse": collapse(total),
        "window": window(total),
        "axis": any(axis(total, n, m) for n, m in AXES),
        "divergence": divergence(total),
    }
    halts = config.halt and (collapse(total) or (config.halt_on_window and window(total)))
    current = streak(total, low)
    status = evaluate(history, config)
    return GateStatus(
        consecutive_low=current,
        low_in_window=lows(total),
        window_filled=min(total, config.window),
        last_good_step=next((sample.step for sample in reversed(history) if not low(sample.scores)), None),
        first_bad_step=history[total - current].step if current else None,
        alarms=tuple(
            Alarm(kind, history[-1].step, alarm.message, name)
            for (kind, name), alarm in zip(raised, status.alarms, strict=True)
        ),
        active=tuple(kind for kind, holds in active.items() if holds),
        halt_reason=status.halt_reason if halts else None,
    )


scores_strategy = st.one_of(
    st.sampled_from([GOOD, LOW, LOW, FOREIGN]),
    st.builds(Scores, *(st.integers(0, axis.maximum).map(float) for axis in AXES)),
)
ema_strategy = st.one_of(st.none(), *[st.floats(0, 9)] * 4)
history_strategy = st.lists(st.tuples(scores_strategy, ema_strategy), max_size=30).map(
    lambda values: [Observed(100 * number, scores, ema) for number, (scores, ema) in enumerate(values, start=1)]
)
config_strategy = st.builds(
    GateConfig,
    threshold=st.sampled_from([0.0, 30.0, 60.0, 100.0]),
    consecutive=st.integers(1, 6),
    window=st.integers(1, 20),
    window_share=st.sampled_from([0.0, 0.5, 0.6, 1.0]),
    axis_share=st.sampled_from([0.0, 0.4, 1.0]),
    axis_consecutive=st.integers(1, 6),
    divergence_samples=st.integers(1, 6),
    divergence_drop=st.sampled_from([0.0, 15.0, 50.0]),
    halt=st.booleans(),
    halt_on_window=st.booleans(),
)


@settings(deadline=None)
@given(history_strategy, config_strategy)
def test_fold_equals_the_specification(history: History, config: GateConfig) -> None:
    assert evaluate(history, config) == naive(history, config)


@settings(deadline=None)
@given(history_strategy, config_strategy, st.integers(0, 30))
def test_incremental_gate_equals_the_fold_after_every_sample_and_any_restart(
    history: History, config: GateConfig, restart: int
) -> None:
    gate = Gate(config, history[:restart])
    assert gate.status == evaluate(history[:restart], config)
    for number, sample in enumerate(history[restart:], start=restart + 1):
        assert gate.observe(*sample) == gate.status == evaluate(history[:number], config)


@settings(deadline=None)
@given(history_strategy, config_strategy)
def test_one_good_sample_resets_the_counter(history: History, config: GateConfig) -> None:
    step = 100 * (len(history) + 1)
    status = evaluate([*history, Observed(step, GOOD)], config)
    assert status.consecutive_low == 0
    assert status.first_bad_step is None
    assert status.last_good_step == step


def test_no_samples() -> None:
    assert evaluate([]) == Gate().status == EMPTY
    assert not EMPTY.should_halt


def test_halts_at_the_fifth_low_sample_in_a_row() -> None:
    history = at(GOOD, LOW, LOW, LOW, LOW, LOW)
    assert not evaluate(history[:-1]).should_halt
    status = evaluate(history)
    assert status.should_halt
    assert status.halt_reason == "5 samples in a row below 30"
    assert status.active == ("collapse",)
    assert (status.consecutive_low, status.last_good_step, status.first_bad_step) == (5, 100, 200)
    assert [alarm.kind for alarm in status.alarms] == ["collapse"]
    assert status.alarms[0].message == (
        "5 samples in a row below 30 since step 200; the last good sample was at step 100"
    )


def test_a_run_that_never_wrote_a_good_sample_says_so() -> None:
    status = evaluate(at(*[LOW] * 5))
    assert status.last_good_step is None
    assert status.alarms[0].message.endswith("no sample passed yet")


def test_four_low_and_one_good_never_halts() -> None:
    assert not any(evaluate(at(*([LOW] * 4 + [GOOD]) * 3)[:number]).should_halt for number in range(16))


def test_exactly_the_threshold_passes() -> None:
    assert evaluate(at(Scores(10, 10, 5, 5))).consecutive_low == 0
    assert evaluate(at(Scores(10, 10, 5, 4.99))).consecutive_low == 1


def test_alarm_is_raised_once_and_again_only_after_a_recovery() -> None:
    history = at(*[LOW] * 7, GOOD, *[LOW] * 5)
    config = GateConfig(window=100)
    raised = [step for n in range(1, 14) for step in [history[n - 1].step] if evaluate(history[:n], config).alarms]
    assert raised == [500, 1300]


def test_window_alarm_needs_a_full_window_and_more_than_its_share() -> None:
    mixed = ([LOW] * 3 + [GOOD] * 2) * 4  # 12 of 20 are exactly 60 %
    assert evaluate(at(*mixed)).low_in_window == 12
    assert evaluate(at(*mixed)).alarms == ()
    bad = ([LOW] * 4 + [GOOD]) * 4
    assert not any(evaluate(at(*bad)[:number]).alarms for number in range(20))
    assert [alarm.kind for alarm in evaluate(at(*bad)).alarms] == ["window"]
    assert evaluate(at(*bad)).alarms[0].message == "16 of the last 20 samples are below 30"
    assert evaluate(at(*bad, LOW)).alarms == ()


def test_window_halts_only_where_asked_and_watching_never_halts() -> None:
    bad = at(*([LOW] * 4 + [GOOD]) * 4)
    assert not evaluate(bad).should_halt
    assert evaluate(bad, GateConfig(halt_on_window=True)).halt_reason == "16 of the last 20 samples are below 30"
    assert not evaluate(bad, GateConfig(halt=False, halt_on_window=True)).should_halt
    watched = evaluate(at(*[LOW] * 5), GateConfig(halt=False))
    assert not watched.should_halt
    assert [alarm.kind for alarm in watched.alarms] == ["collapse"]
    assert evaluate(at(*[LOW] * 9), GateConfig(halt=False)).active == ("collapse",), "the alarm stays"


def test_axis_alarm_is_for_drift_that_the_total_hides() -> None:
    status = evaluate(at(GOOD, *[FOREIGN] * 5))
    assert status.consecutive_low == 0
    assert not status.should_halt
    assert [(alarm.kind, alarm.axis, alarm.step) for alarm in status.alarms] == [("axis", "english", 600)]
    assert status.alarms[0].message.startswith("english below 40% of its range for 5 samples in a row")
    assert evaluate(at(*[FOREIGN] * 6)).alarms == ()
    assert evaluate(at(*[FOREIGN] * 6)).active == ("axis",)
    assert evaluate(at(*[FOREIGN] * 4, LOW, FOREIGN)).alarms == ()
    assert evaluate(at(*[Scores(34, 35, 8, 10)] * 5)).alarms == ()  # exactly 40 % passes


def test_divergence_is_a_falling_score_under_a_falling_loss() -> None:
    history = falling(*[90] * 10, *[75] * 10)
    assert evaluate(history[:-1]).alarms == (), "15 points on average need ten whole samples"
    status = evaluate(history)
    assert [(alarm.kind, alarm.step) for alarm in status.alarms] == [("divergence", 2000)]
    assert status.alarms[0].message == (
        "the last 10 samples score 15.0 points less than those before, though the loss EMA fell from 4.450 to 3.450"
    )
    assert not status.should_halt
    assert evaluate(falling(*[90] * 10, *[75.01] * 10)).active == (), "14.99 points are not 15"
    assert evaluate(falling(*[90] * 10, *[75] * 10, by=0)).active == (), "the loss stands still"
    assert evaluate(falling(*[90] * 10, *[75] * 10, by=-0.1)).active == (), "the loss tells it too"


def test_divergence_is_raised_once_while_it_lasts() -> None:
    """Behind 20 samples of 90 the fifth of 60 makes the means 90 and 75; it holds until the older ones are 75 too."""
    history = falling(*[90] * 20, *[60] * 20, *[90] * 20, *[60] * 5)
    statuses = [evaluate(history[:number]) for number in range(1, len(history) + 1)]
    assert [alarm.step for status in statuses for alarm in status.alarms] == [2500, 6500]
    active = [100 * number for number, status in enumerate(statuses, start=1) if status.active == ("divergence",)]
    assert active == [*range(2500, 3600, 100), 6500]


def test_without_every_ema_there_is_no_divergence() -> None:
    history = falling(*[90] * 10, *[50] * 10)
    assert evaluate(history).active == ("divergence",)
    for missing in (0, 12, 19):
        unknown = [sample._replace(ema=None) if n == missing else sample for n, sample in enumerate(history)]
        assert evaluate(unknown).active == ()


def test_damaged_scores_count_as_low() -> None:
    assert evaluate(at(Scores(math.nan, 35, 20, 10))).consecutive_low == 1
    assert evaluate(falling(*[90] * 10, *[math.nan] * 10), GateConfig(halt=False)).active == ("collapse",)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threshold", -1),
        ("threshold", 100.5),
        ("threshold", math.nan),
        ("threshold", "30"),
        ("threshold", True),
        ("consecutive", 0),
        ("consecutive", 2.5),
        ("consecutive", True),
        ("window", -3),
        ("window_share", 60),
        ("axis_share", -0.1),
        ("axis_consecutive", 0),
        ("divergence_samples", 0),
        ("divergence_drop", 101),
        ("halt", "no"),
        ("halt_on_window", 1),
    ],
)
def test_a_rule_that_cannot_be_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^gate: {field} must be .*{value!r}") as caught:
        GateConfig(**{field: value})
    assert caught.value.exit_code == ExitCode.USAGE
