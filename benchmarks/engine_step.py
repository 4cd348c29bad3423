"""How fast a training step is: against Hugging Face's GPT-2, against the machine, and the optimizer alone."""

from __future__ import annotations

import torch
from torch import Tensor

from andrea_engine.model.shape import ModelShape
from andrea_engine.train.environment import Precision
from benchmarks.measure import Case, Summary, interleave, repeats_for, summarise
from benchmarks.models import LR, EngineStep, HuggingFaceStep, fresh, precision_by_itself, preset_shape
from benchmarks.report import Outcome, Scale, Target

TARGETS = {
    "step_12m_vs_hf": Target(">=", 1.10),
    "step_demo_vs_hf": Target(">=", 1.05),
    "step_12m_vs_gemm_peak": Target(">=", 0.60),
    "optimizer_vs_default_adamw": Target("<=", 0.30),
}
BATCHES = {"12m": 2, "demo": 8}
SAMPLE_SECONDS = 0.5


def measure(scale: Scale) -> Outcome:
    """Both shapes side by side with their peer, then the optimizers."""
    torch.set_num_threads(scale.threads)
    outcome = Outcome()
    for name, batch in BATCHES.items():
        _measure_steps(outcome, scale, name, preset_shape(name, quick=scale.quick), batch)
    _measure_optimizers(outcome, scale, preset_shape("12m", quick=scale.quick))
    return outcome


def _measure_steps(outcome: Outcome, scale: Scale, name: str, shape: ModelShape, batch: int) -> None:
    """Each side at its best: ours in the precision that an engine chooses on this CPU, the peer in its faster one.

    Both in float32 stand under `details`. A share of the GEMM peak is one of the float32 peak, whatever ours is.
    """
    seconds = 0.0 if scale.quick else SAMPLE_SECONDS
    side = 256 if scale.quick else 2048
    own = precision_by_itself(scale.threads)
    precisions: list[Precision] = ["fp32"] if own == "fp32" else ["fp32", own]
    steps: dict[str, EngineStep | HuggingFaceStep] = {
        f"ours_{precision}": EngineStep(fresh(shape), batch, precision) for precision in precisions
    }
    try:
        steps |= {f"hf_{precision}": HuggingFaceStep(shape, batch, precision) for precision in precisions}
    except ImportError as error:
        outcome.problems.append(f"step_{name}_vs_hf: {error}; install it with: pip install -e '.[bench]'")
    cases = {key: Case(step, repeats=repeats_for(step, seconds)) for key, step in steps.items()}
    cases["gemm"] = _gemm(side, seconds)
    taken = interleave(cases, *scale.rounds(7, 11))
    summaries = {key: summarise(samples) for key, samples in taken.items()}
    peers = [key for key in cases if key.startswith("hf_")]
    peer = min(peers, key=lambda key: summaries[key].median, default=None)
    # Both differ by a tenth, which is less than two steps of the same program do here: only many rounds tell.
    compared = [key for key in (f"ours_{own}", peer, "gemm") if key is not None]
    many = interleave({key: cases[key] for key in compared}, *scale.rounds(61, 71))
    summaries |= {key: summarise(samples) for key, samples in many.items()}

    tokens = batch * shape.context
    flops, gemm_flops = shape.flops_per_token(shape.context) * tokens, 2 * side**3
    peak = gemm_flops / summaries["gemm"].median
    ours, plain = summaries[f"ours_{own}"], summaries["ours_fp32"]
    details: dict[str, object] = {}
    if peer is not None:
        outcome.compare_rounds(f"step_{name}_vs_hf", many[peer], many[f"ours_{own}"])
        details["fp32_vs_hf_fp32"] = round(summaries["hf_fp32"].median / plain.median, 4)
    outcome.details[f"step_{name}"] = {
        "batch": [batch, shape.context],
        "n_params": shape.n_params,
        "precision": own,
        "attention_of_hf": getattr(steps.get("hf_fp32"), "attention", None),
        "tokens_per_second": {key: round(tokens / s.median, 1) for key, s in summaries.items() if key != "gemm"},
        "gemm_peak_gflops": round(peak / 1e9, 1),
        "fp32_share_of_gemm_peak": round(flops / plain.median / peak, 4),
        **details,
        **_facts(summaries),
    }
    if name == "12m":
        outcome.compare("step_12m_vs_gemm_peak", summaries["gemm"], ours, flops / gemm_flops)


def _gemm(side: int, seconds: float) -> Case:
    """A float32 matrix product of `side` cubed."""
    a, b, product = torch.randn(side, side), torch.randn(side, side), torch.empty(side, side)

    def run() -> None:
        torch.mm(a, b, out=product)

    return Case(run, repeats=repeats_for(run, seconds))


def _measure_optimizers(outcome: Outcome, scale: Scale, shape: ModelShape) -> None:
    """Clip and update alone. The gradients are restored before each call; their norm of 3.6 (12m) has to be clipped."""
    engine = EngineStep(fresh(shape), batch=1)
    noise = torch.randn(shape.n_params, generator=torch.Generator().manual_seed(1)) * 1e-3
    weak = noise * 0.1
    named = shape.parameters()
    parameters = [torch.nn.Parameter(engine.flat.weight(name).clone()) for name, _ in named]
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter)
    default = torch.optim.AdamW(parameters, lr=LR, weight_decay=0.1)

    def restore_flat(gradient: Tensor) -> None:
        engine.flat.g.copy_(gradient)

    def restore_tensors() -> None:
        parts = torch.split(noise, [parameter.numel() for parameter in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            assert parameter.grad is not None
            parameter.grad.copy_(part.view_as(parameter))

    def ours() -> None:
        engine.step += 1
        engine.optimizer.step(engine.step, LR)

    def theirs() -> None:
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        default.step()

    restore_tensors()
    seconds = 0.0 if scale.quick else SAMPLE_SECONDS
    cases = {
        "ours": Case(ours, lambda: restore_flat(noise), repeats_for(ours, seconds)),
        "ours_without_clipping": Case(ours, lambda: restore_flat(weak), repeats_for(ours, seconds)),
        "default": Case(theirs, restore_tensors, repeats_for(theirs, seconds)),
    }
    taken = interleave(cases, *scale.rounds(7, 11))
    summaries = {key: summarise(samples) for key, samples in taken.items()}
    outcome.compare("optimizer_vs_default_adamw", summaries["ours"], summaries["default"])
    outcome.details["optimizer"] = _facts(summaries)


def _facts(summaries: dict[str, Summary]) -> dict[str, object]:
    return {key: summary.facts() for key, summary in summaries.items()}
