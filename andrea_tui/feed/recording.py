"""A recorded run, read for its replay: what is new at each later moment, as the tailer would tell it.

The record is read twice: once for the moments of its entries (16 bytes each stay in memory), and again while it plays.
Nothing is ever written.
"""

from __future__ import annotations

import statistics
import time
from bisect import bisect_right
from collections import deque

from andrea_engine.run.condition import Condition, condition
from andrea_engine.run.config import RunConfig, load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import Event, read_events
from andrea_engine.run.heartbeat import Gpu, Heartbeat, Telemetry
from andrea_engine.run.loss_entry import LossEntry, current_branch
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.samples import Sample
from andrea_engine.run.state import read_state
from andrea_tui.feed.branch import BranchFollower
from andrea_tui.feed.entries import CLOSING
from andrea_tui.feed.replay_arms import PulledArms
from andrea_tui.feed.replay_samples import Shown, past_at, show, stored_samples, visible_at
from andrea_tui.feed.timeline import Timeline, WallTime, place
from andrea_tui.feed.update import EntryBatch, Update

USUAL_STEPS = 20  # of which the usual duration is the median


class Recording:
    """Reads a run, then tells what is new at each later moment. `read` and `at` are called from one thread only."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self.timeline = Timeline()
        self.problems: tuple[str, ...] = ()
        self.end = 0.0
        self.config: RunConfig | None = None
        # The journal before the record: what is committed in between is then recognised by what the record ends with.
        self._journal = current_branch(LossReader(directory.journal).read_all())
        self._first = LossReader(directory.loss_record())
        self._last: LossEntry | None = None
        self._events: list[Event] = []
        self._moments: list[float] = []
        self._shown: list[Shown] = []
        self._wall = WallTime([], [], 0.0, 0.0)
        # What has been played so far.
        self._again = LossReader(self._first.path)
        self._waiting: deque[LossEntry] = deque()
        self._follower = BranchFollower()
        self._played = 0
        self._played_events = 0
        self._samples: tuple[Sample, ...] | None = None
        self._past_samples: tuple[Sample, ...] = ()
        self._arms = PulledArms()
        self._durations: deque[float] = deque(maxlen=USUAL_STEPS)
        self._device = ""
        self._begun = self._ended = False

    @property
    def share(self) -> float:
        """How much of the record has been read for its moments."""
        return min(1.0, self._first.end / self._first.size) if self._first.size else 1.0

    def read(self) -> bool:
        """Read on for a while; True when everything is known and `at` may be asked. Never raises for content."""
        before = self._first.end
        entries = self._first.read()
        if entries:
            self._last = entries[-1]
            self.timeline.add(entries)
        rest = self._first.size - self._first.end
        if self._first.lines_format and self._first.end != before and rest > CLOSING:
            return False
        last = self._last
        if last is not None:
            self._journal = [
                entry for entry in self._journal if (entry.session or 0, entry.step) > (last.session or 0, last.step)
            ]
        self.timeline.add(self._journal)
        self._read_the_rest()
        return True

    def _read_the_rest(self) -> None:
        directory = self.directory
        samples, problems = stored_samples(directory)
        try:
            self.config = load_config(directory) if directory.exists() else None
        except RunError as error:
            problems.append(str(error))
        if self._first.damage.lines:
            problems.append(f"{self._first.path.name}: {self._first.damage.lines:,} unreadable line(s)")
        self._events = read_events(directory.events)
        self._moments = place(self.timeline, self._events)
        self._shown = show(samples, self.timeline, self._events, self._moments)
        self.end = max(self.timeline.end, self._moments[-1] if self._moments else 0.0)
        try:
            written = self._first.path.stat().st_mtime
        except OSError:
            written = time.time()
        self._wall = WallTime(self._moments, self._events, self.end, written)
        self.problems = tuple(problems)

    def at(self, moment: float, word: str) -> Update:
        """What is new since the last call: all entries with a moment at or before this one, in their order, and what
        belongs to them. `word` is the run's state on the screen."""
        moment = min(moment, self.end)
        batches = self._play(self.timeline.count(moment))
        last_event = bisect_right(self._moments, moment)
        events = tuple(self._events[self._played_events : last_event])
        self._played_events = last_event
        for event in events:
            environment = event.facts.get("environment")
            if event.kind == "resumed" and isinstance(environment, dict):
                self._device = str(environment.get("device", ""))
        ended = moment >= self.end
        first, self._begun = not self._begun, True
        snapshot = self._arms.snapshot() if batches or first else None
        if ended and not self._ended:
            self._ended = True
            snapshot = self._last_snapshot() or snapshot
        wall = self._wall.at(moment)
        return Update(
            time=wall,
            condition=self._condition(word, ended=ended),
            heartbeat=self._heartbeat(wall),
            batches=tuple(batches),
            events=events,
            samples=self._new_samples(moment),
            past_samples=self._new_past_samples(moment),
            snapshot=snapshot,
            config=self.config if first else None,
            problems=self.problems,
        )

    def _condition(self, word: str, *, ended: bool) -> Condition:
        """As if an engine ran, so that everything is shown as it was then; at the end as the run is."""
        if not ended:
            return Condition(word, alive=True, sentence="a recorded run is played")
        sentence = f"the replay has ended, space plays it again; the run: {condition(self.directory).sentence}"
        return Condition(word, alive=False, sentence=sentence)

    def _play(self, count: int) -> list[EntryBatch]:
        """Hand out entries until `count` of them have been."""
        batches: list[EntryBatch] = []
        while self._played < count:
            if not self._waiting and not self._read_again():
                break
            entries = [self._waiting.popleft() for _ in range(min(count - self._played, len(self._waiting)))]
            self._played += len(entries)
            batches += self._follower.follow(entries, [])
            self._durations.extend([entry.seconds for entry in entries[-USUAL_STEPS:] if entry.seconds])
        for batch in batches:
            self._arms.take(batch)
        return batches

    def _read_again(self) -> bool:
        """More entries, first of the record and then of the journal; False when there are none, because the record
        got shorter since it was read for its moments."""
        before = self._again.end
        self._waiting.extend(self._again.read())
        if not self._waiting and self._again.end == before:
            self._waiting.extend(self._journal)
            self._journal = []
            return bool(self._waiting)
        return True

    def _new_samples(self, moment: float) -> tuple[Sample, ...] | None:
        samples = visible_at(self._shown, moment)
        if samples == self._samples:
            return None
        self._samples = samples
        return samples

    def _new_past_samples(self, moment: float) -> tuple[Sample, ...] | None:
        samples = past_at(self._shown, moment)
        if samples == self._past_samples:
            return None
        self._past_samples = samples
        return samples

    def _last_snapshot(self) -> dict[str, object] | None:
        """The state that the run has left."""
        try:
            return read_state(self.directory.state)
        except RunError:
            return None

    def _heartbeat(self, wall: float) -> Heartbeat | None:
        """What an engine could have said at the last entry, from what the entries hold."""
        last = self._follower.recorded
        if last is None:
            return None
        total = self.config.schedule.steps if self.config is not None else 0
        usual = statistics.median(self._durations) if self._durations else None
        tokens = self.config.tokens_per_step if self.config is not None else None
        return Heartbeat(
            pid=0,
            process_start=None,
            boot_id="",
            host="",
            session=last.session or 0,
            phase="training",
            phase_since=wall,
            time=wall,
            step=last.step,
            target_step=total,
            total_steps=total,
            armed=True,
            step_time=wall,
            step_seconds=usual,
            tokens_per_second=tokens / usual if tokens and usual else None,
            eta_seconds=usual * (total - last.step) if usual and total > last.step else None,
            telemetry=self._telemetry(last, wall),
        )

    def _telemetry(self, last: LossEntry, wall: float) -> Telemetry | None:
        """Power is the one reading that the record keeps."""
        if last.power_w is None:
            return None
        if self._device.startswith("cpu"):
            return Telemetry(time=wall, cpu_power_w=last.power_w, counts_cpu=True)
        recorded = Gpu(uuid="recorded", name="recorded", index=None, used=True, time=wall, power_w=last.power_w)
        return Telemetry(time=wall, gpus=[recorded])
