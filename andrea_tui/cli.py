"""Command line of the console. `--once` and `--json` answer without Textual."""

from __future__ import annotations

import argparse
import io
import locale
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from andrea_engine import __version__
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, ExitCode, RunError
from andrea_engine.run.plain import clean

if TYPE_CHECKING:
    from andrea_tui.app import ExitState


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="andrea-tui",
        description="Console of a training run: watch it, save, stop, resume. The run goes on when the console closes.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory; one that does not exist opens a new run")
    parser.add_argument("--start", action="store_true", help="start or resume the engine at once")
    parser.add_argument("--watch", action="store_true", help="only watch: no key sends anything to the engine")
    parser.add_argument("--once", action="store_true", help="print the facts as text and end")
    parser.add_argument("--json", action="store_true", help="print the facts as JSON and end")
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    parser.add_argument("--version", action="version", version=f"andrea-tui {__version__}")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the console; returns the exit code."""
    try:
        options = build_parser().parse_args(arguments)
    except SystemExit as leaving:
        return int(leaving.code or 0)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a sample may hold what the locale cannot print
    directory = RunDirectory(options.run)
    try:
        _check(directory)
        if options.once or options.json:
            return _print_once(directory, json=options.json)
        return _open(directory, options)
    except RunError as error:
        print(f"andrea-tui: {clean(str(error))}", file=sys.stderr)
        return int(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        return int(ExitCode.OK)


def _check(directory: RunDirectory) -> None:
    path = directory.path
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{path} is a file; name a run directory")
    if path.is_dir() and not directory.exists() and not directory.is_foreign_run() and any(path.iterdir()):
        raise ConfigError(f"{path} is not empty and holds no run; name a run directory, or one that does not exist yet")


def _print_once(directory: RunDirectory, *, json: bool) -> int:
    from andrea_engine.run.summary import summarise
    from andrea_engine.run.summary_text import as_json, render

    print((as_json if json else render)(summarise(directory)))
    return int(ExitCode.OK)


def _open(directory: RunDirectory, options: argparse.Namespace) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        raise ConfigError(
            f"this is no terminal that can show the console; print the facts with: andrea-tui {directory.path} --once"
        )
    from andrea_tui.app import AndreaApp

    ascii_only = options.ascii or "utf" not in (locale.getpreferredencoding(False) or "").lower()
    app = AndreaApp(directory, watch=options.watch, start=options.start, plot_kind="ascii" if ascii_only else "braille")
    state = app.run()
    if state is not None:
        _say(farewell(directory, state))
    return app.return_code or 0


def _say(line: str) -> None:
    """Print to a terminal that may have gone."""
    try:
        print(line, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter fails once more, at its end


def farewell(directory: RunDirectory, state: ExitState) -> str:
    """One line after the screen has closed: run, state, step, last checkpoint, how to come back."""
    from andrea_engine.run.summary import summarise

    s = summarise(directory)
    if s.state == "missing":
        return f"{directory.path}: nothing was created"
    save = f"last checkpoint step {s.last_save.step:,}" if s.last_save else "no checkpoint yet"
    saved_file = next((c.file for c in s.checkpoints if s.last_save and c.step == s.last_save.step), "")
    file = f" ({saved_file})" if saved_file else ""
    going = f"the engine goes on (pid {s.pid}), step {s.step:,}" if s.alive else f"{s.state}, {s.sentence}"
    if not s.alive and f"{s.step:,}" not in s.sentence:
        going += f", step {s.step:,}"
    back = f"come back with: andrea-tui {directory.path}"
    return clean(f"{directory.path}: {going}; {save}{file}; {back}".replace("\n", " "))
