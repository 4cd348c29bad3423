"""A run directory that does not exist yet: what would be made, and Enter to make it and start."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from andrea_engine.run.checkpoint import checkpoint_bytes
from andrea_engine.run.config import RunConfig, create_run, parse_config, preset_names, preset_text, suggest_preset
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_tui.plotting.format import human_count, size_bytes
from andrea_tui.widgets.rows import visible


class NewRunScreen(Screen[None]):
    """Arrow keys choose the preset; Enter creates the directory and starts; Esc leaves without a trace."""

    BINDINGS = [
        Binding("enter", "create", "create and start"),
        Binding("left,up", "choose(-1)", "preset"),
        Binding("right,down,tab", "choose(1)", "preset"),
        Binding("escape,q,d", "leave", "leave"),
    ]

    class Created(Message):
        """The run exists now and should be started."""

    def __init__(self, directory: RunDirectory, read_only: str = "") -> None:
        super().__init__()
        self._read_only = read_only  # why this console may not create anything
        self._directory = directory
        self._presets = preset_names()
        self._index = self._presets.index(suggest_preset(directory.path))
        self._problem = ""

    def compose(self) -> ComposeResult:
        with Vertical(id="new-run"):
            yield Static(id="new-run-text")

    def on_mount(self) -> None:
        self._show()

    def _config(self) -> RunConfig:
        name = self._presets[self._index]
        return parse_config(f'preset = "{name}"\n' + preset_text(name), name)

    def _show(self) -> None:
        self.query_one("#new-run-text", Static).update(self._text(self._config()))

    def _text(self, config: RunConfig) -> Text:
        need = checkpoint_bytes(config.n_params)
        free = _free(self._directory.path)
        text = Text()
        text.append("A new run\n\n", style="bold")
        # Above the facts: on a small screen the end of the page is cut off.
        text.append("  Enter", style="bold")
        text.append("  create it and start training\n")
        text.append("  Esc  ", style="bold")
        text.append("  leave without a trace\n")
        text.append("\n")
        if self._problem:
            text.append(f"  {visible(self._problem)}\n\n", style="bold red")
        text.append(f"  {'directory':<14}")
        path = visible(str(self._directory.path))
        text.append(f"{path}\n")
        text.append(f"  {'preset':<14}")
        for index, name in enumerate(self._presets):
            chosen = index == self._index
            text.append(f"[{name}]" if chosen else f" {name} ", style="bold reverse" if chosen else "")
            text.append(" ")
        text.append("  ← → choose\n")
        m, s = config.model, config.schedule
        rows = [
            (
                "model",
                f"{human_count(config.n_params)} parameters, {m.layers} layers of {m.d_model}, context {m.context}",
            ),
            ("training", f"{human_count(s.steps)} steps of {human_count(config.tokens_per_step)} tokens"),
            ("device", device_text(config.device.name)),
            ("text", ", ".join(str(source.get("name")) for source in config.sources)),
            ("", "the documentation and source code that come with this Python;"),
            ("", f"own text: andrea-engine init {path} --text FOLDER"),
            (
                "checkpoint",
                f"{size_bytes(need)} every {config.checkpoint.every} steps, at most about {_kept(config)} kept",
            ),
            ("disk", f"{size_bytes(free)} free, room for {human_count(free // need if free is not None else None)}"),
        ]
        for label, value in rows:
            text.append(f"  {label:<14}{value}\n")
        if free is not None and free < 3 * need:
            text.append("\n  The disk has no room for three checkpoints; make room first.\n", style="bold red")
        return text

    def action_choose(self, by: int) -> None:
        self._index = (self._index + by) % len(self._presets)
        self._problem = ""
        self._show()

    def action_create(self) -> None:
        try:
            if self._read_only:
                raise RunError(self._read_only)
            create_run(self._directory, self._presets[self._index], {}, None)
        except RunError as error:
            self._problem = str(error)
            self._show()
            return
        self.post_message(self.Created())

    def action_leave(self) -> None:
        self.app.exit()


def device_text(name: str) -> str:
    """What `auto` will find, without importing PyTorch."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if name == "cpu" or not Path("/proc/driver/nvidia/version").exists():
        return f"CPU, {threads} thread{'s' if threads > 1 else ''} (no NVIDIA GPU)"
    return "NVIDIA GPU, if PyTorch can use it, else CPU"


def _kept(config: RunConfig) -> str:
    table = config.checkpoint
    if table.keep == "all":
        return human_count(config.schedule.steps // table.every)
    multiples = config.schedule.steps // table.keep_every if table.keep_every else 0
    return human_count(table.keep_last + multiples)


def _free(path: Path) -> int | None:
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None
