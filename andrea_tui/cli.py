"""Command line of the console. `--once` and `--json` answer without Textual."""

from __future__ import annotations

import argparse
import gc
import io
import locale
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from andrea_engine import __version__
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, ExitCode, RunError
from andrea_engine.run.plain import clean

if TYPE_CHECKING:
    from andrea_tui.leaving import ExitState

FASTEST = 1_000_000


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="andrea-tui",
        description="Console of a training run: watch it, save, stop, resume. The run goes on when the console closes.",
    )
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        help="run directory, or ssh://host/path of one on another machine; one that does not exist opens a new run, "
        "one that holds runs opens the list of them; without: the run here, or the newest in runs/ or here",
    )
    parser.add_argument("--start", action="store_true", help="start or resume the engine at once")
    parser.add_argument("--watch", action="store_true", help="only watch: no key sends anything to the engine")
    parser.add_argument(
        "--restart",
        type=_restarts,
        default=0,
        metavar="N",
        help="start a crashed engine again, at most N times an hour, while the console is open",
    )
    parser.add_argument("--compare", type=Path, metavar="OTHER", help="draw the loss of a second run beside this one")
    parser.add_argument(
        "--replay", type=_speed, metavar="SPEED", help="play the recorded run, so many times as fast as it was (60)"
    )
    parser.add_argument("--serve", action="store_true", help="show the console in web browsers on this machine")
    parser.add_argument("--port", type=_port, metavar="N", help="with --serve: the port (8000)")
    parser.add_argument("--host", metavar="ADDRESS", help="with --serve: listen there instead of on 127.0.0.1")
    parser.add_argument(
        "--allow-control", action="store_true", help="with --serve: browsers may act on the run, not only watch"
    )
    parser.add_argument(
        "--remote-command",
        metavar="COMMAND",
        help="with ssh://: the console there, such as ~/andrea/.venv/bin/andrea-tui (andrea-tui)",
    )
    parser.add_argument("--once", action="store_true", help="print the facts as text and end")
    parser.add_argument("--json", action="store_true", help="print the facts as JSON and end")
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    parser.add_argument("--version", action="version", version=f"andrea-tui {__version__}")
    return parser


def _restarts(text: str) -> int:
    from andrea_tui.restart import MOST

    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:4]) <= MOST:
        raise argparse.ArgumentTypeError(f"give a number of restarts an hour from 1 to {MOST}, not {clean(text)}")
    return int(text)


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0.0 < speed <= FASTEST:
        raise argparse.ArgumentTypeError(f"give a speed above 0 and up to {FASTEST:,}, such as 60, not {clean(text)}")
    return speed


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:6]) < 65536:
        raise argparse.ArgumentTypeError(f"give a port from 1 to 65535, not {clean(text)}")
    return int(text)


def _check_combination(options: argparse.Namespace) -> None:
    """Refuse options that contradict each other. Raises ConfigError."""
    acting = options.start or options.restart
    if options.replay is not None and (acting or options.compare or options.once or options.json):
        raise ConfigError("--replay only plays a recorded run; leave out --start, --restart, --compare, --once, --json")
    if options.serve and (acting or options.once or options.json):
        raise ConfigError("--serve only shows the console; leave out --start, --restart, --once and --json")
    if not options.serve and (options.port or options.host or options.allow_control):
        raise ConfigError("--port, --host and --allow-control belong to --serve")
    if options.watch and options.allow_control:
        raise ConfigError("--watch and --allow-control contradict each other; name one")


def _is_remote(options: argparse.Namespace) -> bool:
    """Raises ConfigError for an option that only belongs to a run on another machine."""
    if options.run is not None and options.run.startswith("ssh://"):
        return True
    if options.remote_command is not None:
        raise ConfigError("--remote-command belongs to a run on another machine; write ssh://host/path")
    return False


def _connect(options: argparse.Namespace) -> int:
    """The console on another machine, with the same options."""
    from andrea_tui.remote import connect, parse

    place = parse(options.run)
    if options.serve:
        raise ConfigError("--serve shows a run of this machine; log in there and start it there")
    switches = [f"--{name}" for name in ("start", "watch", "once", "json", "ascii") if getattr(options, name)]
    named = {"restart": options.restart or None, "compare": options.compare, "replay": options.replay}
    valued = [text for name, value in named.items() if value is not None for text in (f"--{name}", str(value))]
    terminal = not (options.once or options.json)
    connect(place, options.remote_command or "andrea-tui", [*switches, *valued], terminal=terminal)


def run(arguments: Sequence[str]) -> int:
    """Run the console; returns the exit code."""
    try:
        options = build_parser().parse_args(arguments)
    except SystemExit as leaving:
        return int(leaving.code or 0)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a sample may hold what the locale cannot print
    try:
        return _run(options)
    except RunError as error:
        print(f"andrea-tui: {clean(str(error))}", file=sys.stderr)
        return int(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        return int(ExitCode.OK)


def _run(options: argparse.Namespace) -> int:
    """Raises RunError for what cannot be done."""
    _check_combination(options)
    if _is_remote(options):
        return _connect(options)
    directory = RunDirectory(Path(options.run) if options.run is not None else _default())
    listed = _check(directory)
    if options.compare is not None:
        _check_compared(RunDirectory(options.compare), directory)
    if listed and options.start:
        raise ConfigError(f"{directory.path} holds several runs; name the one to start")
    if options.replay is not None and (listed or not (directory.exists() or directory.is_foreign_run())):
        raise ConfigError(f"there is no run in {directory.path} to replay; name a run directory")
    if options.once or options.json:
        return (_print_list if listed else _print_once)(directory, json=options.json)
    if options.serve:
        from andrea_tui.serve import serve

        return serve(directory.path, options)
    return _open(directory, options)


def _default() -> Path:
    """The run to open when none is named. Raises ConfigError where there is none."""
    from andrea_tui.feed.runs import is_run, newest_run

    here = Path()
    if is_run(here):
        return here
    newest = (newest_run(Path("runs")) if Path("runs").is_dir() else None) or newest_run(here)
    if newest is None:
        raise ConfigError("there is no run here nor in runs/; name one, or a new one to make: andrea-tui runs/demo")
    return newest


def _check(directory: RunDirectory) -> bool:
    """Refuse what no run can be. Returns whether it is a directory of runs."""
    path = directory.path
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{path} is a file; name a run directory")
    if not path.is_dir() or directory.exists() or directory.is_foreign_run():
        return False
    from andrea_tui.feed.runs import holds_runs

    if holds_runs(path):
        return True
    if any(path.iterdir()):
        raise ConfigError(f"{path} is not empty and holds no run; name a run directory, or one that does not exist yet")
    return False


def _check_compared(other: RunDirectory, directory: RunDirectory) -> None:
    """Refuse what cannot be drawn beside the run. Raises ConfigError."""
    path = other.path
    if not path.is_dir():
        raise ConfigError(f"--compare: there is no directory {path}; name the directory of another run")
    if not other.exists() and not other.is_foreign_run():
        raise ConfigError(f"--compare: {path} holds no run; name the directory of another run")
    if path.resolve() == directory.path.resolve():
        raise ConfigError(f"--compare: {path} is the run itself; name the directory of another run")


def _print_list(directory: RunDirectory, *, json: bool) -> int:
    from andrea_tui.feed.runs import RunsReader
    from andrea_tui.feed.runs_text import runs_json, runs_text

    print((runs_json if json else runs_text)(RunsReader(directory.path).poll()))
    return int(ExitCode.OK)


def _print_once(directory: RunDirectory, *, json: bool) -> int:
    from andrea_engine.run.summary import summarise
    from andrea_engine.run.summary_text import as_json, render

    summary = summarise(directory)
    missing = summary.state == "missing"
    if missing and not json:
        raise ConfigError(f"there is no run at {directory.path}; `andrea-tui {directory.path}` makes a new one there")
    print((as_json if json else render)(summary))
    return int(ExitCode.USAGE if missing else ExitCode.OK)


def _open(directory: RunDirectory, options: argparse.Namespace) -> int:
    in_browser = os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")  # as `--serve` starts us
    if not in_browser and (not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb"):
        raise ConfigError(
            f"this is no terminal that can show the console; print the facts with: andrea-tui {directory.path} --once"
        )
    from andrea_tui.feed.read_ahead import ReadAhead

    # It reads while this process imports all that draws.
    ahead = ReadAhead.of(directory.loss_record()) if options.replay is None else None
    gc.disable()  # nothing that is made until the first frame is garbage: the app lets the collector in after it
    from andrea_tui.app import AndreaApp
    from andrea_tui.leaving import LEAVE_SIGNALS
    from andrea_tui.plotting.format import to_ascii

    ascii_only = options.ascii or "utf" not in (locale.getpreferredencoding(False) or "").lower()
    app = AndreaApp(
        directory,
        watch=options.watch,
        start=options.start,
        plot_kind="ascii" if ascii_only else "braille",
        restart=options.restart,
        compare=None if options.compare is None else RunDirectory(options.compare),
        replay=options.replay,
        ahead=ahead,
    )
    # One that comes while the screen is being opened waits for the handlers: they give the terminal back.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, LEAVE_SIGNALS)
    try:
        state = app.run()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if state is not None and not in_browser:
        line = farewell(app.directory, state)
        _say(to_ascii(line) if ascii_only else line)
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

    if state.listing is not None:
        return clean(f"the list of runs is closed, nothing was touched; come back with: andrea-tui {state.listing}")
    s = summarise(directory)
    if s.state == "missing":
        return f"{directory.path}: nothing was created"
    save = f"last checkpoint step {s.last_save.step:,}" if s.last_save else "no checkpoint yet"
    saved_file = next((c.file for c in s.checkpoints if s.last_save and c.step == s.last_save.step), "")
    file = f" ({saved_file})" if saved_file else ""
    ended = s.sentence if s.sentence.startswith(s.state) else f"{s.state}, {s.sentence}"
    going = f"the engine goes on (pid {s.pid}), step {s.step:,}" if s.alive else ended
    if not s.alive and f"{s.step:,}" not in s.sentence:
        going += f", step {s.step:,}"
    back = f"come back with: andrea-tui {directory.path}"
    return clean(f"{directory.path}: {going}; {save}{file}; {back}".replace("\n", " "))
