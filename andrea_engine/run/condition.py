"""The state of a run in one word and one sentence, from its heartbeat and the process table.

A living engine that makes no progress is *stalled*: judged by finished steps, not by signs of life, and only told.
Nothing is ever done about it here.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from andrea_engine.run.checkpoint import list_checkpoints
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import ENDED_PHASES, Heartbeat
from andrea_engine.run.launch import EngineStatus, engine_status
from andrea_engine.run.process import process_state

STALL_SECONDS = 60.0
STALL_STEPS = 10.0  # medians of the step time
SAVING_PATIENCE = 300.0  # a checkpoint on its way to a slow disk holds the next step up
PATIENT_PHASES = {
    "starting": 300.0,
    "preparing": 900.0,
    "loading": 300.0,
    "compiling": 900.0,
    "sampling": 300.0,
    "validating": 300.0,
    "saving": SAVING_PATIENCE,
    "stopping": SAVING_PATIENCE,
}

# State letter of the kernel -> what that means for an engine without progress, and what a person can do.
_STUCK = {
    "D": (
        "it waits in the kernel for a disk or a driver (state D), and no signal reaches it until that answers",
        "look at the disk and at `dmesg`; killing it has no effect before",
    ),
    "R": (
        "it is running (state R): one very long step, or a loop without an end",
        "look at its log and the load of the machine; stopping saves first, and works at the end of a step",
    ),
    "S": (
        "it is waiting (state S): for the GPU, a lock or the network",
        "look at its log and at the GPU; `py-spy dump --pid {pid}` shows where it waits",
    ),
}
_UNKNOWN_STATE = ("what it waits for is unknown", "look at its log and the load of the machine")


class Condition(msgspec.Struct, frozen=True):
    """`word` is one of: empty, starting, preparing, loading, compiling, training, sampling, validating, saving,
    stopping, stalled, suspended, stopped, finished, halted, pivot, failed, crashed, elsewhere, recorded, missing.

    `alive`: this machine runs the engine now. `sentence` says the same for people; `advice` is what to do about it,
    '' where there is nothing to do. `idle`: whole seconds without progress, of a stalled engine only.
    """

    word: str
    alive: bool
    sentence: str
    advice: str = ""
    idle: float | None = None


class ProgressWatch:
    """Seconds without progress, as one observer sees them: a set clock or a sleep of the machine does not count.

    `clock` must not jump (seconds); `wall` is only asked at the first look at an engine, for the time before it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._wall = wall
        self._engine: object = None
        self._mark: object = None
        self._since = 0.0

    def idle(self, beat: Heartbeat) -> float:
        """Seconds since the engine of this heartbeat last finished something: a step, a phase, bytes of a save."""
        now = self._clock()
        engine = beat.engine
        mark = (beat.step, beat.phase, beat.phase_since, beat.saving.done if beat.saving else None)
        if engine != self._engine:
            self._since = now - _idle_by_wall(beat, self._wall())
        elif mark != self._mark:
            self._since = now
        self._engine, self._mark = engine, mark
        return now - self._since

    def excuse(self) -> None:
        """The engine could not do anything until now: count from here."""
        self._since = self._clock()


def _idle_by_wall(beat: Heartbeat, now: float) -> float:
    return max(0.0, now - max(beat.step_time or 0.0, beat.phase_since))


def stall_limit(beat: Heartbeat) -> float:
    """Seconds without progress after which an engine in this phase counts as stalled."""
    limit = PATIENT_PHASES.get(beat.phase) or max(STALL_SECONDS, STALL_STEPS * (beat.step_seconds or 0.0))
    return max(limit, SAVING_PATIENCE) if beat.saving is not None else limit


def condition(
    directory: RunDirectory,
    status: EngineStatus | None = None,
    now: float | None = None,
    watch: ProgressWatch | None = None,
) -> Condition:
    """What state the run is in. Never raises. Who looks again and again hands in the same `watch` each time."""
    status = status or engine_status(directory)
    beat = status.heartbeat
    now = time.time() if now is None else now
    if beat is None:
        return _without_heartbeat(directory, status)
    if status.elsewhere:
        age = max(0.0, now - beat.time)
        word = beat.phase if beat.phase in ENDED_PHASES else "elsewhere"
        return Condition(word, alive=False, sentence=f"{beat.phase} on {beat.host}, as of {age:,.0f} s ago")
    if status.alive:
        found = _living(beat, watch.idle(beat) if watch is not None else _idle_by_wall(beat, now))
        if watch is not None and found.word == "suspended":
            watch.excuse()
        return found
    if beat.phase in ENDED_PHASES:
        return Condition(beat.phase, alive=False, sentence=beat.note or beat.phase)
    return Condition(
        "crashed",
        alive=False,
        sentence=f"the engine ended without a word in phase {beat.phase}; resume goes on from the last checkpoint",
    )


def _without_heartbeat(directory: RunDirectory, status: EngineStatus) -> Condition:
    if status.alive:
        return Condition("starting", alive=True, sentence="an engine holds the lock and has not reported yet")
    if directory.exists():
        newest = next((file.step for file in list_checkpoints(directory.path) if file.valid), None)
        if newest is not None:  # a fork
            start = f"not started yet; it goes on from the checkpoint of step {newest:,}"
            return Condition("stopped", alive=False, sentence=start)
        return Condition("empty", alive=False, sentence="this run has not been started yet")
    if directory.is_foreign_run():
        return Condition("recorded", alive=False, sentence="a recorded run without run.toml; it can only be looked at")
    return Condition("missing", alive=False, sentence="there is no run here")


def _living(beat: Heartbeat, idle: float) -> Condition:
    state = process_state(beat.pid)
    if state is not None and state in "Tt":
        return Condition(
            "suspended",
            alive=True,
            sentence=f"the engine (pid {beat.pid}) is suspended (state {state}): it was stopped from outside",
            advice=f"`kill -CONT {beat.pid}` lets it go on where it was; nothing is lost",
        )
    limit = stall_limit(beat)
    if idle < limit:
        return Condition(beat.phase, alive=True, sentence=beat.note or beat.phase)
    meaning, advice = _STUCK.get(state or "", _UNKNOWN_STATE)
    return Condition(
        "stalled",
        alive=True,
        sentence=f"no progress for {idle:,.0f} s in phase {beat.phase} (limit {limit:,.0f} s): {meaning}",
        advice=advice.format(pid=beat.pid),
        idle=float(int(idle)),
    )
