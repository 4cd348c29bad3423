"""A line of text from the operator, and a sample made by a process of its own."""

from __future__ import annotations

import json
import subprocess

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.module_command import module_command
from andrea_engine.run.plain import clean
from andrea_tui.widgets.rows import visible

PATIENCE = 300.0


class InputDialog(ModalScreen[str | None]):
    """One line of input: Enter gives it, Esc gives None."""

    BINDINGS = [Binding("escape", "back", "back", show=False)]

    def __init__(self, title: str, hint: str, value: str = "") -> None:
        super().__init__()
        self._title, self._hint, self._value = title, hint, value

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static(Text(self._title, style="bold"), id="dialog-title")
            yield Input(value=self._value, id="dialog-input")
            yield Static(Text(visible(self._hint)), id="dialog-text")

    def on_input_submitted(self, message: Input.Submitted) -> None:
        self.dismiss(message.value)

    def action_back(self) -> None:
        self.dismiss(None)


class AnswerScreen(ModalScreen[None]):
    """A generated text with its scores. Esc closes."""

    BINDINGS = [Binding("escape,q,enter", "close", "close", show=False)]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        body = Text()
        body.append(self._title + "\n\n", style="bold")
        body.append(self._text)
        body.append("\n\nEsc closes", style="dim")
        with VerticalScroll(id="help"):
            yield Static(body)

    def action_close(self) -> None:
        self.dismiss()


def make_sample(directory: RunDirectory, prompt: str) -> tuple[str, str]:
    """Title and text of a sample from the newest checkpoint. Blocks: for a worker thread. Never raises."""
    command = module_command("andrea_engine", "sample", directory.path, "--json", f"--prompt={prompt}")
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "No sample", clean(str(error))
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return "No sample", clean(lines[-1] if lines else f"exit code {done.returncode}")
    sample = json.loads(done.stdout)
    s = sample["scores"]
    title = (
        f"step {sample['step']:,}: {s['total']:.1f} of 100 "
        f"(bigram {s['bigram']:.1f}, trigram {s['trigram']:.1f}, English {s['english']:.1f}, "
        f"characters {s['character']:.1f})"
    )
    return title, clean(sample["prompt"] + sample["text"])
