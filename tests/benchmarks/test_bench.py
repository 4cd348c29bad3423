"""The benchmarks run and say everything they promise. What they measure is not judged here."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

import andrea_engine
from andrea_engine.commands import bench
from andrea_engine.model.flat import FlatParameters
from andrea_engine.run.errors import ConfigError, ExitCode, RunError
from andrea_engine.train.optimizer import AdamW
from benchmarks import engine_memory, first_step, runner
from benchmarks.measure import Sample, summarise
from benchmarks.models import QUICK_SHAPE
from benchmarks.report import Outcome, Scale, Target, document, verdicts
from tests.support.inprocess import Bell
from tests.support.inprocess import andrea_engine as engine_command

RATIOS = {
    "step_12m_vs_hf",
    "step_demo_vs_hf",
    "step_12m_vs_gemm_peak",
    "optimizer_vs_default_adamw",
    "checkpoint_pause_vs_torch_save",
    "save_cost_vs_sync",
    "load_vs_torch_load",
    "first_step_vs_torch_optim",
    "append_200k_vs_100",
    "first_paint_vs_textual",
    "cpu_append_2m_vs_20k",
    "idle_cpu_share",
    "supervision_steps_ratio",
}
FIGURES = {
    "curve_200k_s",
    "rss_200k_mb",
    "curve_2m_s",
    "rss_2m_mb",
    "idle_tty_bytes",
    "live_tty_bytes",
    "live_cpu_s",
    "append_to_visible_s",
}
MAY_BE_ANYTHING = {"save_cost_vs_sync", "idle_cpu_share"}  # of times this short
PEER = importlib.util.find_spec("transformers")
NEED_THE_PEER = {"step_12m_vs_hf", "step_demo_vs_hf"}


@pytest.fixture
def threads_restored() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads_restored")
def test_a_quick_run_has_every_key_and_stores_what_it_prints(tmp_path: Path) -> None:
    out = tmp_path / "results" / "bench.json"
    result = engine_command("bench", "--quick", "--out", out)

    assert result.code == (ExitCode.OK if PEER else ExitCode.FAILED), result.err
    printed = json.loads(result.out)
    assert json.loads(out.read_text()) == printed
    assert [path.name for path in out.parent.iterdir()] == ["bench.json"]
    assert printed["quick"] is True
    assert printed["ratios"].keys() == RATIOS
    assert printed["figures"].keys() == FIGURES
    assert printed["targets"].keys() == RATIOS | FIGURES
    missing = {key for key, value in printed["ratios"].items() if value is None}
    assert missing == (set() if PEER else NEED_THE_PEER)
    assert len(printed["problems"]) == len(missing)
    for key in RATIOS - missing - MAY_BE_ANYTHING:
        assert printed["ratios"][key] > 0, key
    for key in FIGURES:
        assert printed["figures"][key] >= 0, key
    assert printed["machine"]["torch"] == torch.__version__
    assert printed["details"]["engine_step"]["optimizer"]["ours"]["samples"] == 1
    assert all(key in result.err for key in RATIOS | FIGURES)


@pytest.mark.usefixtures("threads_restored")
def test_memory_is_the_peak_over_two_lives_of_one_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_memory, "spawn", engine_memory.live)  # 2 s a process, for the same lines
    monkeypatch.setattr(engine_memory, "peak_bytes", iter(range(10**9, 10**11, 10**9)).__next__)
    outcome = engine_memory.measure(Scale(quick=True, scratch=tmp_path, threads=1))
    assert outcome.values == {"peak_120m_gb": 6.0}
    assert outcome.details["peak_gb_after"] == {
        "start": {"init": 1.0, "step": 2.0, "save": 3.0},
        "resume": {"load": 4.0, "step": 5.0, "save": 6.0},
    }


def test_memory_of_another_state_than_the_saved_one_is_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_memory, "spawn", lambda kind, scale: {"load": 1.0, "sha256": kind})
    with pytest.raises(RunError, match="is not the one that was saved"):
        engine_memory.measure(Scale(quick=True, scratch=tmp_path, threads=1))


def test_the_peak_of_this_process_is_at_least_what_it_holds_now() -> None:
    assert engine_memory.peak_bytes() >= 0.9 * psutil.Process().memory_info().rss  # the kernel counts in batches


def test_without_a_checkout_the_command_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(andrea_engine, "__file__", str(tmp_path / "site-packages" / "andrea_engine" / "__init__.py"))
    with pytest.raises(ConfigError, match="run it from a checkout of the source: make bench"):
        bench.run(argparse.Namespace(), Bell())


def test_an_unknown_suite_is_named_with_the_ones_there_are(tmp_path: Path) -> None:
    result = engine_command("bench", "--only", "engine_stop", "--out", tmp_path / "x.json")
    assert result.code == ExitCode.USAGE
    assert result.err.startswith("andrea-engine: there is no suite 'engine_stop'; choose among engine_step, ")
    assert not (tmp_path / "x.json").exists()


def test_a_place_that_cannot_be_written_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = engine_command("bench", "--quick", "--only", "engine_record", "--out", tmp_path / "file" / "x.json")
    assert result.code == ExitCode.USAGE
    assert "choose another place with --out" in result.err


@pytest.mark.parametrize(
    ("only", "memory", "expected"),
    [
        ([], False, ["engine_step", "engine_checkpoint", "engine_start", "engine_record", "console"]),
        ([], True, ["engine_step", "engine_checkpoint", "engine_start", "engine_record", "console", "engine_memory"]),
        (["console"], False, ["console"]),
        (["engine"], False, ["engine_step", "engine_checkpoint", "engine_start", "engine_record"]),
        (["engine_record", "engine_step"], False, ["engine_step", "engine_record"]),
        (["engine_memory"], False, ["engine_memory"]),
        (["engine_step"], True, ["engine_step", "engine_memory"]),
    ],
)
def test_suites_are_chosen_by_name_or_by_the_first_word_of_it(only: list[str], memory: bool, expected: object) -> None:
    assert runner.chosen(only, memory=memory) == expected


@pytest.mark.parametrize(
    ("relation", "value", "holds"),
    [
        (">=", 1.1, True),
        (">=", 1.0999, False),
        ("<=", 1.1, True),
        ("<=", 1.1001, False),
        (">=", math.inf, False),
        ("<=", math.nan, False),
        ("<=", None, False),
    ],
)
def test_a_target_holds_on_its_bound_and_never_for_what_was_not_measured(
    relation: str, value: float | None, holds: bool
) -> None:
    assert Target(relation, 1.1).holds(value) is holds  # type: ignore[arg-type]


def test_the_document_has_a_key_for_what_failed_and_keeps_the_other_suites() -> None:
    suites = {
        "fast": SimpleNamespace(TARGETS={"speed": Target(">=", 2.0)}),
        "broken": SimpleNamespace(TARGETS={"size": Target("<=", 4.5, "GB"), "cost": Target("<=", 0.5)}),
    }
    outcomes = {"fast": Outcome({"speed": 3.14159265}, {"n": 1}), "broken": Outcome(problems=["broken: no disk"])}
    made = document(suites, outcomes, {"cpus": 2}, quick=False)
    assert made["ratios"] == {"speed": 3.142, "cost": None}
    assert made["figures"] == {"size": None}
    assert made["problems"] == ["broken: no disk"]
    assert made["details"] == {"fast": {"n": 1}, "broken": {}}
    lines = list(verdicts(made))
    assert [line.split()[0] for line in lines] == ["speed", "size", "cost"]
    assert lines[0].endswith("holds")
    assert "not measured" in lines[1]
    assert lines[1].endswith("MISSED")


def test_a_ratio_is_of_medians_and_doubtful_when_either_side_was_disturbed() -> None:
    quiet, noisy = (summarise([Sample(seconds, foreign)] * 3) for seconds, foreign in ((3.0, 0.0), (4.0, 1.0)))
    outcome = Outcome()
    outcome.compare("sure", quiet, quiet, factor=0.5)
    outcome.compare("above", noisy, quiet)
    outcome.compare("below", quiet, noisy)
    assert outcome.values == {"sure": 0.5, "above": 4.0 / 3.0, "below": 0.75}
    assert outcome.disturbed == {"above", "below"}
    suite = SimpleNamespace(TARGETS={name: Target(">=", 0.1) for name in ("sure", "above", "below")})
    lines = list(verdicts(document({"x": suite}, {"x": outcome}, {}, quick=False)))
    assert ["(disturbed" in line for line in lines] == [False, True, True]


def test_a_suite_that_breaks_is_a_problem_with_its_name() -> None:
    def broken(scale: object) -> Outcome:
        raise OSError("no disk")

    outcome = runner._outcome("engine_x", SimpleNamespace(measure=broken), None)  # type: ignore[arg-type]
    assert outcome.problems == ["engine_x: OSError: no disk"]


def test_the_peer_of_the_start_is_torch_optim_and_trains_the_same() -> None:
    """Same buffers, same bits: what differs between the two programs is what the optimizer's class drags in."""
    spec = first_step._Finder.find_spec(
        first_step.OPTIMIZER, list(importlib.import_module("andrea_engine.train").__path__)
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = []
    for kind in (AdamW, module.AdamW):
        flat = FlatParameters(QUICK_SHAPE)
        flat.init_weights(seed=3)
        optimizer = kind(flat)
        for step in (1, 2, 3):
            flat.g.normal_(generator=torch.Generator().manual_seed(step))
            optimizer.step(step, 1e-2 / step)
        made.append(flat.w)
    assert module.AdamW.__name__ == "TorchAdamW"
    assert isinstance(getattr(optimizer, "inner", None), torch.optim.AdamW)
    torch.testing.assert_close(made[0], made[1], rtol=0, atol=0)


def test_nothing_else_is_replaced_for_the_peer() -> None:
    assert first_step._Finder.find_spec("andrea_engine.train.schedule") is None
