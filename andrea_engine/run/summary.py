"""All facts of a run in one value: what `status`, `--once` and `--json` print, and the screen shows."""

from __future__ import annotations

import math
import os
import shutil
import time
from bisect import bisect_right

import msgspec

from andrea_engine.run.arms import arm_rows, focus_text
from andrea_engine.run.checkpoint import checkpoint_bytes, list_checkpoints
from andrea_engine.run.condition import condition
from andrea_engine.run.config import RunConfig, load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.energy_facts import JOULES_PER_KWH, cost, energy_span, last_quality
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import BranchPoint, Event, branch_point, on_branch, pinned_steps, read_events
from andrea_engine.run.forecast import forecast_disk
from andrea_engine.run.gate_facts import gate_facts
from andrea_engine.run.heartbeat import Heartbeat, LastSave, Saving, Telemetry
from andrea_engine.run.launch import engine_status
from andrea_engine.run.loss_entry import LossEntry, current_branch
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.plain import clean
from andrea_engine.run.rank_facts import Rank, Straggler, straggler
from andrea_engine.run.samples import Sample, read_samples
from andrea_engine.run.smoothing import Ema, trend
from andrea_engine.run.state import read_state

RECENT_EVENTS = 50


class CheckpointFact(msgspec.Struct, frozen=True):
    file: str
    step: int
    bytes: int
    pinned: bool
    problem: str | None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Facts; None is unknown. Times are seconds since the epoch, energy is kWh, sizes are bytes.

    `energy_complete` False: the energy is a lower bound. `energy_estimated`: integrated from power readings. `cost` is
    in `currency`.

    `ema`: of the loss, beta 0.99. `ema_trend`: change of the recorded EMA a thousand steps, over the last `TREND_STEPS`
    (or half the record, if shorter). `idle_seconds`: without progress, of a stalled engine only.

    `gate_low_in_row` to `alarms` are the coherence gate's: see `GateFacts`.
    """

    run: str
    state: str
    sentence: str
    advice: str
    idle_seconds: float | None
    exit_code: int | None
    alive: bool
    pid: int | None
    session: int | None
    preset: str | None
    device: str | None
    n_params: int | None
    step: int
    target_step: int | None
    total_steps: int | None
    entries: int
    first_loss: float | None
    loss: float | None
    ema: float | None
    ema_trend: float | None
    validation_loss: float | None
    lr: float | None
    grad_norm: float | None
    nonfinite_steps: int
    source: str | None
    step_time: float | None
    step_seconds: float | None
    steps_per_minute: float | None
    tokens_per_second: float | None
    ranks: list[Rank]
    straggler: Straggler | None
    mfu: float | None
    eta_seconds: float | None
    power_w: float | None
    energy_kwh: float | None
    energy_complete: bool | None
    energy_estimated: bool | None
    joules_per_token: float | None
    cost: float | None
    currency: str
    telemetry: Telemetry | None
    saving: Saving | None
    last_save: LastSave | None
    checkpoints: list[CheckpointFact]
    disk_free: int | None
    disk_full_at: int | None
    checkpoint_bytes: int | None
    samples: int
    sample: Sample | None
    gate_low_in_row: int | None
    gate_threshold: float | None
    gate_consecutive: int | None
    window_low: int | None
    window_filled: int | None
    last_good_step: int | None
    first_bad_step: int | None
    alarms: list[str]
    focus: str
    arms: list[dict[str, object]]
    policy: int
    events: list[dict[str, object]]
    problems: list[str]
    time: float


def summarise(directory: RunDirectory) -> Summary:
    """Read a run directory once. Never raises for its content: what cannot be read stands in `problems`."""
    problems: list[str] = []
    status = engine_status(directory)
    state = condition(directory, status)
    config = _config(directory, problems)
    reader = LossReader(directory.loss_record())
    recorded = [*reader.read_all(), *LossReader(directory.journal).read_all()]
    if reader.damage.lines:
        problems.append(f"{reader.damage.lines:,} unreadable line(s) in {reader.path.name}")
    if reader.unparseable:
        problems.append(f"{reader.path.name} is not JSON: {reader.unparseable}")
    events = read_events(directory.events)
    point = branch_point(events)
    entries = on_branch(current_branch(recorded), point)
    beat = status.heartbeat
    samples = _samples(directory, problems)
    snapshot = (beat.curriculum if beat else None) or _state(directory, problems)
    last = entries[-1] if entries else None
    step = max(last.step if last else 0, beat.step if beat and state.alive else 0)
    n_params = (beat.n_params if beat else None) or (config.n_params if config else None)
    typical = beat.step_seconds if beat and state.alive else None
    checkpoints, free = _checkpoints(directory, config, events), _free(directory)
    gate = gate_facts(events)
    energy, quality = energy_span(entries), last_quality(events)
    return Summary(
        run=str(directory.path),
        state=state.word,
        sentence=state.sentence,
        advice=state.advice,
        idle_seconds=state.idle,
        exit_code=beat.exit_code if beat and not state.alive else None,
        alive=state.alive,
        pid=beat.pid if beat and state.alive else None,
        session=beat.session if beat else None,
        preset=config.preset or None if config else None,
        device=beat.device or None if beat else None,
        n_params=n_params,
        step=step,
        target_step=beat.target_step or None if beat else None,
        total_steps=config.schedule.steps if config else None,
        entries=len(entries),
        first_loss=next((e.loss for e in entries if e.loss is not None), None),
        loss=last.loss if last else None,
        ema=_ema(entries),
        ema_trend=_ema_trend(entries),
        validation_loss=next((e.number("loss") for e in reversed(events) if e.kind == "validation"), None),
        lr=last.lr if last else None,
        grad_norm=last.grad_norm if last else None,
        nonfinite_steps=sum(1 for e in entries if e.nonfinite),
        source=last.source if last else None,
        step_time=beat.step_time if beat else None,
        step_seconds=typical,
        steps_per_minute=60.0 / typical if typical else None,
        tokens_per_second=beat.tokens_per_second if beat and state.alive else None,
        ranks=beat.ranks if beat and state.alive else [],
        straggler=straggler(beat.ranks) if beat and state.alive else None,
        mfu=beat.mfu if beat and state.alive else None,
        eta_seconds=beat.eta_seconds if beat and state.alive else None,
        power_w=last.power_w if last else None,
        energy_kwh=energy.last_j / JOULES_PER_KWH if energy else None,
        energy_complete=quality.complete,
        energy_estimated=quality.estimated,
        joules_per_token=energy.joules_per_token(config) if energy else None,
        cost=cost(energy.last_j, config) if energy else None,
        currency=config.power.currency if config else "",
        telemetry=beat.telemetry if beat and state.alive else None,
        saving=beat.saving if beat and state.alive else None,
        last_save=_last_save(beat, events, point),
        checkpoints=checkpoints,
        disk_free=free,
        disk_full_at=_full_at(config, step, checkpoints, free),
        checkpoint_bytes=checkpoint_bytes(n_params) if n_params else None,
        samples=len(samples),
        sample=samples[-1] if samples else None,
        gate_low_in_row=gate.low_in_row if gate else None,
        gate_threshold=config.gate.threshold if config else None,
        gate_consecutive=config.gate.consecutive if config else None,
        window_low=gate.window_low if gate else None,
        window_filled=gate.window_filled if gate else None,
        last_good_step=gate.last_good_step if gate else None,
        first_bad_step=gate.first_bad_step if gate else None,
        alarms=gate.alarms if gate else [],
        focus=focus_text(snapshot, step),
        arms=[msgspec.structs.asdict(row) for row in arm_rows(snapshot)],
        policy=directory.policy_generation(),
        events=[{**e.facts, "time": e.time, "kind": e.kind, "session": e.session} for e in events[-RECENT_EVENTS:]],
        problems=[clean(problem) for problem in problems],  # names in them need not be UTF-8
        time=round(time.time(), 3),
    )


def _config(directory: RunDirectory, problems: list[str]) -> RunConfig | None:
    if not directory.exists():
        return None
    try:
        return load_config(directory)
    except RunError as error:
        problems.append(str(error))
        return None


def _samples(directory: RunDirectory, problems: list[str]) -> list[Sample]:
    try:
        return read_samples(directory.sample_record())
    except RunError as error:
        problems.append(str(error))
        return []


def _state(directory: RunDirectory, problems: list[str]) -> dict[str, object] | None:
    try:
        return read_state(directory.state)
    except RunError as error:
        problems.append(str(error))
        return None


def _ema(entries: list[LossEntry]) -> float | None:
    """What the record says, where each of its entries has it; else computed from the losses."""
    if all(entry.ema is not None for entry in entries):
        return entries[-1].ema if entries else None
    ema = Ema()
    for entry in entries:
        ema.update(entry.loss)
    return ema.value


def _ema_trend(entries: list[LossEntry]) -> float | None:
    def nearest(step: float) -> tuple[float, float]:
        index = bisect_right(entries, step, key=lambda entry: entry.step)
        if index == len(entries) or (index > 0 and step - entries[index - 1].step <= entries[index].step - step):
            index -= 1
        entry = entries[index]
        return entry.step, math.nan if entry.ema is None else entry.ema

    return trend(len(entries), entries[0].step, entries[-1].step, nearest) if entries else None


def _last_save(beat: Heartbeat | None, events: list[Event], point: BranchPoint | None) -> LastSave | None:
    """The newest checkpoint on the way to the present weights."""

    def left_behind(step: int, session: int) -> bool:
        return point is not None and point.leaves_behind(step, session)

    if beat is not None and beat.last_save is not None and not left_behind(beat.last_save.step, beat.session):
        return beat.last_save
    for event in reversed(events):
        if event.kind == "save_durable" and event.step is not None and not left_behind(event.step, event.session):
            size, seconds = event.integer("bytes") or 0, event.number("seconds") or 0.0
            return LastSave(step=event.step, bytes=size, seconds=seconds, time=event.time, reason=event.text("reason"))
    return None


def _checkpoints(directory: RunDirectory, config: RunConfig | None, events: list[Event]) -> list[CheckpointFact]:
    pinned = pinned_steps(events)
    return [
        CheckpointFact(f.path.name, f.step, f.bytes, f.step in pinned, f.problem)
        for f in list_checkpoints(directory.path, config.n_params if config else None)
    ]


def _full_at(config: RunConfig | None, step: int, checkpoints: list[CheckpointFact], free: int | None) -> int | None:
    """Step at which the disk will be full at this keep rule; None when it lasts, or is not known."""
    if config is None or free is None:
        return None
    kept = sum(1 for checkpoint in checkpoints if checkpoint.problem is None)
    return forecast_disk(config.checkpoint, config.n_params, step, config.schedule.steps, kept, free).full_at


def _free(directory: RunDirectory) -> int | None:
    path = directory.path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free if os.access(path, os.R_OK) else None
    except OSError:
        return None
