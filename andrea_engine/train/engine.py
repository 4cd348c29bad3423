"""One life of the engine: take the lock, prepare, resume, train, and leave a last word. No torch at import time."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass

from andrea_engine import __version__
from andrea_engine.latch import SignalLatch
from andrea_engine.run.config import RunConfig
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ExitCode, RunError
from andrea_engine.run.events import Event, EventLog, read_events
from andrea_engine.run.heartbeat import SEE_LOG
from andrea_engine.run.io import remove_stale_temporaries
from andrea_engine.run.lock import EngineLock
from andrea_engine.run.process import is_alive, signal_at_parents_end
from andrea_engine.train.hooks import AlarmHook
from andrea_engine.train.place import Place, under_torchrun
from andrea_engine.train.reporter import Reporter
from andrea_engine.train.torch_import import import_torch


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """What the command line adds to run.toml. `until_step`: train until this step, None for the planned total.

    `no_halt`: where the gate would halt, raise an alarm and go on.
    """

    until_step: int | None = None
    override_halt: bool = False
    accept_damage: bool = False
    deterministic: bool = False
    no_halt: bool = False


@dataclass(slots=True)
class EngineContext:
    """What every part of a living engine shares."""

    directory: RunDirectory
    config: RunConfig
    options: TrainOptions
    latch: SignalLatch
    events: EventLog
    history: list[Event]
    reporter: Reporter

    def notice(self, text: str) -> None:
        """Tell the operator, on the screen, in the log and for ever."""
        self.events.append("notice", text=text)
        say(text)


def say(text: str) -> None:
    """A line for whoever looks at standard output. That nobody can read it any more is no reason to stop."""
    try:
        print(text, flush=True)
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.close()


def train(directory: RunDirectory, config: RunConfig, options: TrainOptions, latch: SignalLatch) -> ExitCode:
    """Train a run until its target, a request to stop, or a halt. Raises RunError for what stops it earlier."""
    # Idle OpenMP threads spin by default; on a machine with other work that costs two thirds of the speed. Read once,
    # when PyTorch loads its OpenMP library. A value from outside wins.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    # Or PyTorch reads the metadata of every installed package in search of devices that the engine does not train on.
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    place = Place.of()
    if under_torchrun():  # which may die, as of SIGUSR1: nobody would look after its processes any more
        signal_at_parents_end(signal.SIGTERM)
    if not place.leads:
        return _follow(config, options, latch)
    lock = EngineLock(directory)
    history = read_events(directory.events)
    session = 1 + max((event.session for event in history if event.kind == "start"), default=0)
    events = EventLog(directory.events, session)
    reporter = Reporter(directory, events, latch)
    context = EngineContext(directory, config, options, latch, events, history, reporter)
    hook = AlarmHook(config.on_alarm, directory.path, context.notice)
    events.observer = hook.observe
    gc.disable()  # the imports make a million objects that live as long as the engine: looking for garbage is vain
    torch_import = threading.Thread(target=import_torch, daemon=True)
    torch_import.start()  # a second of reading libraries, while this thread prepares the data
    reporter.set(total_steps=config.schedule.steps, target_step=options.until_step or config.schedule.steps)
    reporter.start()
    events.append("start", pid=os.getpid(), host=socket.gethostname(), andrea=__version__)
    try:
        outcome = _live(context, torch_import)
    except RunError as error:
        events.append("error", error=str(error), exit_code=int(error.exit_code))
        reporter.finish("failed", int(error.exit_code), str(error))
        raise
    except BaseException as error:
        events.append("error", error=f"{type(error).__name__}: {error}", exit_code=int(ExitCode.FAILED))
        reporter.finish("failed", int(ExitCode.FAILED), f"{type(error).__name__}: {error}; {SEE_LOG}")
        raise
    finally:
        gc.unfreeze()
        gc.enable()
        hook.close()
        lock.release()
    return outcome


def _follow(config: RunConfig, options: TrainOptions, latch: SignalLatch) -> ExitCode:
    latch.let_stop()  # until all processes have met there is nothing to finish
    if latch.stopping:
        return ExitCode.OK
    from andrea_engine.train.follower import follow

    return follow(config, latch, deterministic=options.deterministic)


def _live(context: EngineContext, torch_import: threading.Thread) -> ExitCode:
    from andrea_engine.data.token_cache import PreparationStopped
    from andrea_engine.train.preparation import prepare

    freed = remove_stale_temporaries(context.directory.path, is_alive)
    if freed:
        context.notice(f"removed half-written files of an earlier process, {freed:,} bytes freed")
    if os.path.lexists(context.directory.pivot_intent):
        from andrea_engine.train.pivoting import finish_pending

        finish_pending(context)
    context.reporter.enter("preparing", note="reading the sources")
    context.events.append("phase", phase="preparing")
    started = time.monotonic()
    try:
        prepared = prepare(
            context.directory,
            context.config,
            report=lambda note: context.reporter.enter("preparing", note=note),
            should_stop=lambda: context.latch.stop_asked is not None,
        )
    except PreparationStopped:
        return _stopped_early(context)
    for text in prepared.notices:
        context.notice(text)
    say(f"data ready in {time.monotonic() - started:.1f} s")
    context.reporter.enter("loading", note="loading PyTorch and the model")
    torch_import.join()
    from andrea_engine.train.trainer import Trainer

    gc.freeze()
    gc.enable()
    trainer = Trainer(context, prepared)
    return trainer.run()


def _stopped_early(context: EngineContext) -> ExitCode:
    context.events.append("stop", reason="asked", step=None, exit_code=0)
    context.reporter.finish("stopped", 0, "stopped while the data were being prepared; nothing was trained or lost")
    say("stopped before the first step")
    return ExitCode.OK
