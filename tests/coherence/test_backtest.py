from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from andrea_engine.coherence.backtest import Savings, StoredText, backtest, render, savings
from andrea_engine.coherence.gate import GateConfig
from andrea_engine.run.errors import ConfigError
from tests.coherence.story import HEALTHY, LOOP, collapsing_run
from tests.support.inprocess import andrea_engine


def test_published_figures() -> None:
    saved = savings(132_000, 165_000, steps_per_minute=6, watts=130, price_per_kwh=0.3)
    assert saved.steps == 33_000
    assert saved.minutes == 5_500
    assert saved.hours == pytest.approx(91.7, abs=0.05)
    assert saved.days == pytest.approx(3.8, abs=0.05)
    assert saved.kwh == pytest.approx(11.9, abs=0.05)
    assert saved.cost == pytest.approx(5_500 / 60 * 0.13 * 0.3)


def test_what_is_unknown_stays_unknown() -> None:
    assert savings(100, 700) == Savings(600)
    assert savings(100, 700, watts=130, price_per_kwh=0.3) == Savings(600)
    assert savings(100, 700, steps_per_minute=10, price_per_kwh=0.3) == Savings(600, 60, 1, 1 / 24)
    assert savings(100, 700, steps_per_minute=10, watts=500) == Savings(600, 60, 1, 1 / 24, 0.5)


def test_intermittent_collapse_is_halted_late_but_alarmed_early() -> None:
    result = backtest(collapsing_run(), steps_per_minute=6, watts=130)
    assert result.gate is not None
    assert result.gate.step == 132_000
    assert result.gate.alarm.message == (
        "5 samples in a row below 30 since step 131,600; the last good sample was at step 131,500"
    )
    assert result.gate.saved == savings(132_000, 165_000, steps_per_minute=6, watts=130)
    assert result.window is not None
    assert 80_000 < result.window.step < 83_000
    assert result.window.saved.steps == 165_000 - result.window.step
    assert result.ended_at == 165_000
    assert len(result.scored) == 1650

    text = render(result)
    assert text.isascii()
    assert "fires at step 132,000, saves 33,000 steps = 5,500 min = 91.7 h = 3.8 days, 11.9 kWh\n" in text
    assert "G gate, step 132,000" in text
    assert f"W window alarm, step {result.window.step:,}" in text
    assert max(map(len, text.splitlines())) <= 110


def test_the_story_through_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "v1.samples.json"
    path.write_text(json.dumps([{"step": step, "loss": 4.5, "text": text} for step, text, _ in collapsing_run()]))
    options = ["--steps-per-minute", "6", "--watts", "130", "--ended-at", "165000"]
    text = andrea_engine("backtest", path, *options).out
    assert "gate          fires at step 132,000, saves 33,000 steps = 5,500 min = 91.7 h = 3.8 days, 11.9 kWh" in text
    report = json.loads(andrea_engine("backtest", path, *options, "--json").out)
    assert (report["ended_at"], report["gate"]["alarm"]["step"]) == (165_000, 132_000)
    assert report["gate"]["saved"] == {
        "steps": 33_000,
        "minutes": 5_500,
        "hours": pytest.approx(91.7, abs=0.05),
        "days": pytest.approx(3.8, abs=0.05),
        "kwh": pytest.approx(11.9, abs=0.05),
        "cost": None,
    }
    step = report["window"]["alarm"]["step"]
    assert 80_000 < step < 83_000
    assert report["window"]["saved"]["steps"] == 165_000 - step
    assert f"window alarm  fires at step {step:,}, saves {165_000 - step:,} steps" in text


def test_a_divergence_is_reported_where_the_loss_is_known() -> None:
    texts = [HEALTHY] * 10 + [HEALTHY[:60]] * 10
    samples = [StoredText(100 * n, text, ema=5 - 0.1 * n) for n, text in enumerate(texts, 1)]
    result = backtest(samples)
    assert "divergence" in [alarm.kind for alarm in result.alarms]
    assert "divergence    1, the first at step" in render(result)
    unknown = backtest([sample._replace(ema=None) for sample in samples])
    assert "divergence" not in [alarm.kind for alarm in unknown.alarms]
    assert "divergence" not in render(unknown)


def test_a_healthy_run_would_not_have_been_stopped() -> None:
    result = backtest([StoredText(step, HEALTHY) for step in range(100, 4_100, 100)])
    assert result.gate is result.window is None
    assert result.alarms == ()
    text = render(result)
    assert text.count("would not have fired") == 2
    assert "saves" not in text


def test_the_first_firing_counts_and_all_alarms_are_kept() -> None:
    texts = [LOOP] * 5 + [HEALTHY] + [LOOP] * 5
    result = backtest(
        [StoredText(100 * n, text) for n, text in enumerate(texts, 1)], GateConfig(window=50), ended_at=2_000
    )
    assert [alarm.step for alarm in result.alarms] == [500, 1_100]
    assert result.gate is not None
    assert result.gate.step == 500
    assert result.gate.saved == Savings(1_500)


def test_drift_to_another_script_is_reported_as_an_axis_alarm() -> None:
    mandarin = "今天早上我去市场买了一些苹果和面包,然后沿着河边慢慢走回家。路上遇到了一位老朋友。"
    result = backtest([StoredText(step, mandarin) for step in range(100, 700, 100)])
    assert [(alarm.kind, alarm.axis, alarm.step) for alarm in result.alarms] == [("axis", "english", 500)]
    text = render(result)
    assert "axis alarms   1, the first at step 500\n" in text
    assert "english below 40% of its range" in text


def test_the_config_is_used() -> None:
    samples = [StoredText(100, HEALTHY), StoredText(200, LOOP), StoredText(300, LOOP)]
    result = backtest(samples, GateConfig(consecutive=2))
    assert result.gate is not None
    assert result.gate.step == 300
    assert backtest(samples).gate is None


def test_no_samples() -> None:
    result = backtest([])
    assert (result.scored, result.ended_at, result.gate, result.window) == ((), None, None, None)
    assert render(result) == "coherence gate: no samples to replay\n"


def test_plot_shows_every_low_sample_below_the_threshold_line() -> None:
    # One bad sample among 999 good ones: its column must reach from the top to the bottom.
    result = backtest([StoredText(step, LOOP if step == 500 else HEALTHY) for step in range(1, 1_000)])
    plot = {line[:4].strip(): line[5:] for line in render(result).splitlines() if line[:4].strip().isdigit()}
    assert list(plot) == ["100", "90", "80", "70", "60", "50", "40", "30", "20", "10", "0"]
    column = plot["0"].index("*")
    assert plot["0"].strip() == "*"
    assert column == 71 * 499 // 998
    assert [plot[row][column] for row in ("80", "50", "10")] == ["|"] * 3
    assert set(plot["30"]) == {"-", "|"}


def test_one_sample_can_be_drawn() -> None:
    assert "steps 7 to 7" in render(backtest([StoredText(7, "")]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps_per_minute": 0}, "steps per minute must be a number above 0, not 0"),
        ({"steps_per_minute": float("nan")}, "steps per minute must be a number above 0, not nan"),
        ({"watts": -1}, "watts must be a number 0 or more, not -1"),
        ({"price_per_kwh": float("inf")}, "price per kWh must be a number 0 or more, not inf"),
        ({"ended_at": 50}, "cannot have ended at step 50, it has a sample of step 100"),
    ],
)
def test_impossible_inputs_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        backtest([StoredText(100, HEALTHY)], **arguments)
