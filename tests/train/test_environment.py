"""How `auto` is resolved, what is refused, and what a start says about the bits of a resume."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from andrea_engine.model.shape import ModelShape
from andrea_engine.run.config import RunConfig, parse_config
from andrea_engine.run.errors import ConfigError
from andrea_engine.train import environment as module
from andrea_engine.train.environment import Environment, choose_environment, compile_obstacle, launch_bound
from tests.support import records
from tests.support.inprocess import andrea_engine
from tests.support.tiny import configure, make_run

M12 = ModelShape(d_model=384, layers=6, heads=12, context=1024, vocab=2305)
M120 = ModelShape(d_model=768, layers=12, heads=12, context=1024, vocab=8449)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """What `choose_environment` sets for a whole process."""
    threads, matmul = torch.get_num_threads(), torch.get_float32_matmul_precision()
    yield
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(matmul)
    if torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]


def config(device: str = "", schedule: str = "") -> RunConfig:
    return parse_config(f'[device]\nname = "cpu"\nthreads = 1\n{device}\n[schedule]\n{schedule}\n', "test")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A CUDA device as PyTorch would describe it; change the facts before use."""
    facts: dict[str, object] = {"name": "NVIDIA GeForce RTX 4090", "capability": (8, 9)}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: facts["name"])
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: facts["capability"])
    monkeypatch.setattr(module, "compile_obstacle", lambda capability: None)
    return facts


def on_gpu(lines: str = "", model: ModelShape = M12, **schedule: int) -> RunConfig:
    table = f"d_model = {model.d_model}\nlayers = {model.layers}\nheads = {model.heads}\ncontext = {model.context}"
    steps = "\n".join(f"{name} = {value}" for name, value in schedule.items())
    return parse_config(
        f'[device]\nname = "cuda"\n{lines}\n[model]\n{table}\n[tokenizer]\nsegments = {model.vocab - 257}\n'
        f"[schedule]\n{steps}\n",
        "test",
    )


@pytest.mark.parametrize(
    ("flags", "asked", "expected"),
    [
        (["avx512_bf16", "amx_tile", "amx_bf16"], "auto", "bf16"),
        (["avx512_bf16"], "auto", "fp32"),  # supported, and slower than float32
        ([], "bf16", "bf16"),
        (["amx_bf16"], "fp32", "fp32"),
    ],
)
def test_precision_on_a_cpu(flags: list[str], asked: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_cpu_flags", lambda: flags)
    found = choose_environment(config(f'precision = "{asked}"'))
    assert (found.precision, found.matmul_precision) == (expected, expected)
    assert (found.compile, found.cuda_graphs, found.deterministic) == (False, False, False)
    assert found.inexact is None


def test_flags_and_name_come_from_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "processor\t: 0\nmodel name\t: Some CPU @ 2: fast\nflags\t\t: fpu amx_bf16\n\nprocessor\t: 1\n"
    monkeypatch.setattr(Path, "read_text", lambda path, *_: text)
    assert module._cpu_name() == "Some CPU @ 2: fast"
    assert module._cpu_flags() == ["fpu", "amx_bf16"]


def test_a_gpu_gets_bf16_the_compiler_and_tf32(gpu: dict[str, object]) -> None:
    found = choose_environment(on_gpu())
    assert (found.device, found.precision, found.compile) == ("cuda", "bf16", True)
    assert torch.get_float32_matmul_precision() == "high"
    assert replace(found, precision="fp32").matmul_precision == "tf32"
    assert found.inexact is not None
    assert "up to rounding" in found.inexact


def test_a_second_gpu_becomes_the_current_one(gpu: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    current: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    assert choose_environment(parse_config('[device]\nname = "cuda:1"\n', "test")).device == "cuda:1"
    assert current == [torch.device("cuda:1")]
    with pytest.raises(ConfigError, match="cuda:2, but there are only 2"):
        choose_environment(parse_config('[device]\nname = "cuda:2"\n', "test"))


def test_an_old_gpu_stays_with_float32(gpu: dict[str, object]) -> None:
    gpu |= {"name": "Tesla T4", "capability": (7, 5)}
    assert choose_environment(on_gpu()).precision == "fp32"
    with pytest.raises(ConfigError, match=r'Tesla T4 has no bf16: set device\.precision to "auto" or "fp32"'):
        choose_environment(on_gpu('precision = "bf16"'))


def test_deterministic_on_a_gpu(gpu: dict[str, object]) -> None:
    found = choose_environment(on_gpu(), deterministic=True)
    assert found.deterministic
    assert found.inexact is None
    assert replace(found, precision="fp32").matmul_precision == "fp32"
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
    assert not torch.backends.cudnn.benchmark
    assert not torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    assert torch.get_float32_matmul_precision() == "highest"
    assert not choose_environment(on_gpu()).deterministic
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(
    ("model", "name", "schedule", "expected"),
    [
        (M12, "NVIDIA GeForce RTX 4090", {"batch": 1}, True),
        (M120, "NVIDIA GeForce RTX 4090", {"batch": 8}, False),
        (M120, "NVIDIA GeForce RTX 4090", {"batch": 8, "micro_batch": 1}, False),
        (M120, "NVIDIA H100 80GB HBM3", {"batch": 4}, True),
        (M120, "NVIDIA H100 80GB HBM3", {"batch": 32}, False),
        (M120, "NVIDIA H100 80GB HBM3", {"batch": 32, "micro_batch": 4}, True),
        (M12, "a device without an entry", {"batch": 1}, False),
    ],
)
def test_graphs_are_for_launch_bound_sizes(
    model: ModelShape, name: str, schedule: dict[str, int], expected: bool, gpu: dict[str, object]
) -> None:
    gpu["name"] = name
    assert choose_environment(on_gpu(model=model, **schedule)).cuda_graphs is expected
    assert choose_environment(on_gpu('cuda_graphs = "on"', model, **schedule)).cuda_graphs
    assert not choose_environment(on_gpu('cuda_graphs = "off"', model, **schedule)).cuda_graphs


def test_launch_bound_is_arithmetic() -> None:
    """12 layers x 40 kernels x 5 us = 2.4 ms of launches; three times that at 250 of 500 TFLOP/s are 1.8 TFLOP."""
    tokens = 1.8e12 / M120.flops_per_token(1024)
    assert launch_bound(M120, int(tokens) - 1, 500)
    assert not launch_bound(M120, int(tokens) + 2, 500)


def test_what_a_cpu_refuses() -> None:
    with pytest.raises(ConfigError, match='cuda_graphs is on, but the device is cpu; set it to "auto" or "off"'):
        choose_environment(config('cuda_graphs = "on"'))


def test_compiling_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert compile_obstacle(None) == "there is no C compiler"
    with pytest.raises(ConfigError, match=r"device\.compile is on, but there is no C compiler"):
        choose_environment(config('compile = "on"'))
    assert not choose_environment(config()).compile


def test_compiling_for_a_gpu_needs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/cc")
    assert compile_obstacle(None) is None
    assert compile_obstacle((6, 1)) == "compute capability 6.1 is too old for Triton"
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    assert compile_obstacle((8, 0)) == "the package triton is missing"


def test_a_compiled_step_on_threads_is_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "compile_obstacle", lambda capability: None)
    found = choose_environment(config('compile = "on"'))
    assert found.compile
    assert found.inexact is None, "one thread adds in one order"
    reason = replace(found, threads=2).inexact
    assert reason is not None
    assert "--deterministic" in reason
    assert replace(found, threads=2, deterministic=True).inexact is None


def test_differences_are_words() -> None:
    before = Environment("cpu", "CPU", 1, "2.13", "3.11", "x86_64")
    after = replace(before, threads=2, precision="bf16", micro_batch=4, compile=True)
    expected = ["threads 1 -> 2", "precision fp32 -> bf16", "micro_batch 0 -> 4", "compile off -> on"]
    assert after.differences(before.facts()) == expected
    assert after.differences(after.facts()) == []


def test_engines_of_before_computed_in_float32_uncompiled() -> None:
    """Their starts did not record how they computed, and a change of it must not go unsaid."""
    old = {"device": "cpu", "device_name": "CPU", "threads": 1, "world_size": 1}
    plain = Environment("cpu", "CPU", 1, "2.13", "3.11", "x86_64")
    assert plain.differences(old) == []
    assert replace(plain, precision="bf16").differences(old) == ["precision fp32 -> bf16"]


def test_a_micro_batch_of_the_whole_batch_is_none() -> None:
    assert choose_environment(config(schedule="batch = 4\nmicro_batch = 4")).micro_batch == 0
    assert choose_environment(config(schedule="batch = 4\nmicro_batch = 2")).micro_batch == 2
    with pytest.raises(ConfigError, match=r"micro_batch 3 does not divide schedule\.batch 4"):
        config(schedule="batch = 4\nmicro_batch = 3")


# -- a whole engine ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_micro_batches_and_precision_resume_exactly(tmp_path: Path, precision: str) -> None:
    tables = {"schedule": {"micro_batch": 2}, "device": {"precision": precision}}
    straight, resumed = (make_run(tmp_path / name, tables) for name in ("straight", "resumed"))
    assert andrea_engine("train", straight.path, "--steps", 20).code == 0
    for steps in (7, 20):
        assert andrea_engine("train", resumed.path, "--steps", steps).code == 0
    records.assert_same_run(resumed, straight, 20)
    (first, second) = records.events(resumed, "resumed")
    recorded = first.facts["environment"]
    assert isinstance(recorded, dict)
    assert (recorded["precision"], recorded["micro_batch"]) == (precision, 2)
    assert second.facts["environment"] == recorded
    assert records.notices(resumed) == records.notices(straight) == ""


def test_a_changed_way_of_computing_is_said(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", {"device": {"precision": "fp32"}})
    assert andrea_engine("train", directory.path, "--steps", 2).code == 0
    configure(directory, {"device": {"precision": "bf16"}, "schedule": {"micro_batch": 2}})
    assert andrea_engine("train", directory.path, "--steps", 3).code == 0
    assert "precision fp32 -> bf16; micro_batch 0 -> 2: the run goes on" in records.notices(directory)


def test_deterministic_changes_no_bit_of_an_eager_run_on_the_cpu(tmp_path: Path) -> None:
    plain, flagged, written = (
        make_run(tmp_path / name, {"device": {"deterministic": name == "written"}})
        for name in ("plain", "flagged", "written")
    )
    assert andrea_engine("train", plain.path, "--steps", 10).code == 0
    assert andrea_engine("train", flagged.path, "--steps", 10, "--deterministic").code == 0
    assert andrea_engine("train", written.path, "--steps", 10).code == 0
    for directory in (flagged, written):
        assert records.checkpoint(directory, 10).read_bytes() == records.checkpoint(plain, 10).read_bytes()
        (start,) = records.events(directory, "resumed")
        assert isinstance(start.facts["environment"], dict)
        assert start.facts["environment"]["deterministic"] is True


def test_the_first_compiled_step_has_a_phase_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from andrea_engine.train.reporter import Reporter

    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    phases: list[str] = []
    enter = Reporter.enter

    def noted(self: Reporter, phase: str, **fields: object) -> None:
        phases.append(phase)
        enter(self, phase, **fields)

    monkeypatch.setattr(Reporter, "enter", noted)
    directory = make_run(tmp_path / "run", {"device": {"compile": "on"}})
    assert andrea_engine("train", directory.path, "--steps", 3).code == 0
    at = phases.index("compiling")
    assert phases[at - 1 : at + 2] == ["training", "compiling", "training"]
    assert phases.count("compiling") == 1
    beat = records.strict_json(directory.heartbeat)
    assert isinstance(beat, dict)
    assert beat["mfu"] is None
