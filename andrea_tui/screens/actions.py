"""What the commands do that act on a run: each asks first where something could be lost, and says what came of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from andrea_engine.run.branching import fork, rollback
from andrea_engine.run.config import load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.intent import PivotIntent, read_intent
from andrea_tui.commands import Situation
from andrea_tui.control import Control
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import human_count
from andrea_tui.screens.ask import AnswerScreen, InputDialog, make_sample
from andrea_tui.screens.dialog import Choice, Dialog
from andrea_tui.screens.help import HelpScreen
from andrea_tui.screens.pivot.follow import PivotFollow, see_through
from andrea_tui.screens.pivot.wizard import PivotWizard
from andrea_tui.screens.samples import SamplesScreen

if TYPE_CHECKING:
    from andrea_tui.app import AndreaApp


class Actions:
    """One method a command, named as in the registry. `read_only` is why nothing may be sent, or ''."""

    def __init__(self, app: AndreaApp, store: Store, control: Control) -> None:
        self._app = app
        self._store = store
        self._control = control
        self.read_only = control.read_only_reason()

    # -- the engine ---------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        self._control.save()
        self._store.saves.ask(self._store.step)

    def stop(self) -> None:
        store = self._store
        if not store.condition.alive:
            choices = [Choice("enter", "Enter", "close the console", "close")]
            lines = [store.condition.sentence, "The engine is not running; there is nothing to stop."]
            title = "Close the console?"
        else:
            beat = store.heartbeat
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
        beat = self._store.heartbeat
        step = self._store.saves.durable_step or (beat.last_save.step if beat and beat.last_save else None)
        if step is None:
            return "nothing has been saved yet"
        return f"last save at step {step:,}, {max(0, self._store.step - step):,} steps ago"

    def detach(self) -> None:
        self._app.leave("detached")

    def resume(self) -> None:
        self._control.start()
        self._say("starting the engine")

    def override(self) -> None:
        self._confirm(
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
        if intent is not None and self._try(lambda: see_through(self._control.directory)):
            self._app.push_screen(PivotFollow(self._control.directory, self._store, intent))

    # -- checkpoints --------------------------------------------------------------------------------------------

    def rollback(self) -> None:
        step = self._last_good_step()
        if step is None:
            self._say("there is no checkpoint with a good sample to go back to", "warning")
            return
        name = self._control.directory.path
        self._confirm(
            f"Roll back to step {human_count(step)}?",
            [
                f"the run stands at step {human_count(self._store.step)}",
                "newer checkpoints and samples move to archive/, the loss record keeps every entry",
                f"another step: andrea-engine rollback {name} --to STEP",
            ],
            "roll back",
            lambda: self._in_background(lambda: self._rolled_back(step)),
        )

    def _rolled_back(self, step: int) -> str:
        done = rollback(self._control.directory, step)
        return f"the run stands at step {done.step:,} again; r resumes"

    def _last_good_step(self) -> int | None:
        """The newest checkpoint on disk whose sample passed; the last good one of a halt is pinned."""
        threshold = self._store.config.gate.threshold if self._store.config else 30.0
        good = {s.step for s in self._store.samples if s.scores is not None and s.scores.total >= threshold}
        return max((step for step in self._control.valid_checkpoints() if step in good), default=None)

    def fork(self) -> None:
        steps = self._control.valid_checkpoints()
        good = self._last_good_step()
        step = good if good is not None else max(steps, default=None)
        if step is None:
            self._say("there is no checkpoint to fork from", "warning")
            return
        path = self._control.directory.path
        proposal = path.with_name(f"{path.name}-from-{step}")

        def named(value: str | None) -> None:
            if value and value.strip():
                target = RunDirectory(type(path)(value.strip()))
                self._in_background(lambda: self._forked(target, step))

        hint = f"A new run from the checkpoint of step {human_count(step)}.  Enter makes it, Esc goes back."
        self._app.push_screen(InputDialog("Fork into which directory?", hint, str(proposal)), named)

    def _forked(self, target: RunDirectory, step: int) -> str:
        done = fork(self._control.directory, target, step)
        return f"created {done.directory.path} at step {done.step:,}; open it with: andrea-tui {done.directory.path}"

    # -- samples ------------------------------------------------------------------------------------------------

    def samples(self) -> None:
        def chosen(name: str | None) -> None:
            if name:
                self._app.run_command(name)

        screen = SamplesScreen(self._store, self._control.directory.name, self.read_only)
        self._app.push_screen(screen, chosen)

    def ask(self) -> None:
        def asked(prompt: str | None) -> None:
            if prompt is None:
                return
            self._say("making a sample from the newest checkpoint")
            self._in_background(lambda: self._answered(prompt))

        hint = "The newest checkpoint answers, in a process of its own.  Enter asks, Esc goes back."
        self._app.push_screen(InputDialog("Text to continue (may be empty)", hint), asked)

    def _answered(self, prompt: str) -> str:
        title, text = make_sample(self._control.directory, prompt)
        self._app.call_later(self._app.push_screen, AnswerScreen(title, text))
        return ""

    def help(self) -> None:
        self._app.push_screen(HelpScreen(Situation(self._store, self.read_only)))

    # -- tools --------------------------------------------------------------------------------------------------

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

    def _confirm(self, title: str, lines: list[str], text: str, act: Callable[[], object]) -> None:
        def chosen(result: str | None) -> None:
            if result == "yes":
                self._try(act)

        self._app.push_screen(Dialog(title, lines, [Choice("enter", "Enter", text, "yes")]), chosen)

    def _in_background(self, work: Callable[[], str]) -> None:
        """Run `work` in a thread and show what it returns, or its error."""

        def run() -> None:
            try:
                text, severity = work(), "information"
            except RunError as error:
                text, severity = str(error), "error"
            if text:
                self._app.call_later(self._say, text, severity)

        threading.Thread(target=run, name="action", daemon=True).start()
