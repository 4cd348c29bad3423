"""The pivot: another mixing policy in the middle of a run, without losing a step of it.

Asking writes the intent record and rings the engine; the engine trains to exactly the agreed step, saves it and leaves.
Then whoever asked finishes the pivot (see `pivot_sequence`), and so does every start of the engine that finds one.

A stop before the agreed step wins: the pivot stays pending for the next start, or, when it was asked for `now`, happens
at the step that the stop saved. Without an engine it happens at the newest valid checkpoint, at once.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from andrea_engine.run.checkpoint import list_checkpoints
from andrea_engine.run.config import CONFIG_LIMIT, PRESETS, RunConfig, load_config
from andrea_engine.run.directory import RECEIPT, RunDirectory
from andrea_engine.run.errors import ConfigError, RunError
from andrea_engine.run.events import continued_log
from andrea_engine.run.heartbeat import ENDED_PHASES
from andrea_engine.run.intent import At, PivotIntent, free_archive, guard, next_boundary, read_intent, write_intent
from andrea_engine.run.io import fsync_directory, read_regular
from andrea_engine.run.launch import engine_status, request
from andrea_engine.run.lock import is_locked
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.plain import clean
from andrea_engine.run.policy import Policy, dump_policy, parse_policy
from andrea_engine.run.receipt import POLICY_FILE, Receipt, newest_receipt, read_receipt
from andrea_engine.run.resolved import live_tokens, read_resolved

EXAMPLES = PRESETS / "policies"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A policy that the run can pivot to. `notices` are sentences that the operator should read first."""

    policy: Policy
    notices: tuple[str, ...]


def example_policies() -> dict[str, Path]:
    """The shipped example policies by name."""
    return {path.stem: path for path in sorted(EXAMPLES.glob("*.toml"))}


def policy_text(name: str) -> str:
    """The text of a policy file, or of the shipped example of that name. Raises ConfigError."""
    path = Path(name)
    if not path.exists():
        path = example_policies().get(name, path)
    try:
        return read_regular(path, CONFIG_LIMIT).decode("utf-8")
    except FileNotFoundError:
        known = ", ".join(example_policies())
        raise ConfigError(f"{name} does not exist; name a policy file, or one of the examples {known}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} cannot be read: {error}") from None


def previous_policy(directory: RunDirectory) -> tuple[str, str]:
    """Text and origin of the policy that the last pivot replaced. Raises ConfigError when there was none."""
    newest = newest_receipt(directory)
    if newest is None:
        raise ConfigError(f"{directory.path} has had no pivot, so there is none to undo")
    path = str(newest[0] / POLICY_FILE)
    return policy_text(path), path


def propose(directory: RunDirectory, text: str, where: str) -> Proposal:
    """Validate the TOML of a policy for this run; `where` names its origin. Raises ConfigError."""
    config = load_config(directory)
    policy = parse_policy(text, where)
    names = [str(source.get("name", "")) for source in config.sources]
    live = live_tokens(read_resolved(directory)) or names
    if live and all(policy.cap(name) == 0.0 for name in live):
        raise ConfigError(f"{where}: every source of this run has a cap of 0, so nothing could be drawn; raise a cap")
    notices = []
    unknown = sorted(policy.sources() - set(names))
    if unknown:
        notices.append(f"the policy names sources that this run does not have, without effect: {', '.join(unknown)}")
    if policy == config.parsed_policy(str(directory.config)):
        notices.append("the new policy equals the present one: the pivot only starts bandit and samples afresh")
    return Proposal(policy, tuple(notices))


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pivot asked for at this moment would do. `step` is the last one under the present policy.

    `here`: the present step. `seconds`: from here to there, None when unknown. `archived`: names of the files that
    move to `archive`, which is relative to the run. `arguments`: what the engine has to be started with again.
    """

    generation: int
    at: At
    here: int
    step: int
    seconds: float | None
    running: bool
    arguments: tuple[str, ...]
    archive: str
    archived: tuple[str, ...]
    notices: tuple[str, ...]


def plan(directory: RunDirectory, at: At) -> Plan:
    """When and how the pivot would happen. Changes nothing. Raises ConfigError when it cannot happen at all."""
    config = load_config(directory)
    _require_free(directory)
    status = engine_status(directory)
    beat = status.heartbeat
    running = is_locked(directory)
    if beat is not None and status.elsewhere and not running and beat.phase not in ENDED_PHASES:
        raise ConfigError(f"the engine of {directory.path} runs on {beat.host}; a pivot has to be asked for there")
    saved = _newest_checkpoint(directory, config)
    live = beat if running and status.alive else None
    if not running and saved is None:
        raise ConfigError(f"{directory.path} has no checkpoint to pivot at; train it first")
    here = live.step if live else saved or 0
    target = live.target_step if live and live.target_step else config.schedule.steps
    seconds: float | None = 0.0
    if not running:
        at, step = "now", here
    else:
        step = here + 1 if at == "now" else next_boundary(here, config.checkpoint.every, target)
        seconds = (step - here) * live.step_seconds if live and live.step_seconds else None
    notices = []
    if not running and beat is not None and beat.phase == "halted":
        notices.append("the gate halted this run; the pivot archives the samples it counted, so a start goes on")
    generation = present_generation(directory) + 1
    return Plan(
        generation=generation,
        at=at,
        here=here,
        step=step,
        seconds=seconds,
        running=running,
        arguments=() if target == config.schedule.steps else ("--steps", str(target)),
        archive=free_archive(directory, generation, step),
        archived=tuple(path.name for path in (directory.samples, directory.state) if os.path.lexists(path)),
        notices=tuple(notices),
    )


def present_generation(directory: RunDirectory) -> int:
    """Which policy the run trains under, counted from 0: from its archives, and, for a fork, from its record."""
    recorded = [entry.policy or 0 for entry in LossReader(directory.loss).read_all()[-1:]]
    return max(directory.policy_generation(), *recorded, 0)


def _require_free(directory: RunDirectory) -> None:
    intent = read_intent(directory)
    if intent is not None:
        what_to_do = "cancel it with --cancel" if intent.phase == "asked" else "let it finish"
        raise ConfigError(
            f"a pivot of {directory.path} at step {intent.step:,} is under way already, asked for by "
            f"{clean(intent.asked_by)}; {what_to_do} first"
        )


def _newest_checkpoint(directory: RunDirectory, config: RunConfig) -> int | None:
    """Step of the newest checkpoint whose header is right; its bytes are verified when the pivot happens."""
    return next((f.step for f in list_checkpoints(directory.path, config.n_params) if f.valid), None)


def ask(directory: RunDirectory, policy: Policy, at: At, *, by: str, restart: bool = True) -> PivotIntent:
    """Write the intent durably, then ring the engine. `by`: the program that asks; `restart`: go on afterwards.

    The engine is only started again if it runs now. Raises ConfigError as `plan` does, RunError when the directory
    cannot be written.
    """
    with guard(directory):
        planned = plan(directory, at)
        intent = PivotIntent(
            id=secrets.token_hex(8),
            generation=planned.generation,
            at=planned.at,
            step=planned.step,
            archive=planned.archive,
            policy=dump_policy(policy),
            asked=round(time.time(), 3),
            asked_by=who(by),
            restart=restart and planned.running,
            arguments=list(planned.arguments),
        )
        try:
            write_intent(directory, intent)
        except OSError as error:
            raise RunError(f"{directory.pivot_intent} cannot be written: {error.strerror}") from error
    log(directory, "pivot_asked", intent, when=intent.at, by=intent.asked_by)
    if planned.running:
        # An engine that cannot be rung looks for itself at its next checkpoint boundary.
        with contextlib.suppress(RunError):
            request(directory, "pivot")
    return intent


def cancel(directory: RunDirectory, *, by: str) -> PivotIntent:
    """Take the intent back, as long as the agreed step is not reached. Returns what it was. Raises ConfigError."""
    with guard(directory):
        intent = read_intent(directory)
        if intent is None:
            raise ConfigError(f"no pivot of {directory.path} is under way")
        if intent.phase != "asked":
            raise ConfigError(
                f"the pivot at step {intent.step:,} has been reached and is being carried out; undo it afterwards"
            )
        try:
            directory.pivot_intent.unlink()
            fsync_directory(directory.path)
        except OSError as error:
            raise RunError(f"{directory.pivot_intent} cannot be removed: {error.strerror}") from error
    log(directory, "pivot_cancelled", intent, by=who(by))
    return intent


def who(program: str) -> str:
    """Who acts, for people: user, host and program."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()} ({program})"


def log(directory: RunDirectory, kind: str, intent: PivotIntent, **facts: object) -> None:
    """Append an event about a pivot, in the session that was the last to start."""
    continued_log(directory.events).append(
        kind, at=None, step=intent.step, generation=intent.generation, id=intent.id, **facts
    )


Stage = Literal["waiting", "leaving", "ready", "applying", "done", "cancelled"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pivot is, for people in `sentence`.

    waiting: the engine trains towards the agreed step (or saves it). leaving: it ends. ready: no engine runs, call
    `pivot_sequence.finish`, which says whether the step was reached. applying: a process is at it. done: see
    `receipt`.
    """

    stage: Stage
    sentence: str
    step: int
    here: int | None = None
    receipt: Receipt | None = None


def progress(directory: RunDirectory, asked: PivotIntent) -> Progress:
    """Where the pivot `asked` is now. Cheap: to be called several times a second. Raises RunError for damaged files."""
    intent = read_intent(directory)
    if intent is not None and intent.id == asked.id:
        return _under_way(directory, intent)
    receipt = find_receipt(directory, asked.id)
    if receipt is None:
        return Progress("cancelled", "the pivot was cancelled; the run goes on under its policy", asked.step)
    sentence = f"policy {receipt.generation} from step {receipt.first_step:,} on"
    return Progress("done", sentence, receipt.step, receipt=receipt)


def _under_way(directory: RunDirectory, intent: PivotIntent) -> Progress:
    step = intent.step
    if not is_locked(directory):
        sentence = "half done; it can be completed" if intent.phase == "applying" else "the engine has ended"
        return Progress("ready", sentence, step)
    if intent.phase == "applying":
        return Progress("applying", "archiving samples and state, writing the new policy", step)
    if intent.phase == "reached":
        return Progress("leaving", f"step {step:,} is saved; the engine is leaving", step)
    status = engine_status(directory)
    if status.heartbeat is None or not status.alive:
        return Progress("waiting", "waiting for the engine to report", step)
    here = status.heartbeat.step
    return Progress("waiting", f"at step {here:,}, the pivot is at step {step:,}", step, here)


def find_receipt(directory: RunDirectory, identity: str) -> Receipt | None:
    """The receipt of the pivot with this id, None when it has none."""
    for archive in reversed(directory.archives()):
        receipt = read_receipt(archive / RECEIPT)
        if receipt.id == identity:
            return receipt
    return None
