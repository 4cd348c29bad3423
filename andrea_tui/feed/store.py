"""Everything the screen shows. One writer: the UI thread applies updates; widgets only read."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from andrea_engine.run.arms import ArmRow, arm_rows, focus_text
from andrea_engine.run.condition import Condition
from andrea_engine.run.config import RunConfig
from andrea_engine.run.events import Event
from andrea_engine.run.heartbeat import Heartbeat, Telemetry
from andrea_engine.run.loss_entry import LossEntry
from andrea_engine.run.samples import Sample
from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.saves import SaveFollower
from andrea_tui.feed.update import EntryBatch, Update

EVENTS_KEPT = 2000
POWER_SECONDS = 600.0
TREND_STEPS = 1000


@dataclass(frozen=True, slots=True)
class RunMark:
    """An event on the loss curve. `kind`: save, start, halt, pivot, alarm."""

    step: int
    kind: str


@dataclass(slots=True)
class Store:
    """Facts of one run. `version` grows with every change that may be visible."""

    version: int = 0
    loss: Series = field(default_factory=Series)
    ema: Series = field(default_factory=Series)
    abandoned: list[Series] = field(default_factory=list)
    score: Series = field(default_factory=Series)
    validation: Series = field(default_factory=Series)
    last: LossEntry | None = None
    nonfinite_steps: list[int] = field(default_factory=list)
    energy_j: float | None = None
    condition: Condition = field(default_factory=lambda: Condition("missing", alive=False, sentence="reading"))
    heartbeat: Heartbeat | None = None
    config: RunConfig | None = None
    samples: tuple[Sample, ...] = ()
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))
    marks: list[RunMark] = field(default_factory=list)
    saves: SaveFollower = field(default_factory=SaveFollower)
    problems: tuple[str, ...] = ()
    complete: bool = False
    read_share: float = 0.0
    disk_free: int | None = None
    checkpoints: int | None = None
    newest_checkpoint: int | None = None
    updated: float = 0.0
    alarm: str = ""
    load: deque[tuple[float, float]] = field(default_factory=deque)  # (time, watts or CPU percent)
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=240))  # tokens per second
    _snapshot: dict[str, object] | None = None
    _snapshot_step: int = -1

    def apply(self, update: Update) -> None:
        """Take one update in."""
        for batch in update.batches:
            self._take_entries(batch)
        for event in update.events:
            self._take_event(event)
        if update.samples is not None:
            self.samples = update.samples
        if update.snapshot is not None:
            self._snapshot = update.snapshot
        if update.config is not None:
            self.config = update.config
        if update.disk_free is not None:
            self.disk_free = update.disk_free
        if update.checkpoints is not None:
            self.checkpoints, self.newest_checkpoint = update.checkpoints, update.newest_checkpoint
        self.problems = update.problems
        self.condition, self.heartbeat = update.condition, update.heartbeat
        self.complete, self.read_share = update.complete, update.read_share
        self.updated = update.time
        self._take_telemetry(update)
        self.saves.look(update.heartbeat, alive=update.condition.alive)
        self.version += 1

    def _take_entries(self, batch: EntryBatch) -> None:
        if batch.drop_from is not None and len(self.loss):
            old = self.loss.truncate_from(batch.drop_from)
            self.ema.truncate_from(batch.drop_from)
            self.nonfinite_steps = [step for step in self.nonfinite_steps if step < batch.drop_from]
            if len(old):
                self.abandoned.append(old)
        entries = batch.entries
        self.loss.extend([e.step for e in entries], [math.nan if e.loss is None else e.loss for e in entries])
        with_ema = [e for e in entries if e.ema is not None]
        self.ema.extend([e.step for e in with_ema], [e.ema for e in with_ema if e.ema is not None])
        self.nonfinite_steps += [e.step for e in entries if e.nonfinite]
        self.last = entries[-1] if entries else batch.left
        self.energy_j = next((e.energy_j for e in reversed(entries) if e.energy_j is not None), self.energy_j)

    def _take_event(self, event: Event) -> None:
        self.events.append(event)
        self.saves.take(event)
        step = event.step
        if event.kind == "save_durable" and event.facts.get("pinned") is True and step is not None:
            self.marks.append(RunMark(step, "save"))
        elif event.kind == "resumed" and step:
            self.marks.append(RunMark(step, "start"))
        elif event.kind == "halt" and step is not None:
            self.marks.append(RunMark(step, "halt"))
        elif event.kind == "pivot" and step is not None:
            self.marks.append(RunMark(step, "pivot"))
        elif event.kind in ("sample", "validation") and step is not None:
            series, name = (self.score, "total") if event.kind == "sample" else (self.validation, "loss")
            value = event.number(name)
            if value is not None:
                if series.x_max is not None and step <= series.x_max:
                    series.truncate_from(step)  # a later session made it again
                series.append(step, value)
        self._note_alarm(event)

    def _note_alarm(self, event: Event) -> None:
        if event.kind == "gate":
            self.alarm = "" if event.text("alarm") == "recovered" else event.text("text")
        elif event.kind in ("save_failed", "error"):
            self.alarm = event.text("error")
        elif event.kind in ("save_durable", "resumed"):
            self.alarm = ""

    def _take_telemetry(self, update: Update) -> None:
        beat = update.heartbeat
        if beat is None or not update.condition.alive:
            return
        self._snapshot_live(beat)
        telemetry = beat.telemetry
        if telemetry is None or (self.load and telemetry.time <= self.load[-1][0]):
            return
        value = total_power(telemetry)
        if value is None:
            value = telemetry.cpu_percent
        if value is not None:
            self.load.append((telemetry.time, value))
        while self.load and telemetry.time - self.load[0][0] > POWER_SECONDS:
            self.load.popleft()
        if beat.tokens_per_second is not None:
            self.rates.append(beat.tokens_per_second)

    def _snapshot_live(self, beat: Heartbeat) -> None:
        if beat.curriculum is not None and beat.step >= self._snapshot_step:
            self._snapshot = beat.curriculum
            self._snapshot_step = beat.step

    # -- what widgets ask ---------------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """The newest step known."""
        recorded = self.last.step if self.last else 0
        beat = self.heartbeat
        return max(recorded, beat.step if beat and self.condition.alive else 0)

    @property
    def nonfinite(self) -> int:
        """Steps whose loss or gradient was not finite."""
        return len(self.nonfinite_steps)

    @property
    def total_steps(self) -> int | None:
        if self.config is not None:
            return self.config.schedule.steps
        return self.heartbeat.total_steps or None if self.heartbeat else None

    @property
    def n_params(self) -> int | None:
        if self.config is not None:
            return self.config.n_params
        return self.heartbeat.n_params if self.heartbeat else None

    @property
    def arms(self) -> list[ArmRow]:
        return arm_rows(self._snapshot)

    @property
    def focus(self) -> str:
        return focus_text(self._snapshot, self.step)

    @property
    def gate_low(self) -> int | None:
        """Samples in a row below the threshold, as the engine counted at the last sample."""
        for event in reversed(self.events):
            if event.kind == "sample":
                return event.integer("consecutive_low")
        return None

    @property
    def telemetry(self) -> Telemetry | None:
        return self.heartbeat.telemetry if self.heartbeat and self.condition.alive else None

    def ema_trend(self) -> float | None:
        """Change of the EMA over the last `TREND_STEPS` steps (or half the record, if shorter), per 1,000 steps."""
        if self.last is None or len(self.ema) < 20 or self.ema.x_max is None or self.ema.x_min is None:
            return None
        now = self.ema.value_at(self.ema.x_max)
        span = min(TREND_STEPS, (self.ema.x_max - self.ema.x_min) / 2)
        before = self.ema.value_at(self.ema.x_max - span)
        if now is None or before is None or now[0] <= before[0]:
            return None
        return (now[1] - before[1]) / (now[0] - before[0]) * 1000

    def age(self) -> float | None:
        """Seconds since the last finished step; None when the engine has not finished one."""
        beat = self.heartbeat
        return max(0.0, self.updated - beat.step_time) if beat is not None and beat.step_time is not None else None


def total_power(telemetry: Telemetry) -> float | None:
    """Watts of all GPUs; None when there is none, or one of them does not tell."""
    powers = [gpu.power_w for gpu in telemetry.gpus]
    known = [power for power in powers if power is not None]
    return sum(known) if known and len(known) == len(powers) else None
