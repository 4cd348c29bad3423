"""A summary as plain text for people: short lines, units behind numbers, no control bytes from content."""

from __future__ import annotations

import json
import time

import msgspec

from andrea_engine.run.plain import clean, duration, size
from andrea_engine.run.summary import Summary


def render(s: Summary) -> str:
    """The facts in the order of the screen: alive, healthy, cost, details."""
    lines = [f"run         {clean(s.run)}", f"state       {clean(s.state)}: {clean(s.sentence)}"]
    if s.advice:
        lines.append(f"advice      {clean(s.advice)}")
    if s.n_params:
        where = f" on {clean(s.device)}" if s.device else ""
        lines.append(f"model       {s.n_params:,} parameters{where}")
    lines.append(f"step        {s.step:,}{f' of {s.total_steps:,}' if s.total_steps else ''}{_pace(s)}")
    if s.ranks:
        slow = f"; {clean(s.straggler.sentence)}" if s.straggler else ""
        lines.append(f"ranks       {len(s.ranks):,} processes{slow}")
    if s.entries:
        ema = f"EMA {_number(s.ema)}{_trend(s)}"
        lines.append(f"loss        {_number(s.loss)}  {ema}  first {_number(s.first_loss)} nats")
        lines.append(f"validation  {_number(s.validation_loss)} nats on text never trained on")
        lines.append(f"optimiser   lr {_small(s.lr)}  grad norm {_number(s.grad_norm)}")
    if s.nonfinite_steps:
        lines.append(f"not finite  {s.nonfinite_steps:,} step(s)")
    lines.append(f"power       {_power(s)}")
    lines += _sample(s)
    lines += [_arm(row) for row in s.arms]
    lines += _saves(s)
    lines += [f"problem     {clean(problem)}" for problem in s.problems]
    return "\n".join(lines)


def _trend(s: Summary) -> str:
    return "" if s.ema_trend is None else f" ({s.ema_trend:+.4f} per 1,000 steps)"


def _pace(s: Summary) -> str:
    if s.steps_per_minute is None:
        return ""
    tokens = f", {s.tokens_per_second:,.0f} tokens/s" if s.tokens_per_second else ""
    left = f", ETA {duration(s.eta_seconds)}" if s.eta_seconds is not None else ""
    return f", {s.steps_per_minute:.1f} steps/min{tokens}{left}"


def _power(s: Summary) -> str:
    energy = _energy(s)
    if s.power_w is not None:
        return f"{s.power_w:.0f} W, {energy}"
    why = s.telemetry.gpu_problem if s.telemetry else ""
    return f"unknown{f' ({clean(why)})' if why else ''}, {energy}"


def _energy(s: Summary) -> str:
    if s.energy_kwh is None:
        return "energy unknown"
    least = "at least " if s.energy_complete is False else ""
    guess = " (estimated)" if s.energy_estimated else ""
    token = f", {s.joules_per_token:.3g} J/token" if s.joules_per_token is not None else ""
    price = f", {s.cost:,.2f} {clean(s.currency)}".rstrip() if s.cost is not None else ""
    return f"{least}{s.energy_kwh:.3f} kWh so far{guess}{token}{price}"


def _sample(s: Summary) -> list[str]:
    if s.sample is None:
        return [f"sample      {_none_yet(s)}"]
    scores = s.sample.scores
    if scores is None:
        points = "not scored"
    else:
        points = (
            f"{scores.total:.1f} of 100 (bigram {scores.bigram:.1f}, trigram {scores.trigram:.1f}, "
            f"English {scores.english:.1f}, characters {scores.character:.1f})"
        )
    gate = ""
    if s.gate_low_in_row is not None and s.gate_consecutive is not None:
        gate = f", gate {s.gate_low_in_row} of {s.gate_consecutive} below {s.gate_threshold:g}"
    text = clean(" ".join(s.sample.text.split()))[:160]
    lines = [f"sample      step {s.sample.step:,}: {points}{gate}", f"            {text}"]
    if s.alarms:
        good = "none yet" if s.last_good_step is None else f"step {s.last_good_step:,}"
        window = f"{s.window_low} of the last {s.window_filled} samples low"
        lines.append(f"alarm       {clean(', '.join(s.alarms))}: {window}, last good sample {good}")
    return lines


def _none_yet(s: Summary) -> str:
    """A pivot archives the samples made until then."""
    if not s.policy:
        return "none yet"
    step = next((event.get("step") for event in reversed(s.events) if event["kind"] == "pivot"), None)
    return f"none since the pivot at step {step:,}" if isinstance(step, int) else "none since the last pivot"


def _arm(row: dict[str, object]) -> str:
    share, weight = row["share"], row["weight"]
    parts = [
        f"arm         {clean(str(row['name'])):<20}",
        f"share {share:6.1%}" if isinstance(share, float) else "share unknown",
        f"pulls {row['pulls']:>6,}" if isinstance(row["pulls"], int) else "pulls unknown",
        f"weight {weight:5.2f}" if isinstance(weight, float) else "weight unknown",
        clean(str(row["held_by"] if row["available"] else row["reason"] or "unavailable")),
    ]
    return "  ".join(parts)


def _saves(s: Summary) -> list[str]:
    lines = []
    if s.last_save is not None:
        save = s.last_save
        age = duration(max(0.0, time.time() - save.time))
        lines.append(f"saved       step {save.step:,} ({size(save.bytes)}, {save.seconds:.1f} s), {age} ago")
    valid = [c for c in s.checkpoints if c.problem is None]
    free = f", {size(s.disk_free)} free" if s.disk_free is not None else ""
    full = f", disk full at about step {s.disk_full_at:,}" if s.disk_full_at is not None else ""
    lines.append(f"checkpoints {len(valid)} valid{free}{full}")
    lines += [f"            {clean(c.file)} is not valid: {clean(c.problem)}" for c in s.checkpoints if c.problem]
    return lines


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def _small(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2e}"


def as_json(s: Summary) -> str:
    """JSON that any encoding can print and no terminal obeys: everything but printable ASCII is escaped.

    A number of an event that is not finite is null.
    """
    finite = json.loads(json.dumps(msgspec.to_builtins(s)), parse_constant=lambda word: None)
    return json.dumps(finite, indent=1, allow_nan=False).replace("\x7f", "\\u007f")
