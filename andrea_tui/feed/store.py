"""Everything the screen shows. One writer: the UI thread applies updates; widgets only read."""

from __future__ import annotations

import math
from collections import deque

import msgspec

from andrea_engine.run.arms import ArmRow, arm_rows, focus_text
from andrea_engine.run.condition import Condition
from andrea_engine.run.config import RunConfig
from andrea_engine.run.energy_facts import EnergyQuality, EnergySpan, energy_quality
from andrea_engine.run.events import BranchPoint, Event, branch_point
from andrea_engine.run.heartbeat import Heartbeat, Telemetry
from andrea_engine.run.loss_entry import LossEntry
from andrea_engine.run.rank_facts import Rank
from andrea_engine.run.samples import Sample
from andrea_engine.run.smoothing import trend
from andrea_tui.feed.clock import ANCHORS
from andrea_tui.feed.last_words import LogTail
from andrea_tui.feed.load import POWER_SECONDS, LoadHistory
from andrea_tui.feed.marks import Marks, add_branch
from andrea_tui.feed.past import Past
from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.record import Record
from andrea_tui.feed.saves import SaveFollower
from andrea_tui.feed.update import EntryBatch, OtherUpdate, Update

EVENTS_KEPT = 2000
RATES_KEPT = 240  # seconds
LONGEST_GAP = 10.0  # seconds between two readings, that a rate may stand for
FACTS_KEPT = 40  # of an event
LONGEST = 4096  # characters of one of its texts
LONGEST_NAME = 64
ARMS_VALIDATED = 100  # arms whose validation losses are kept


class OtherRun(msgspec.Struct):
    """The run drawn beside this one (`--compare`)."""

    name: str
    record: Record = msgspec.field(default_factory=Record)
    complete: bool = False


class Store(msgspec.Struct):
    """Facts of one run. `version` grows with every change that may be visible."""

    version: int = 0
    record: Record = msgspec.field(default_factory=Record)
    abandoned: list[Series] = msgspec.field(default_factory=list)
    score: Series = msgspec.field(default_factory=Series)
    validation: Series = msgspec.field(default_factory=Series)
    arm_validation: dict[str, Series] = msgspec.field(default_factory=dict)
    other: OtherRun | None = None
    last: LossEntry | None = None
    energy: EnergySpan | None = None
    energy_quality: EnergyQuality = msgspec.field(default_factory=EnergyQuality)
    condition: Condition = msgspec.field(default_factory=lambda: Condition("missing", alive=False, sentence="reading"))
    heartbeat: Heartbeat | None = None
    config: RunConfig | None = None
    samples: tuple[Sample, ...] = ()
    past_samples: tuple[Sample, ...] = ()  # of earlier policies
    events: deque[Event] = msgspec.field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))
    marks: Marks = msgspec.field(default_factory=Marks)
    saves: SaveFollower = msgspec.field(default_factory=SaveFollower)
    problems: tuple[str, ...] = ()
    log_tail: LogTail | None = None
    complete: bool = False
    read_share: float = 0.0
    disk_free: int | None = None
    checkpoints: int | None = None
    newest_checkpoint: int | None = None
    updated: float = 0.0
    pause: float | None = None  # seconds between looks at a living engine
    alarm: str = ""
    load: LoadHistory = msgspec.field(default_factory=LoadHistory)
    rates: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=RATES_KEPT))  # tokens per second
    _snapshot: dict[str, object] | None = None
    _snapshot_step: int = -1
    _arms: tuple[object, list[ArmRow]] | None = None  # of which snapshot
    _rates_told: bool = False
    _power_told: bool = False
    _point: BranchPoint | None = None
    _begun: int = -1  # the step that the present session went on from

    def apply(self, update: Update) -> None:
        """Take one update in."""
        for event in update.events:  # before the entries: their clock takes moments that lie before them
            self._take_event(event)
        self._point = branch_point(update.events, self._point)
        for batch in update.batches:
            self._take_entries(batch)
        if update.other is not None:
            self._take_other(update.other)
        if update.samples is not None:
            self.samples = update.samples
        if update.past_samples is not None:
            self.past_samples = update.past_samples
        if update.snapshot is not None:
            self._snapshot = update.snapshot
        if update.config is not None:
            self.config = update.config
            self.record.tokens_per_step = update.config.tokens_per_step
        if update.disk_free is not None:
            self.disk_free = update.disk_free
        if update.checkpoints is not None:
            self.checkpoints, self.newest_checkpoint = update.checkpoints, update.newest_checkpoint
        self.problems = update.problems
        if update.log_tail is not None:
            self.log_tail = update.log_tail
        self.condition, self.heartbeat = update.condition, update.heartbeat
        self.complete, self.read_share = update.complete, update.read_share
        if self.complete:
            self._leave_behind()
        self.updated, self.pause = update.time, update.pause
        self._take_telemetry(update)
        self.saves.look(update.heartbeat, alive=update.condition.alive)
        self.version += 1

    def _take_entries(self, batch: EntryBatch) -> None:
        if batch.drop_from is not None:
            self.marks.drop("nonfinite", batch.drop_from)
        columns = batch.as_columns()
        abandoned = self.record.add(columns, batch.drop_from)
        if abandoned is not None:
            add_branch(self.abandoned, abandoned)
        if batch.drop_from is not None and self.energy is not None and batch.drop_from <= self.energy.first_step:
            self.energy = None
        if columns is None:
            self.last = batch.left
            return
        for index in columns.nonfinite:
            if not math.isnan(columns.loss[index]):  # a lost loss is marked by the curve itself
                self.marks.add(int(columns.steps[index]), "nonfinite")
        self.last = columns.last
        if columns.energy is not None:
            self.energy = columns.energy if self.energy is None else self.energy.up_to(columns.energy)

    def _leave_behind(self) -> None:
        """After a roll-back or a resume the run stands where it goes on, also before it has made a step."""
        point, last = self._point, self.last
        if point is None or last is None or not point.leaves_behind(last.step, last.session):
            return
        first = point.step + 1
        index = self.record.index_of(point.step)
        stays = index is not None and self.record.steps[index] <= point.step
        left = self.record.entry(index) if index is not None and stays else None
        self._take_entries(EntryBatch((), drop_from=first, left=left))
        for series in (self.score, self.validation, *self.arm_validation.values()):
            series.truncate_from(first)
        if self.energy is not None and left is not None and left.energy_j is not None:
            self.energy = msgspec.structs.replace(self.energy, last_step=left.step, last_j=left.energy_j)

    def _take_event(self, event: Event) -> None:
        self.events.append(_slim(event))
        self.saves.take(event)
        if event.kind == "energy":
            self.energy_quality = energy_quality(event)
        step = event.step
        if step is not None:
            kind = _mark_of(event)
            if kind:
                self.marks.add(step, kind)
            if event.kind == "resumed":
                self._begun = step
            if event.kind in ANCHORS:
                self.record.clock.add(step, event.time, self.record.loss.x_max)
            if event.kind in ("sample", "validation"):
                self._take_measurement(event, step)
        self._note_alarm(event)

    def _take_measurement(self, event: Event, step: int) -> None:
        if event.kind == "sample":
            _measured(self.score, step, event.number("total"))
            return
        _measured(self.validation, step, event.number("loss"))
        arms = event.facts.get("arms")
        for name, value in arms.items() if isinstance(arms, dict) else ():
            if isinstance(value, (int, float)) and math.isfinite(value):
                if name not in self.arm_validation and len(self.arm_validation) < ARMS_VALIDATED:
                    self.arm_validation[name] = Series()
                _measured(self.arm_validation.get(name, Series()), step, float(value))

    def _take_other(self, update: OtherUpdate) -> None:
        if self.other is None:
            self.other = OtherRun(update.name)
        record = self.other.record
        record.tokens_per_step = update.tokens_per_step
        for step, moment in update.anchors:
            record.clock.add(step, moment, record.loss.x_max)
        for batch in update.batches:
            record.take(batch)
        self.other.complete = update.complete

    def _note_alarm(self, event: Event) -> None:
        if event.kind == "gate":
            self.alarm = "" if event.text("alarm") == "recovered" else event.text("text")
        elif event.kind in ("save_failed", "error"):
            self.alarm = event.text("error")
        elif event.kind in ("save_durable", "resumed"):
            self.alarm = ""

    def _take_telemetry(self, update: Update) -> None:
        beat = update.heartbeat
        if beat is None:
            return
        if not update.condition.alive:
            self._tell_past_rates(beat)
            return
        self._snapshot_live(beat)
        telemetry = beat.telemetry
        if telemetry is not None and telemetry.time != self.load.time:
            since = telemetry.time - self.load.time if self.load.time is not None else 1.0
            self.load.take(telemetry)
            if beat.tokens_per_second is not None:  # one a second, however often the console looks
                self.rates.extend([beat.tokens_per_second] * round(min(max(since, 1.0), LONGEST_GAP)))
        if self.load.time is not None:
            self._tell_past_rates(beat)
            self._tell_past_power(beat)

    # What was before the first reading: whoever opens the console late sees as much as one who was there.

    def _tell_past_rates(self, beat: Heartbeat) -> None:
        tokens = self.record.tokens_per_step
        if self._rates_told or not self.complete or not tokens or beat.step_time is None:
            return
        self._rates_told = True
        before = Past(self.record, beat.step, beat.step_time, self._begun, RATES_KEPT).rates(tokens)
        del before[max(0, len(before) - len(self.rates)) :]
        missing = RATES_KEPT - len(self.rates)
        self.rates.extendleft(reversed(before[-missing:] if missing > 0 else []))

    def _tell_past_power(self, beat: Heartbeat) -> None:
        if self._power_told or not self.complete or beat.step_time is None:
            return
        self._power_told = True
        self.load.begin_with(Past(self.record, beat.step, beat.step_time, self._begun, POWER_SECONDS).watts())

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
    def loss(self) -> Series:
        """Loss of every step of the current branch; NaN where it was not finite."""
        return self.record.loss

    @property
    def ema(self) -> Series:
        """The recorded EMA of every step; NaN where the record has none."""
        return self.record.ema

    @property
    def nonfinite(self) -> int:
        """Steps whose loss or gradient was not finite."""
        return len(self.record.nonfinite_steps)

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
    def ranks(self) -> list[Rank]:
        """The processes of a living run that has several."""
        return self.heartbeat.ranks if self.heartbeat is not None and self.condition.alive else []

    @property
    def arms(self) -> list[ArmRow]:
        if self._arms is None or self._arms[0] is not self._snapshot:
            self._arms = (self._snapshot, arm_rows(self._snapshot))
        return self._arms[1]

    @property
    def focus(self) -> str:
        return focus_text(self._snapshot, self.step)

    @property
    def gate_low(self) -> int | None:
        """Samples in a row below the threshold, as the engine counted at the last sample; a pivot begins anew."""
        for event in reversed(self.events):
            if event.kind in ("sample", "pivot"):
                return event.integer("consecutive_low") if event.kind == "sample" else 0
        return None

    @property
    def energy_j(self) -> float | None:
        """Energy of the run so far, as far as it was measured."""
        return self.energy.last_j if self.energy is not None else None

    @property
    def telemetry(self) -> Telemetry | None:
        return self.heartbeat.telemetry if self.heartbeat and self.condition.alive else None

    def ema_trend(self) -> float | None:
        """Change of the recorded EMA a thousand steps, lately."""
        first, last = self.ema.x_min, self.ema.x_max
        return None if first is None or last is None else trend(len(self.ema), first, last, self.ema.value_at)

    def age(self) -> float | None:
        """Seconds since the last finished step; None when the engine has not finished one."""
        beat = self.heartbeat
        return max(0.0, self.updated - beat.step_time) if beat is not None and beat.step_time is not None else None


def _slim(event: Event) -> Event:
    """An event as long as it may be kept: what is deep or long in its facts is nothing that a line could show."""
    if all(_is_plain(value) for value in event.facts.values()) and len(event.facts) <= FACTS_KEPT:
        return event
    plain = [(name[:LONGEST_NAME], value) for name, value in event.facts.items() if _is_plain(value)]
    return msgspec.structs.replace(event, facts=dict(plain[:FACTS_KEPT]))


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= LONGEST)


def _mark_of(event: Event) -> str:
    """The kind of mark that an event is on the curve; '' for none."""
    if event.kind == "save_durable":
        return "save" if event.facts.get("pinned") is True else ""
    if event.kind == "gate":
        return "" if event.text("alarm") == "recovered" else "alarm"
    if event.kind == "resumed":
        return "start" if event.step else ""
    return event.kind if event.kind in ("halt", "pivot") else ""


def _measured(series: Series, step: int, value: float | None) -> None:
    if value is None:
        return
    if series.x_max is not None and step <= series.x_max:
        series.truncate_from(step)  # a later session made it again
    series.append(step, value)
