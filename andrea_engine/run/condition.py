"""The state of a run in one word and one sentence, from its heartbeat and the process table."""

from __future__ import annotations

import time
from dataclasses import dataclass

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import ENDED_PHASES, Heartbeat
from andrea_engine.run.launch import EngineStatus, engine_status
from andrea_engine.run.process import process_state

STALL_SECONDS = 60.0
STALL_STEPS = 10.0  # medians of the step time
PATIENT_PHASES = {
    "starting": 300.0,
    "preparing": 900.0,
    "loading": 300.0,
    "compiling": 900.0,
    "sampling": 300.0,
    "validating": 300.0,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """`word` is one of: empty, starting, preparing, loading, compiling, training, sampling, validating, saving,
    stopping, stalled, suspended, stopped, finished, halted, pivot, failed, crashed, elsewhere, recorded, missing.

    `alive`: this machine runs the engine now. `sentence` says the same for people.
    """

    word: str
    alive: bool
    sentence: str


def condition(directory: RunDirectory, status: EngineStatus | None = None, now: float | None = None) -> Condition:
    """What state the run is in. Never raises."""
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
        return _living(beat, now)
    if beat.phase in ENDED_PHASES:
        return Condition(beat.phase, alive=False, sentence=beat.note or beat.phase)
    return Condition(
        "crashed",
        alive=False,
        sentence=f"the engine ended without a word in phase {beat.phase} at step {beat.step:,}; "
        f"resume goes on from the last saved checkpoint",
    )


def _without_heartbeat(directory: RunDirectory, status: EngineStatus) -> Condition:
    if status.alive:
        return Condition("starting", alive=True, sentence="an engine holds the lock and has not reported yet")
    if directory.exists():
        return Condition("empty", alive=False, sentence="this run has not been started yet")
    if directory.is_foreign_run():
        return Condition("recorded", alive=False, sentence="a recorded run without run.toml; it can only be looked at")
    return Condition("missing", alive=False, sentence="there is no run here")


def _living(beat: Heartbeat, now: float) -> Condition:
    if process_state(beat.pid) == "T":
        return Condition("suspended", alive=True, sentence=f"the engine (pid {beat.pid}) is suspended")
    since = now - max(beat.step_time or 0.0, beat.phase_since)
    limit = PATIENT_PHASES.get(beat.phase) or max(STALL_SECONDS, STALL_STEPS * (beat.step_seconds or 0.0))
    if since > limit:
        return Condition("stalled", alive=True, sentence=f"no progress for {since:,.0f} s in phase {beat.phase}")
    return Condition(beat.phase, alive=True, sentence=beat.note or beat.phase)
