"""`andrea-engine pivot`: change the mixing policy in the middle of a run and lose nothing of it."""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from andrea_engine.latch import SignalLatch
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, ExitCode, LockedError, RunError

if TYPE_CHECKING:
    from andrea_engine.run.intent import PivotIntent
    from andrea_engine.run.pivot import Plan, Proposal
    from andrea_engine.run.pivot_sequence import Finished

HELP = "change the mixing policy in the middle of a run; weights, moments and loss record go on unbroken"
PROGRAM = "andrea-engine pivot"
PAUSE = 0.1
SAY_SECONDS = 30.0  # between two lines about a long wait
START_PATIENCE = 120.0  # for the engine that is started again
STARTING_PHASES = ("starting", "preparing", "loading", "compiling", "failed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from andrea_engine.cli import run_directory

    parser.add_argument("run", type=run_directory, metavar="RUN")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--policy",
        metavar="FILE",
        help="the new policy (TOML), or the name of an example; without it: see to a pivot that is under way",
    )
    what.add_argument("--undo", action="store_true", help="pivot back to the policy that the last pivot replaced")
    what.add_argument("--cancel", action="store_true", help="take a pivot back whose step is not reached yet")
    parser.add_argument(
        "--at", choices=("boundary", "now"), default="boundary", help="next checkpoint boundary (default), or at once"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would happen, and change nothing")
    parser.add_argument("--no-restart", action="store_true", help="leave the engine stopped after the pivot")


def run(options: argparse.Namespace, latch: SignalLatch) -> ExitCode:
    from andrea_engine.run.intent import read_intent
    from andrea_engine.run.pivot import ask, cancel, plan, policy_text, previous_policy, propose

    directory: RunDirectory = options.run
    directory.require()
    if options.cancel:
        intent = cancel(directory, by=PROGRAM)
        _say(f"cancelled the pivot at step {intent.step:,}; the run goes on under its policy")
        return ExitCode.OK
    if not options.undo and options.policy is None:
        under_way = read_intent(directory)
        if under_way is None:
            raise ConfigError(f"no pivot of {directory.path} is under way; name the new policy with --policy FILE")
        return _follow(directory, under_way)
    text, where = previous_policy(directory) if options.undo else (policy_text(options.policy), options.policy)
    proposal = propose(directory, text, where)
    planned = plan(directory, options.at)
    for line in _plan_lines(planned, proposal):
        _say(line)
    if options.dry_run:
        for line in _mix_lines(directory, proposal):
            _say(line)
        return ExitCode.OK
    intent = ask(directory, proposal.policy, options.at, by=PROGRAM, restart=not options.no_restart)
    return _follow(directory, intent)


def _say(text: str) -> None:
    """A line for people. A terminal that is gone must not end the pivot half way."""
    with contextlib.suppress(OSError, ValueError):
        print(text, flush=True)


def _plan_lines(planned: Plan, proposal: Proposal) -> list[str]:
    from andrea_engine.run.plain import clean, duration

    ahead = planned.step - planned.here
    if not planned.running:
        when = f"at once, at step {planned.step:,}: the engine is not running"
    elif planned.seconds is None:
        when = f"at step {planned.step:,}, in {ahead:,} steps"
    else:
        when = f"at step {planned.step:,}, in {ahead:,} steps (about {duration(planned.seconds)})"
    return [
        *(f"note        {clean(notice)}" for notice in (*proposal.notices, *planned.notices)),
        f"pivot       to policy {planned.generation} {when}",
        f"archives    {', '.join((*planned.archived, 'policy.toml'))} in {planned.archive}",
        "stays       the weights, their moments and the loss record",
    ]


def _mix_lines(directory: RunDirectory, proposal: Proposal) -> list[str]:
    from andrea_engine.curriculum.preview import PREVIEW_STEPS, preview, rebuild
    from andrea_engine.run.plain import clean

    try:
        arms = preview(rebuild(directory), proposal.policy)
    except ConfigError as error:
        return [f"mix         unknown: {clean(str(error))}"]
    lines = [f"mix         share of a step, least and most; draws in the next {PREVIEW_STEPS} steps"]
    lines += [
        f"            {clean(arm.name):<20} {arm.old_least:6.1%} to {arm.old_most:6.1%} {arm.old_draws:>4}"
        f"   ->   {arm.new_least:6.1%} to {arm.new_most:6.1%} {arm.new_draws:>4}"
        for arm in arms
    ]
    return lines


def _follow(directory: RunDirectory, intent: PivotIntent) -> ExitCode:
    """See a pivot through: wait for the engine, carry the pivot out, start the engine again."""
    from andrea_engine.run.pivot import find_receipt
    from andrea_engine.run.plain import clean
    from andrea_engine.run.receipt import receipt_lines

    try:
        with _hang_up_ignored():
            finished = _carry_out(directory, intent)
    except KeyboardInterrupt:
        _say(f"\nthe pivot is still to come; see it through with: {PROGRAM} {directory.path}")
        raise
    if finished is None:
        receipt = find_receipt(directory, intent.id)
        if receipt is None:
            raise RunError("the pivot was cancelled; the run goes on under its policy")
        _say(f"the pivot at step {receipt.step:,} is complete; it was carried out by {clean(receipt.done_by)}")
        return ExitCode.OK
    for line in receipt_lines(finished.receipt, finished.archive):
        _say(line)
    if finished.receipt.problem is not None:
        raise RunError(f"continuity is not proven, so nothing was started: {finished.receipt.problem}")
    if finished.restart:
        _restart(directory, finished)
    else:
        _say(f"the engine is not running; start it with: andrea-engine train {directory.path}")
    return ExitCode.OK


@contextlib.contextmanager
def _hang_up_ignored() -> Iterator[None]:
    """A terminal that is lost meanwhile must not leave the run without its engine."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN) if in_main_thread else None
    try:
        yield
    finally:
        if in_main_thread:
            signal.signal(signal.SIGHUP, before)


def _carry_out(directory: RunDirectory, intent: PivotIntent) -> Finished | None:
    """Wait until the pivot can be carried out, and do it; None when another process did, or it was cancelled."""
    from andrea_engine.run.intent import read_intent
    from andrea_engine.run.pivot import progress
    from andrea_engine.run.pivot_sequence import finish

    stage, said_at = "", float("-inf")
    while True:
        now = progress(directory, intent)
        if now.stage in ("done", "cancelled"):
            return None
        if now.stage != stage or time.monotonic() - said_at > SAY_SECONDS:
            stage, said_at = now.stage, time.monotonic()
            _say(now.sentence)
        if now.stage == "ready":
            with contextlib.suppress(LockedError):  # an engine was started at this moment: it sees to the pivot
                finished = finish(directory, by=PROGRAM, report=_say)
                pending = read_intent(directory)
                if finished is not None:
                    return finished
                if pending is not None and pending.id == intent.id:
                    raise RunError(_pending_sentence(directory, pending))
        time.sleep(PAUSE)


def _pending_sentence(directory: RunDirectory, intent: PivotIntent) -> str:
    return (
        f"the engine ended before step {intent.step:,}, so the pivot stays pending: it happens when training gets "
        f"there (andrea-engine train {directory.path}), or take it back with --cancel"
    )


def _restart(directory: RunDirectory, finished: Finished) -> None:
    """Start the engine and wait until it trains, so that a start that fails is told."""
    from andrea_engine.run.heartbeat import read_heartbeat
    from andrea_engine.run.launch import spawn_engine

    process = spawn_engine(directory, finished.arguments)
    deadline = time.monotonic() + START_PATIENCE
    while time.monotonic() < deadline:
        code = process.poll()
        if code:
            raise RunError(
                f"pivoted, but not running: the engine ended with exit code {code}; see {directory.log}, then start it "
                f"with: andrea-engine train {directory.path}"
            )
        beat = read_heartbeat(directory.heartbeat)
        if code == 0 or (beat is not None and beat.pid == process.pid and beat.phase not in STARTING_PHASES):
            _say(f"the engine goes on with step {finished.receipt.first_step:,} (pid {process.pid})")
            return
        time.sleep(PAUSE)
    _say(f"the engine is still starting (pid {process.pid}); see {directory.log}")
