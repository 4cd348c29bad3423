"""`andrea-engine backtest`: the published story as arithmetic, and every way to hand in samples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.inprocess import andrea_engine
from tests.support.tiny import TEXTS

GOOD = (TEXTS / "harbour.txt").read_text()[:600]
LOW = "region " * 200


@pytest.fixture
def story(tmp_path: Path) -> Path:
    """Collapsed from step 128,000 on: the fifth low sample in a row is that of step 132,000."""
    samples = [{"step": step, "text": LOW if step >= 128_000 else GOOD} for step in range(1000, 166_000, 1000)]
    path = tmp_path / ".samples.json"
    path.write_text(json.dumps(samples))
    return path


ECONOMY = ["--steps-per-minute", "6", "--watts", "130", "--price", "0.5", "--ended-at", "165000"]


def test_the_published_figures(story: Path) -> None:
    report = json.loads(andrea_engine("backtest", story, *ECONOMY, "--json").out)
    assert report["gate"]["alarm"]["step"] == 132_000
    saved = report["gate"]["saved"]
    assert saved["steps"] == 33_000
    assert saved["minutes"] == 5500
    assert saved["hours"] == pytest.approx(91 + 2 / 3)
    assert saved["days"] == pytest.approx(3.8194, abs=1e-4)
    assert saved["kwh"] == pytest.approx(11.9167, abs=1e-4)
    assert saved["cost"] == pytest.approx(11.9167 / 2, abs=1e-4)
    assert len(report["scored"]) == 165
    assert report["scored"][0]["total"] > 30 > report["scored"][-1]["total"]


def test_text(story: Path) -> None:
    result = andrea_engine("backtest", story, *ECONOMY)
    assert result.code == 0
    assert "fires at step 132,000, saves 33,000 steps = 5,500 min = 91.7 h = 3.8 days, 11.9 kWh" in result.out
    assert result.out.isascii()


def test_a_good_sample_now_and_then_keeps_the_gate_open(tmp_path: Path) -> None:
    samples = [{"step": step, "text": GOOD if step % 5 == 0 else LOW} for step in range(1, 60)]
    path = tmp_path / "samples.json"
    path.write_text(json.dumps(samples))
    report = json.loads(andrea_engine("backtest", path, "--json").out)
    assert report["gate"] is None, "never five in a row"
    assert report["window"]["alarm"]["step"] == 20, "16 of the first 20 are low"
    assert "would not have fired" in andrea_engine("backtest", path).out


def test_the_rule_can_be_changed(story: Path) -> None:
    report = json.loads(andrea_engine("backtest", story, "--consecutive", 2, "--json").out)
    assert report["gate"]["alarm"]["step"] == 129_000
    report = json.loads(andrea_engine("backtest", story, "--threshold", 0, "--json").out)
    assert report["gate"] is None


def test_a_folder_of_texts_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for step in (900, 1000, 1100, 10_000, 10_100, 99):
        (tmp_path / f"sample_{step}.txt").write_text(LOW)
    (tmp_path / "notes.pdf").write_bytes(b"not a text")
    (tmp_path / ".hidden").mkdir()
    report = json.loads(andrea_engine("backtest", tmp_path, "--json").out)
    assert [item["step"] for item in report["scored"]] == [99, 900, 1000, 1100, 10_000, 10_100]
    assert report["gate"]["alarm"]["step"] == 10_000


def test_the_original_format_is_read(tmp_path: Path) -> None:
    path = tmp_path / "v1.samples.json"
    path.write_text(json.dumps([{"step": 100, "loss": 4.2, "text": GOOD}, {"step": 200, "text": LOW}]))
    report = json.loads(andrea_engine("backtest", path, "--json").out)
    assert [item["step"] for item in report["scored"]] == [100, 200]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--steps-per-minute", "0"], "steps per minute must be a number above 0"),
        (["--watts", "nan"], "watts must be a number 0 or more"),
        (["--threshold", "101"], "threshold must be a number from 0 to 100"),
        (["--consecutive", "0"], "consecutive must be a whole number"),
        (["--ended-at", "10"], "the run cannot have ended at step 10"),
    ],
)
def test_what_cannot_be_is_one_sentence(story: Path, arguments: list[str], sentence: str) -> None:
    result = andrea_engine("backtest", story, *arguments)
    assert result.code == 2
    assert sentence in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "code", "sentence"),
    [(None, 2, "does not exist"), ("[]", 2, "holds no samples"), ("{", 1, "is not JSON"), ('{"a": 1}', 1, "array")],
)
def test_files_that_hold_no_samples(tmp_path: Path, content: str | None, code: int, sentence: str) -> None:
    path = tmp_path / "samples.json"
    if content is not None:
        path.write_text(content)
    result = andrea_engine("backtest", path)
    assert result.code == code
    assert sentence in result.err


def test_an_empty_folder(tmp_path: Path) -> None:
    assert andrea_engine("backtest", tmp_path).code == 2
