"""How each run was looked at last, remembered for the user and outside of the run: theme, panel, axes, smoothing.

One small file below `$XDG_STATE_HOME`. It is worth nothing but comfort: rubbish in it is ignored, and where it cannot
be written nothing is remembered.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from andrea_engine.run.io import atomic_write, read_optional

MOST_RUNS = 200
MOST_KEYS = 30
LONGEST_TEXT = 300
FILE_LIMIT = 4 * 1024 * 1024

Habits = dict[str, object]


class Settings:
    """The settings file of this user. No method raises."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path if path is not None else _default_path()

    def of(self, run: Path) -> Habits:
        """What is remembered of a run; of one that is seen for the first time, the theme chosen last."""
        kept = self._read()
        habits = kept.get(_key(run))
        if habits is not None:
            return habits
        last = next(reversed(kept.values()), {})
        return {"theme": last["theme"]} if "theme" in last else {}

    def remember(self, run: Path, habits: Mapping[str, object]) -> None:
        """Replace what is remembered of a run; those looked at least recently are forgotten beyond `MOST_RUNS`."""
        if self._path is None:
            return
        kept = self._read()
        kept.pop(_key(run), None)
        kept[_key(run)] = _bounded(habits)
        newest = dict(list(kept.items())[-MOST_RUNS:])
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            atomic_write(self._path, msgspec.json.encode({"runs": newest}), durable=False)
        except (OSError, UnicodeEncodeError):
            pass  # not remembered, and nothing lost

    def _read(self) -> dict[str, Habits]:
        """Habits by run, oldest first."""
        try:
            data = read_optional(self._path, FILE_LIMIT) if self._path is not None else None
            found = msgspec.json.decode(data) if data else {}
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
        runs = found.get("runs") if isinstance(found, dict) else None
        if not isinstance(runs, dict):
            return {}
        return {run: _bounded(habits) for run, habits in runs.items() if isinstance(habits, dict)}


def _bounded(habits: Mapping[str, object]) -> Habits:
    """Only what can be a habit: a few words, numbers and switches."""
    known = {
        name: value
        for name, value in habits.items()
        if isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= LONGEST_TEXT)
    }
    return dict(list(known.items())[:MOST_KEYS])


def _key(run: Path) -> str:
    return os.fsencode(os.path.realpath(run)).decode("utf-8", "backslashreplace")


def _default_path() -> Path | None:
    """By the XDG Base Directory Specification: a relative `XDG_STATE_HOME` counts as none."""
    home = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not home.is_absolute():
        home = Path("~/.local/state").expanduser()
    return home / "andrea" / "console.json" if home.is_absolute() else None
