"""Verify and time the CUDA path of the engine on one GPU in under five minutes: `python benchmarks/gpu_check.py`.

Prints JSON: checks (each with `ok`), timings, the pause of a checkpoint, and what the time budget left out. Exit code 0
when every check holds, 1 when one does not, 2 where there is no CUDA device. `--smoke` runs the same code on the CPU
with a tiny model, without what only CUDA has: it proves that the script works, and measures nothing.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tomli_w
import torch

from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.gpt import GPT
from andrea_engine.model.shape import ModelShape
from andrea_engine.run.config import CheckpointTable, parse_config, preset_text
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog
from andrea_engine.run.loss_record import LossRecord
from andrea_engine.telemetry.peaks import MatmulPrecision, mfu
from andrea_engine.train.checkpointing import CheckpointWriter
from andrea_engine.train.environment import Environment, choose_environment, compile_obstacle
from andrea_engine.train.optimizer import AdamW, norm_on_device
from andrea_engine.train.step import TrainingStep

LR = 3e-4
TINY = ModelShape(d_model=32, layers=2, heads=2, context=32, vocab=101)
SHAPES = {
    "12m": ModelShape.of(parse_config(preset_text("12m"), "12m")),
    "120m": ModelShape.of(parse_config(preset_text("120m"), "120m")),
    "tiny": TINY,
}


@dataclass(frozen=True)
class Case:
    """One way to run a step; `seconds`: what it costs to start, compiler included, as a guess for the budget."""

    model: str
    batch: int
    micro_batch: int = 0
    precision: str = "bf16"
    compile: bool = False
    cuda_graphs: bool = False
    seconds: float = 8.0


CASES = (
    Case("120m", 8),
    Case("120m", 8, compile=True, seconds=50),
    Case("120m", 8, compile=True, cuda_graphs=True, seconds=15),
    Case("120m", 32, micro_batch=8, compile=True, seconds=15),
    Case("12m", 8),
    Case("12m", 8, cuda_graphs=True),
    Case("12m", 8, compile=True, seconds=30),
    Case("12m", 8, compile=True, cuda_graphs=True, seconds=12),
    Case("120m", 8, precision="fp32"),
    Case("12m", 1, compile=True, cuda_graphs=True, seconds=30),
    Case("120m", 4, compile=True, cuda_graphs=True, seconds=50),
)
SMOKE_CASES = (Case("tiny", 4, precision="fp32"), Case("tiny", 4, micro_batch=2))


class Bench:
    """What all parts share: the device, and the clock of the budget."""

    def __init__(self, *, smoke: bool, budget: float) -> None:
        self.smoke = smoke
        self.device = torch.device("cpu" if smoke else "cuda")
        self.started = time.monotonic()
        self.budget = budget
        device_table = {"name": self.device.type, "threads": 1 if smoke else 0}
        self.environment: Environment = choose_environment(parse_config(tomli_w.dumps({"device": device_table}), ""))
        self.shape = TINY if smoke else SHAPES["12m"]
        self.checks: dict[str, dict[str, Any]] = {}
        self.left_out: list[str] = []

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def facts(self) -> dict[str, Any]:
        """The machine, for whoever reads the report."""
        names = ("device", "device_name", "threads", "torch", "python", "machine")
        facts: dict[str, Any] = {name: getattr(self.environment, name) for name in names}
        if not self.smoke:
            facts["cuda"] = torch.version.cuda
            facts["capability"] = list(torch.cuda.get_device_capability())
            facts["memory_gib"] = round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1)
            facts["compile_obstacle"] = compile_obstacle(torch.cuda.get_device_capability())
        return facts

    def affords(self, what: str, seconds: float) -> bool:
        """Whether the budget still holds `seconds`; what it does not hold is listed."""
        if self.seconds + seconds <= self.budget:
            return True
        self.left_out.append(what)
        return False

    def check(self, name: str, measure: Callable[[], dict[str, Any]]) -> None:
        """Run one check; an exception is a check that does not hold, and the others go on."""
        print(f"{self.seconds:6.1f} s  {name}", file=sys.stderr, flush=True)
        try:
            self.checks[name] = measure()
        except Exception as error:
            self.checks[name] = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        self.release()

    def release(self) -> None:
        gc.collect()
        if not self.smoke:
            torch.cuda.empty_cache()

    def synchronize(self) -> None:
        if not self.smoke:
            torch.cuda.synchronize()

    def flat(self, shape: ModelShape | None = None) -> FlatParameters:
        flat = FlatParameters(shape or self.shape, self.device)
        flat.init_weights(0)
        return flat

    def step(self, flat: FlatParameters, **options: Any) -> TrainingStep:
        return TrainingStep(flat, AdamW(flat), on_device=True, **options)

    def batch(self, seed: int, size: int = 4, shape: ModelShape | None = None) -> np.ndarray:
        s = shape or self.shape
        return np.random.default_rng(seed).integers(0, s.vocab, (size, s.context + 1))

    def losses(self, steps: range, flat: FlatParameters, **options: Any) -> list[float]:
        """Losses of the numbered steps; the batch of a step depends on its number alone."""
        step = self.step(flat, **options)
        return [step.run(self.batch(number), number, LR).loss for number in steps]


# -- checks -----------------------------------------------------------------------------------------------------------


class KeptGradient(AdamW):
    """Keeps the gradient that a step would have applied, and applies nothing."""

    def step_on_device(self, step: int, lr: float) -> torch.Tensor:
        self.kept = self.flat.g.clone()
        self.flat.g.zero_()
        return norm_on_device(self.kept)


def gradients(bench: Bench, **options: Any) -> tuple[float, torch.Tensor]:
    """Loss and flat gradient of one batch."""
    optimizer = KeptGradient(bench.flat())
    step = TrainingStep(optimizer.flat, optimizer, on_device=True, **options)
    return step.run(bench.batch(1), 1, LR).loss, optimizer.kept


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Norm of the difference, relative to the norm of `b`."""
    return float((a.double() - b.double()).norm() / b.double().norm())


def check_precision(bench: Bench) -> dict[str, Any]:
    """bf16 against float32."""
    loss, gradient = gradients(bench, precision="bf16")
    reference, reference_gradient = gradients(bench, precision="fp32")
    far = distance(gradient, reference_gradient)
    return {"ok": abs(loss - reference) < 0.01 and far < 0.05, "loss": [loss, reference], "gradient_distance": far}


def check_against_cpu(bench: Bench) -> dict[str, Any]:
    """The device's float32 (TF32 on CUDA) against float32 on the CPU."""
    flat, ids = FlatParameters(TINY), torch.from_numpy(bench.batch(1, shape=TINY))
    flat.init_weights(0)
    expected = float(GPT(flat).loss(ids[:, :-1], ids[:, 1:]).detach())
    loss = bench.step(bench.flat(TINY)).run(bench.batch(1, shape=TINY), 1, LR).loss
    return {"ok": abs(loss - expected) < 1e-3, "loss": [loss, expected]}


def check_micro_batches(bench: Bench) -> dict[str, Any]:
    far = distance(gradients(bench, precision="bf16", micro_batch=2)[1], gradients(bench, precision="bf16")[1])
    return {"ok": far < 0.02, "gradient_distance": far}


def check_variant(bench: Bench, **options: Any) -> dict[str, Any]:
    """Five steps of a variant against five plain ones."""
    plain = bench.losses(range(1, 6), bench.flat(), precision="bf16")
    losses = bench.losses(range(1, 6), bench.flat(), precision="bf16", **options)
    far = max(abs(a - b) for a, b in zip(losses, plain, strict=True))
    return {"ok": far < 0.02, "largest_difference": far}


def check_optimizer(bench: Bench) -> dict[str, Any]:
    """Clip without a branch against clip with one; and a gradient that is not finite changes nothing."""
    one, other = bench.flat(), bench.flat()
    for flat in (one, other):
        flat.g.copy_(torch.randn(flat.g.numel(), generator=torch.Generator().manual_seed(1)))
    AdamW(one).step(1, LR)
    AdamW(other).step_on_device(1, LR)
    far = distance(other.m, one.m)
    before = other.w.clone()
    other.g.fill_(float("nan"))
    norm = float(AdamW(other).step_on_device(2, LR))
    return {"ok": far < 1e-6 and norm != norm and torch.equal(before, other.w), "moment_distance": far}


def check_resume(bench: Bench) -> dict[str, Any]:
    """Six steps against three, a copy of weights and moments into fresh buffers, and three more."""
    straight = bench.losses(range(1, 7), bench.flat(), precision="bf16")
    first, second = bench.flat(), bench.flat()
    losses = bench.losses(range(1, 4), first, precision="bf16")
    for name in ("w", "m", "v"):
        getattr(second, name).copy_(getattr(first, name))
    losses += bench.losses(range(4, 7), second, precision="bf16")
    far = max(abs(a - b) for a, b in zip(losses, straight, strict=True))
    return {"ok": far < 0.02, "largest_difference": far, "bit_for_bit": far == 0.0}


def check_flash(bench: Bench) -> dict[str, Any]:
    """Flash attention takes the layout of the model: with every other kernel forbidden it must still run."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    step = bench.step(bench.flat(), precision="bf16")
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        result = step.run(bench.batch(1), 1, LR)
    return {"ok": result.loss == result.loss}


def check_waits(bench: Bench) -> dict[str, Any]:
    """A step in which PyTorch raises at every hidden wait for the device. The one at its end is not hidden."""
    step = bench.step(bench.flat(), precision="bf16", micro_batch=2)
    step.run(bench.batch(1), 1, LR)
    torch.cuda.set_sync_debug_mode("error")
    try:
        step.run(bench.batch(2), 2, LR)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return {"ok": True}


def check_engine(bench: Bench) -> dict[str, Any]:
    """The whole engine with --deterministic: stopped and resumed equals straight through, byte for byte."""
    steps, stop = (6, 4) if bench.smoke else (40, 23)
    digests, seconds = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, targets in (("straight", (steps,)), ("resumed", (stop, steps))):
            run = make_run(Path(folder) / name, bench)
            for target in targets:
                began = time.monotonic()
                command = [sys.executable, "-m", "andrea_engine", "train", str(run), "--deterministic"]
                done = subprocess.run([*command, "--steps", str(target)], capture_output=True, text=True, check=False)
                seconds.append(round(time.monotonic() - began, 1))
                if done.returncode:
                    return {"ok": False, "error": (done.stderr or done.stdout).strip()[-500:]}
            digests.append(hashlib.sha256((run / f"step_{steps:06d}.bin").read_bytes()).hexdigest())
    return {"ok": digests[0] == digests[1], "seconds": seconds, "sha256": digests[0]}


def make_run(path: Path, bench: Bench) -> Path:
    """A run on 40,000 random words, with the model of the other checks but for the vocabulary."""
    words = random.Random(0).choices(["harbour", "garden", "lantern", "of", "the", "and", "slow", "river"], k=40_000)
    text = path.with_suffix(".txt")
    text.write_text(" ".join(words))
    shape = bench.shape
    tables = {
        "model": {"d_model": shape.d_model, "layers": shape.layers, "heads": shape.heads, "context": shape.context},
        "tokenizer": {"segments": 40},
        "schedule": {"batch": 4, "steps": 1000, "peak_lr": LR, "warmup_steps": 5},
        "device": {"name": bench.device.type, "threads": bench.environment.threads},
        "sources": [{"name": "words", "kind": "text", "path": str(text)}],
    }
    path.mkdir()
    RunDirectory(path).config.write_text(tomli_w.dumps(tables))
    return path


# -- timings ----------------------------------------------------------------------------------------------------------


def time_case(bench: Bench, case: Case) -> dict[str, Any]:
    shape = SHAPES[case.model]
    bench.release()
    if not bench.smoke:
        torch.cuda.reset_peak_memory_stats()
    flat = bench.flat(shape)
    options = {name: getattr(case, name) for name in ("precision", "micro_batch", "compile", "cuda_graphs")}
    step = bench.step(flat, **options)
    batches = [bench.batch(seed, case.batch, shape) for seed in range(4)]
    began = time.perf_counter()
    step.run(batches[0], 1, LR)
    first = time.perf_counter() - began
    samples: list[float] = []
    number, least, most = 1, (2 if bench.smoke else 10), (2 if bench.smoke else 200)
    while len(samples) < least or (sum(samples) < 3.0 and len(samples) < most):
        number += 1
        began = time.perf_counter()
        step.run(batches[number % 4], number, LR)
        if number > 3 or bench.smoke:
            samples.append(time.perf_counter() - began)
    typical = median(samples)
    tokens = case.batch * shape.context
    precision: MatmulPrecision = "tf32" if case.precision == "fp32" else "bf16"
    return {
        **asdict(case),
        "tokens_per_step": tokens,
        "first_step_seconds": round(first, 2),
        "step_ms": round(1e3 * typical, 3),
        "steps_timed": len(samples),
        "tokens_per_second": round(tokens / typical),
        "steps_per_minute": round(60 / typical, 1),
        "mfu": mfu(tokens / typical, shape.flops_per_token(shape.context), bench.environment.device_name, precision),
        "peak_memory_gib": None if bench.smoke else round(torch.cuda.max_memory_allocated() / 2**30, 3),
    }


def time_checkpoint(bench: Bench) -> dict[str, Any]:
    """Pause of training (the copy to staging) and time until durable, of a save whose staging memory exists already."""
    flat = bench.flat(TINY if bench.smoke else SHAPES["120m"])
    flat.v.fill_(1e-8)
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory(Path(folder))
        record = LossRecord(directory)
        record.recover(0)
        writer = CheckpointWriter(directory, flat, record, EventLog(directory.events, 1), CheckpointTable(), set())
        pauses, durable = [], []
        for number in (1, 2):
            bench.synchronize()
            began = time.perf_counter()
            writer.submit(number, "cadence", {})
            pauses.append(time.perf_counter() - began)
            error = writer.wait()
            durable.append(time.perf_counter() - began)
            if error is not None:
                raise error
        record.close()
    return {
        "bytes": flat.shape.checkpoint_bytes,
        "first_pause_ms": round(1e3 * pauses[0], 2),
        "pause_ms": round(1e3 * pauses[1], 2),
        "durable_seconds": round(durable[1], 3),
    }


# -- the whole --------------------------------------------------------------------------------------------------------


def measure(bench: Bench) -> dict[str, Any]:
    """Checks first, then timings, most wanted first."""
    checks: dict[str, Callable[[], dict[str, Any]]] = {
        "bf16_equals_fp32": lambda: check_precision(bench),
        "device_equals_cpu": lambda: check_against_cpu(bench),
        "micro_batches_equal_whole": lambda: check_micro_batches(bench),
        "optimizer_without_branches": lambda: check_optimizer(bench),
        "resume_within_tolerance": lambda: check_resume(bench),
    }
    if not bench.smoke:
        checks |= {
            "flash_attention": lambda: check_flash(bench),
            "no_hidden_waits": lambda: check_waits(bench),
            "graphs_equal_plain": lambda: check_variant(bench, cuda_graphs=True),
            "compiled_equals_eager": lambda: check_variant(bench, compile=True),
        }
    checks["deterministic_engine_resumes_bit_for_bit"] = lambda: check_engine(bench)
    for name, check in checks.items():
        if bench.affords(name, 5):
            bench.check(name, check)
    timings: list[dict[str, Any]] = []
    for case in SMOKE_CASES if bench.smoke else CASES:
        if bench.affords(str(case), case.seconds):
            print(f"{bench.seconds:6.1f} s  {case}", file=sys.stderr, flush=True)
            try:
                timings.append(time_case(bench, case))
            except Exception as error:
                timings.append({**asdict(case), "error": f"{type(error).__name__}: {error}"})
    checkpoint = time_checkpoint(bench) if bench.affords("checkpoint", 10) else None
    held = bool(bench.checks) and all(check["ok"] for check in bench.checks.values())
    ok = held and not any("error" in timing for timing in timings)
    return {
        "ok": ok,
        "smoke": bench.smoke,
        "device": bench.facts(),
        "checks": bench.checks,
        "timings": timings,
        "checkpoint": checkpoint,
        "left_out": bench.left_out,
        "seconds": round(bench.seconds, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Verify and time the CUDA path of the engine on one GPU.")
    parser.add_argument("--smoke", action="store_true", help="run the script's code on the CPU with a tiny model")
    parser.add_argument(
        "--budget", type=float, default=285.0, metavar="S", help="start nothing that ends after S seconds"
    )
    options = parser.parse_args()
    if not options.smoke and not torch.cuda.is_available():
        print("there is no CUDA device here: nothing was checked (--smoke runs the script on the CPU)", file=sys.stderr)
        return 2
    report = measure(Bench(smoke=options.smoke, budget=options.budget))
    print(json.dumps(report, indent=1))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
