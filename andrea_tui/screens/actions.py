"""What the commands do that act on a run: each asks first where something could be lost, and says what came of it.

Screens that a person has to ask for are imported then: together they would make the first frame 30 ms later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from andrea_engine.run.checkpoint import CheckpointFile
from andrea_engine.run.config import load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.heartbeat import Heartbeat
from andrea_engine.run.process import is_alive, process_state, start_time
from andrea_tui.commands import Situation
from andrea_tui.control import LOCKED, REPLAY, Control, log_notice
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import human_count, size_bytes
from andrea_tui.restart import DEFAULT_LIMIT
from andrea_tui.screens.dialog import Choice, Dialog
from andrea_tui.screens.help import HelpScreen, command_keys

if TYPE_CHECKING:
    from andrea_engine.run.intent import PivotIntent
    from andrea_tui.app import AndreaApp
    from andrea_tui.feed.checkpoints import CheckpointRow

NAMED = 5  # checkpoints that a question names
KILL_PATIENCE = 10.0


class Actions:
    """One method a command, named as in the registry. `read_only` is why nothing may be sent, or ''."""

    def __init__(self, app: AndreaApp, store: Store, control: Control) -> None:
        self._app = app
        self._store = store
        self._control = control
        self.read_only = control.read_only_reason()

    @property
    def watching(self) -> str:
        """One word for a console that sends nothing; '' for one that may act, and for a replay: its state says so."""
        if self.read_only == REPLAY:
            return ""
        return "locked" if self.read_only == LOCKED else "watching" if self.read_only else ""

    @property
    def restart_text(self) -> str:
        """What the watchdog is about to do; ''."""
        watchdog = self._app.watchdog
        return watchdog.text if watchdog is not None else ""

    # -- the engine ---------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        self._control.save()
        self._store.saves.ask(self._store.step)

    def stop(self) -> None:
        store = self._store
        beat = store.heartbeat
        if store.condition.alive and (store.saves.stopping or (beat is not None and beat.stop_asked)):
            self._say(f"the engine is stopping already: {store.saves.text or 'it saves first'}; nothing hurries it")
            return
        if not store.condition.alive:
            choices = [Choice("enter", "Enter", "close the console", "close")]
            lines = [store.condition.sentence, "The engine is not running; there is nothing to stop."]
            title = "Close the console?"
        else:
            wait = f" (about {beat.step_seconds:.0f} s)" if beat and (beat.step_seconds or 0.0) >= 2 else ""
            choices = [
                Choice("enter", "Enter", f"checkpoint after this step{wait} and exit", "stop"),
                Choice("d", "d", "close the console, leave it training", "detach"),
            ]
            lines = [f"{store.condition.word}, step {store.step:,}; {self._last_save_text()}"]
            title = "Stop this run?"

        def chosen(result: str | None) -> None:
            if result == "stop" and self._try(self._control.stop):
                self._app.follow_stop()
            elif result in ("detach", "close"):
                self.detach()

        self._app.push_screen(Dialog(title, lines, choices), chosen)

    def _last_save_text(self) -> str:
        step = self._durable_step()
        if step is None:
            return "nothing has been saved yet"
        return f"last save at step {step:,}, {max(0, self._store.step - step):,} steps ago"

    def _durable_step(self) -> int | None:
        beat = self._store.heartbeat
        return self._store.saves.durable_step or (beat.last_save.step if beat and beat.last_save else None)

    def detach(self) -> None:
        self._app.leave("detached")

    def resume(self) -> None:
        self._control.start()
        self._say("starting the engine")

    def override(self) -> None:
        self.confirm(
            "Override the halt?",
            [self._store.condition.sentence, "Going on may train on garbage: the gate counts anew from here."],
            "go on all the same",
            lambda: self._control.start("--override-halt"),
        )

    def take_over(self) -> None:
        problem = self._control.take_over()
        self.read_only = problem
        if problem:
            self._say(problem, "error")

    def pivot(self) -> None:
        """The wizard, or, with a pivot under way, the screen that follows it."""
        from andrea_engine.run.intent import read_intent
        from andrea_tui.screens.pivot.follow import PivotFollow
        from andrea_tui.screens.pivot.wizard import PivotWizard

        directory = self._control.directory
        under_way = read_intent(directory)
        if under_way is not None:
            self._say(f"a pivot is under way at step {human_count(under_way.step)}")
            self._app.push_screen(PivotFollow(directory, self._store, under_way))
            return
        config = load_config(directory)
        arms = [str(source.get("name")) for source in config.sources]
        wizard = PivotWizard(directory, self._store, config.parsed_policy(str(directory.config)), arms)
        self._app.push_screen(wizard, self._pivot_asked)

    def _pivot_asked(self, intent: PivotIntent | None) -> None:
        from andrea_tui.screens.pivot.follow import PivotFollow, see_through

        if intent is not None and self._try(lambda: see_through(self._control.directory)):
            self._app.push_screen(PivotFollow(self._control.directory, self._store, intent))

    # -- this console -------------------------------------------------------------------------------------------

    def lock(self) -> None:
        def lock(locked: bool) -> None:
            self._control.locked = locked
            self.read_only = self._control.read_only_reason()
            self._say(LOCKED if locked else "this console acts again")

        if self._control.locked:
            lines = ["Its keys act on the run again."]
            self.confirm("Unlock this console?", lines, "unlock", lambda: lock(False))
        else:
            lock(True)

    def runs(self) -> None:
        self._app.show_runs()

    def replay_pause(self) -> None:
        self._app.pause_replay()

    def kill(self) -> None:
        from andrea_tui.screens.ask import InputDialog

        engine = self._store.heartbeat
        if engine is None:
            return
        lost = max(0, self._store.step - (self._durable_step() or 0))
        lines = [
            f"pid {engine.pid}, {self._store.condition.word}, step {human_count(self._store.step)}; "
            f"{self._last_save_text()}.",
            f"The {human_count(lost)} steps since then are lost; what is saved stays. q saves first.",
        ]
        if process_state(engine.pid) == "D":
            lines.append(
                "It waits in the kernel (state D), so that even this works only when the disk or driver answers."
            )
        lines.append("Type kill and press Enter; Esc goes back.")

        def typed(word: str | None) -> None:
            if word is None:
                return
            if word.strip().lower() != "kill":
                self._say("not killed: the word is kill", "warning")
            elif self._try(lambda: self._control.kill(engine)):
                self.in_background(lambda: self._killed(engine))

        self._app.push_screen(InputDialog(f"Kill the engine (pid {engine.pid})?", "\n".join(lines)), typed)

    def _killed(self, engine: Heartbeat) -> str:
        """Wait for the end of a killed process, for a while."""
        deadline = time.monotonic() + KILL_PATIENCE
        while is_alive(engine.pid) and start_time(engine.pid) == engine.process_start:
            if time.monotonic() > deadline:
                state = process_state(engine.pid) or "unknown"
                return f"pid {engine.pid} has not ended yet (state {state}); it ends when its call into the kernel does"
            time.sleep(0.05)
        log_notice(self._control.directory, f"killed by the operator, pid {engine.pid}")
        step = self._durable_step()
        stands = (
            f"the run stands at the saved step {human_count(step)}; r resumes" if step else "nothing had been saved"
        )
        return f"the engine (pid {engine.pid}) is gone; {stands}"

    def restart_policy(self) -> None:
        watchdog = self._app.watchdog
        if watchdog is None:
            return
        limit = 0 if watchdog.rule.limit else self._app.restart_limit or DEFAULT_LIMIT
        watchdog.rule.switch(limit)
        if limit:
            self._say(
                f"on: after a crash the engine is started again, at most {limit} times an hour, while this is open"
            )
        else:
            self._say("off: a crashed engine is not started again")

    # -- checkpoints --------------------------------------------------------------------------------------------

    def rollback(self) -> None:
        step = self._last_good(self._valid_steps())
        if step is None:
            self._say("there is no checkpoint with a good sample to go back to", "warning")
            return
        self.rollback_to(step, [row for row in self._control.checkpoints() if row.step > step])

    def rollback_to(self, step: int, newer: Sequence[CheckpointFile | CheckpointRow]) -> None:
        """Ask, and let the run stand at the checkpoint of `step`; the `newer` ones move to the archive."""
        later = sum(1 for sample in self._store.samples if sample.step > step)
        moves = [
            f"{len(newer):,} newer checkpoint{'s' * (len(newer) != 1)} ({size_bytes(sum(f.bytes for f in newer))})"
        ]
        if newer:
            steps = ", ".join(human_count(file.step) for file in newer[:NAMED])
            moves[0] += f": step {steps}" + (f" and {len(newer) - NAMED:,} more" if len(newer) > NAMED else "")
        if later:
            moves.append(f"{later:,} later sample{'s' * (later != 1)}")
        self.confirm(
            f"Roll back to step {human_count(step)}?",
            [
                f"the run stands at step {human_count(self._store.step)}",
                f"to archive/ move: {'; '.join(moves)}; and the bandit state",
                "the loss record keeps every entry",
                *self._policy_that_stays(step),
            ],
            "roll back",
            lambda: self.in_background(lambda: self._rolled_back(step)),
        )

    def _policy_that_stays(self, step: int) -> list[str]:
        """A roll-back behind a pivot does not take the pivot back."""
        pivots = [mark.step for mark in self._store.marks if mark.kind == "pivot" and mark.step > step]
        return (
            [f"the policy stays that of the pivot at step {human_count(max(pivots))}; p changes it"] if pivots else []
        )

    def _rolled_back(self, step: int) -> str:
        from andrea_engine.run.branching import rollback

        done = rollback(self._control.directory, step)
        return f"the run stands at step {done.step:,} again; r resumes"

    def _valid_steps(self) -> list[int]:
        return [file.step for file in self._control.checkpoints() if file.valid]

    def _last_good(self, valid: Sequence[int]) -> int | None:
        """The newest of these checkpoints whose sample passed; the last good one of a halt is pinned."""
        threshold = self._store.config.gate.threshold if self._store.config else 30.0
        good = {s.step for s in self._store.samples if s.scores is not None and s.scores.total >= threshold}
        return max((step for step in valid if step in good), default=None)

    def fork(self) -> None:
        valid = self._valid_steps()
        good = self._last_good(valid)
        step = good if good is not None else max(valid, default=None)
        if step is None:
            self._say("there is no checkpoint to fork from", "warning")
            return
        self.fork_from(step)

    def fork_from(self, step: int) -> None:
        """Ask for a directory, and make a second run there from the checkpoint of `step`."""
        from andrea_tui.screens.ask import InputDialog

        path = self._control.directory.path
        proposal = path.with_name(f"{path.name}-from-{step}")

        def named(value: str | None) -> None:
            if value and value.strip():
                target = RunDirectory(type(path)(value.strip()))
                self.in_background(lambda: self._forked(target, step))

        hint = f"A new run from the checkpoint of step {human_count(step)}.  Enter makes it, Esc goes back."
        self._app.push_screen(InputDialog("Fork into which directory?", hint, str(proposal)), named)

    def _forked(self, target: RunDirectory, step: int) -> str:
        from andrea_engine.run.branching import fork

        done = fork(self._control.directory, target, step)
        return f"created {done.directory.path} at step {done.step:,}; open it with: andrea-tui {done.directory.path}"

    def browse(self) -> None:
        from andrea_tui.screens.checkpoints import CheckpointsScreen

        self._app.push_screen(CheckpointsScreen(self._store, self._control.directory, self))

    # -- samples ------------------------------------------------------------------------------------------------

    def samples(self) -> None:
        from andrea_tui.screens.samples import SamplesScreen

        def chosen(name: str | None) -> None:
            if name:
                self._app.run_command(name)

        screen = SamplesScreen(self._store, self._control.directory.name, self.read_only)
        self._app.push_screen(screen, chosen)

    def ranks(self) -> None:
        from andrea_tui.screens.ranks import RanksScreen

        self._app.push_screen(RanksScreen(self._store, self._control.directory.name))

    def ask(self) -> None:
        from andrea_tui.screens.ask import InputDialog

        def asked(prompt: str | None) -> None:
            if prompt is None:
                return
            self._say("making a sample from the newest checkpoint")
            self.in_background(lambda: self._answered(prompt))

        hint = "The newest checkpoint answers, in a process of its own.  Enter asks, Esc goes back."
        self._app.push_screen(InputDialog("Text to continue (may be empty)", hint), asked)

    def _answered(self, prompt: str) -> str:
        from andrea_tui.screens.ask import AnswerScreen, make_sample

        title, text = make_sample(self._control.directory, prompt)
        self._app.call_later(self._app.push_screen, AnswerScreen(title, text))
        return ""

    def log(self) -> None:
        from andrea_tui.screens.log import LogScreen

        self._app.push_screen(LogScreen(self._control.directory, self._store))

    def search(self) -> None:
        from andrea_tui.screens.log import LogScreen

        self._app.push_screen(LogScreen(self._control.directory, self._store, search=True))

    def help(self) -> None:
        self._app.push_screen(HelpScreen(command_keys(Situation(self._store, self.read_only))))

    # -- tools --------------------------------------------------------------------------------------------------

    def remember(self) -> None:
        """How the run is looked at comes back with the next console."""
        self._app.remember()

    def look_now(self) -> None:
        """Something is about to happen in the run directory."""
        self._app.look_now()

    def _say(self, text: str, severity: str = "information") -> None:
        self._app.tell(text, severity)

    def _try(self, act: Callable[[], object]) -> bool:
        """Run `act`; a foreseeable failure is shown. Returns whether it succeeded."""
        try:
            act()
        except RunError as error:
            self._say(str(error), "error")
            return False
        return True

    def confirm(self, title: str, lines: list[str], text: str, act: Callable[[], object]) -> None:
        def chosen(result: str | None) -> None:
            if result == "yes":
                self._try(act)

        self._app.push_screen(Dialog(title, lines, [Choice("enter", "Enter", text, "yes")]), chosen)

    def in_background(self, work: Callable[[], str]) -> None:
        """Run `work` in a thread and show what it returns, or its error."""

        def run() -> None:
            try:
                text, severity = work(), "information"
            except RunError as error:
                text, severity = str(error), "error"
            if text:
                self._app.call_later(self._say, text, severity)

        threading.Thread(target=run, name="action", daemon=True).start()
