"""Every command of the console, in one table: key bindings, key bar, palette, help and README come from here."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from andrea_tui.control import LOCKED, REPLAY
from andrea_tui.feed.sample_history import walkable
from andrea_tui.feed.store import Store


class Situation(msgspec.Struct, frozen=True):
    """What decides which commands make sense: the run's facts, and whether this console may act."""

    store: Store
    read_only: str = ""  # why this console sends nothing; '' when it may act

    @property
    def alive(self) -> bool:
        return self.store.condition.alive

    @property
    def locked(self) -> bool:
        """True when the operator has locked this console against slips of the hand."""
        return self.read_only == LOCKED

    @property
    def replay(self) -> bool:
        """True when a recorded run is played."""
        return self.read_only == REPLAY


Reason = Callable[[Situation], str]
"""Why a command cannot be done now, as a clause; '' when it can."""


class Command(msgspec.Struct, frozen=True):
    """`keys`: the first is shown, none makes it a command of the palette only. `label` stands in the key bar ('' keeps
    it out of there), `help` in the help."""

    id: str
    keys: tuple[str, ...]
    label: str
    help: str
    group: str
    reason: Reason = lambda situation: ""

    def label_in(self, situation: Situation) -> str:
        """The label, in the words of the moment."""
        return _replay_label(situation, self.label) if self.id == "replay_pause" else self.label

    @property
    def key_name(self) -> str:
        """The first key as people write it."""
        return self.key_names[0]

    @property
    def key_names(self) -> tuple[str, ...]:
        """All keys as people write them."""
        return tuple(KEY_NAMES.get(key, key) for key in self.keys) or (IN_PALETTE,)


IN_PALETTE = "palette"
KEY_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "plus": "+",
    "equals_sign": "=",
    "minus": "-",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "ctrl+p": "ctrl+p",
    "f1": "F1",
}


def _pivot_reason(situation: Situation) -> str:
    if situation.read_only:
        return situation.read_only
    word = situation.store.condition.word
    if word in ("recorded", "missing", "elsewhere"):
        return situation.store.condition.sentence
    return "" if situation.store.checkpoints else "there is no checkpoint to pivot at yet"


def _save_reason(situation: Situation) -> str:
    if situation.read_only:
        return situation.read_only
    if not situation.alive:
        return "the engine is not running"
    beat = situation.store.heartbeat
    if beat is None or not beat.armed:
        return "the engine has not said yet that it listens"
    if situation.store.condition.word == "stopping":
        return "the engine is stopping and saves anyway"
    if situation.store.saves.pending:
        return "a checkpoint has been asked for already"
    return ""


def _resume_reason(situation: Situation) -> str:
    if situation.read_only:
        return situation.read_only
    word = situation.store.condition.word
    if situation.alive:
        return "the engine is running"
    if word in ("recorded", "missing", "elsewhere"):
        return situation.store.condition.sentence
    if word == "finished":
        return "the run is finished"
    if word == "halted":
        return "the gate halted this run; o goes on all the same"
    return ""


def _override_reason(situation: Situation) -> str:
    if situation.read_only:
        return situation.read_only
    return "" if situation.store.condition.word == "halted" else "the run is not halted"


def _offline_reason(situation: Situation) -> str:
    if situation.read_only:
        return situation.read_only
    if situation.alive:
        return "the engine is running; stop it first"
    return "" if situation.store.checkpoints else "there is no checkpoint"


def _checkpoint_reason(situation: Situation) -> str:
    if situation.replay:
        return REPLAY
    return "" if situation.store.checkpoints else "there is no checkpoint yet"


def _fork_reason(situation: Situation) -> str:
    return situation.read_only or _checkpoint_reason(situation)


def _stop_reason(situation: Situation) -> str:
    return situation.read_only if situation.alive or situation.locked or situation.replay else ""


def _detach_reason(situation: Situation) -> str:
    return LOCKED if situation.locked else ""


def _lock_reason(situation: Situation) -> str:
    return situation.read_only if situation.replay or "--watch" in situation.read_only else ""


def _kill_reason(situation: Situation) -> str:
    if situation.read_only:
        return situation.read_only
    if not situation.alive:
        return "the engine is not running"
    return "" if situation.store.heartbeat is not None else "the engine has not reported yet"


def _restart_reason(situation: Situation) -> str:
    if situation.read_only:
        return situation.read_only
    word = situation.store.condition.word
    return situation.store.condition.sentence if word in ("recorded", "missing", "elsewhere") else ""


def _take_over_reason(situation: Situation) -> str:
    if not situation.read_only:
        return "this console may act already"
    return "" if "another console" in situation.read_only else situation.read_only


def _history_reason(situation: Situation) -> str:
    return "" if walkable(situation.store) else "there is only one sample or none"


def _not_in_replay(situation: Situation) -> str:
    return REPLAY if situation.replay else ""


def _ranks_reason(situation: Situation) -> str:
    if not situation.alive:
        return "the engine is not running"
    return "" if situation.store.ranks else "one process trains this run; nproc in run.toml gives it more"


def _replay_label(situation: Situation, label: str) -> str:
    """What the key does next, by the state that the replay shows."""
    state = situation.store.condition.word.rpartition(", ")[2]
    return {"paused": "go on", "ended": "play again"}.get(state, label)


def _replay_reason(situation: Situation) -> str:
    return "" if situation.replay else "this is no replay; --replay 60 makes one"


COMMANDS: tuple[Command, ...] = (
    Command(
        "checkpoint", ("c",), "checkpoint", "Save a checkpoint after this step and go on.", "Control", _save_reason
    ),
    Command(
        "stop", ("q",), "stop…", "Stop: asks, then saves a checkpoint and ends the engine.", "Control", _stop_reason
    ),
    Command("detach", ("d",), "detach", "Close this console; the engine goes on.", "Control", _detach_reason),
    Command("resume", ("r",), "resume", "Start the engine from the last checkpoint.", "Control", _resume_reason),
    Command(
        "override",
        ("o",),
        "override halt…",
        "Go on although the gate halted the run: asks first.",
        "Control",
        _override_reason,
    ),
    Command(
        "rollback",
        ("l",),
        "roll back…",
        "Go back to the last good checkpoint: asks first, archives what is newer.",
        "Control",
        _offline_reason,
    ),
    Command("fork", ("f",), "fork…", "Make a second run from the last good checkpoint.", "Control", _fork_reason),
    Command("pivot", ("p",), "pivot…", "Change the mixing policy in the middle of the run.", "Control", _pivot_reason),
    Command(
        "take_over",
        ("t",),
        "take over",
        "Act from here instead of from the other console.",
        "Control",
        _take_over_reason,
    ),
    Command("lock", ("k",), "", "Lock this console: no key acts on the run; again: unlock.", "Control", _lock_reason),
    Command("kill", (), "", "Kill the engine: what is not saved is lost; asks for the word.", "Control", _kill_reason),
    Command("restart_policy", (), "", "Start a crashed engine again by itself: on or off.", "Control", _restart_reason),
    Command(
        "replay_pause", ("space",), "pause", "Replay: pause and go on; at its end: play again.", "View", _replay_reason
    ),
    Command("browse", ("b",), "checkpoints", "All checkpoints: pin, check, inspect, roll back, fork.", "View"),
    Command("runs", ("w",), "runs", "All runs beside this one; this run is left as it is.", "View", _not_in_replay),
    Command("samples", ("e",), "samples", "The newest samples, and the last good beside the first bad one.", "View"),
    Command("ranks", ("n",), "", "All processes that train this run: how fast, and where.", "View", _ranks_reason),
    Command("log", ("v",), "log", "The engine's log and the events in full: follow, search, filter.", "View"),
    Command("search", ("slash",), "", "Search in the engine's log and the events.", "View"),
    Command("ask", ("a",), "ask", "Let the newest checkpoint continue a text of yours.", "View", _checkpoint_reason),
    Command("smooth_more", ("s",), "smooth", "Smooth the line more; the raw values stay as a band.", "Chart"),
    Command("smooth_less", ("S",), "", "Smooth the line less, down to the raw values.", "Chart"),
    Command("log_scale", ("y",), "log y", "Switch the chart between linear and logarithmic y.", "Chart"),
    Command("x_axis", ("x",), "x axis", "Next x axis: steps, tokens, active time, wall time, kWh.", "Chart"),
    Command("pick_series", ("m",), "series", "Choose what the chart shows: loss, rates, power, one arm.", "Chart"),
    Command("zoom_in", ("plus", "equals_sign"), "zoom", "Zoom in: about the cursor, or to the newest.", "Chart"),
    Command("zoom_out", ("minus",), "", "Zoom out. The mouse wheel zooms about the pointer.", "Chart"),
    Command("pan_left", ("shift+left", "H"), "", "Move the window back; shift + wheel too.", "Chart"),
    Command("pan_right", ("shift+right", "L"), "", "Move the window on; at the newest step it follows.", "Chart"),
    Command("reset_view", ("0",), "", "Show the whole record again.", "Chart"),
    Command("cursor_left", ("left",), "", "Move the time cursor back; all panels follow. Esc ends it.", "Chart"),
    Command("cursor_right", ("right",), "", "Move the time cursor on; a click sets it.", "Chart"),
    Command("first", ("home",), "", "Window and cursor to the first step.", "Chart"),
    Command("last", ("end",), "", "Window and cursor to the newest step, and follow.", "Chart"),
    Command("highest", ("i",), "", "Cursor to the highest point in view.", "Chart"),
    Command("policy_view", ("g",), "", "Show the whole record, or one policy alone, newest first.", "Chart"),
    Command("older", ("left_square_bracket",), "older", "Show the sample before this one.", "View", _history_reason),
    Command("newer", ("right_square_bracket",), "newer", "Show the sample after this one.", "View", _history_reason),
    Command("panel_1", ("1",), "", "Show the loss alone, or all panels again.", "View"),
    Command("panel_2", ("2",), "", "Show power alone, or all panels again.", "View"),
    Command("panel_3", ("3",), "", "Show the sample alone, or all panels again.", "View"),
    Command("panel_4", ("4",), "", "Show the arms alone, or all panels again.", "View"),
    Command("panel_5", ("5",), "", "Show the events alone, or all panels again.", "View"),
    Command("help", ("question_mark", "f1"), "help", "Show all keys, and why some cannot be used now.", "Other"),
    Command("palette", ("ctrl+p", "colon"), "all", "Search all commands by name.", "Other"),
)

BY_ID = {command.id: command for command in COMMANDS}


def key_table() -> str:
    """The key table of the README, in Markdown."""
    lines = ["| key | what it does |", "| --- | --- |"]
    for command in COMMANDS:
        keys = ", ".join(f"`{key}`" if command.keys else key for key in command.key_names)
        lines.append(f"| {keys} | {command.help} |")
    return "\n".join(lines)
