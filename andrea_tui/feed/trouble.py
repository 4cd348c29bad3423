"""What a person has to know when the engine has ended badly, or lives and gets nowhere, in words."""

from __future__ import annotations

import signal

import msgspec

from andrea_engine.run.errors import ExitCode
from andrea_engine.run.heartbeat import SEE_LOG
from andrea_engine.run.process import boot_id
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import human_count

MEANINGS = {
    ExitCode.FAILED: "an error that nobody foresaw",
    ExitCode.USAGE: "the configuration or the command line cannot be used",
    ExitCode.SAVE_FAILED: "it could not save",
    ExitCode.LOCKED: "another engine owns this run",
    ExitCode.NO_CHECKPOINT: "no valid checkpoint",
    ExitCode.HALTED: "halted by the coherence gate",
    ExitCode.PIVOT: "stopped at a pivot point",
}
_GO_ON = "Resuming goes on from the last checkpoint."
_ADVICE = {
    ExitCode.FAILED: f"The traceback stands in its log. {_GO_ON}",
    ExitCode.USAGE: "Correct what it names in run.toml, then resume.",
    ExitCode.SAVE_FAILED: "Make room on the disk, or repair it, then resume.",
    ExitCode.LOCKED: "The other engine has to end first.",
    ExitCode.NO_CHECKPOINT: "`andrea-engine check` on this run says what is wrong with each checkpoint.",
    ExitCode.HALTED: "Its samples show why; rolling back or a pivot leads on.",
    ExitCode.PIVOT: "Resuming finishes the pivot.",
}
_EXPECTED = (ExitCode.OK, ExitCode.HALTED, ExitCode.PIVOT)  # each of these has a screen of its own


class OwnEnd(msgspec.Struct, frozen=True):
    """What this console knows itself of the last engine: its exit code if it started it (negative: by which signal,
    None: unknown), and the pid of one that was killed from here."""

    exit_code: int | None = None
    killed_pid: int | None = None


class Trouble(msgspec.Struct, frozen=True):
    """`key` tells one from the next. `facts`: sentences, the most important first. `log_note`: why the lines of the
    log may not be those of this engine, ''."""

    key: object
    ended: bool
    title: str
    facts: tuple[str, ...]
    log_lines: tuple[str, ...] = ()
    log_note: str = ""


def trouble(store: Store, own: OwnEnd) -> Trouble | None:
    """The trouble that the run is in; None where all is well or nothing is known."""
    word = store.condition.word
    if word in ("stalled", "suspended"):
        return _stall(store)
    if store.condition.alive or word in ("halted", "pivot", "recorded", "missing", "elsewhere"):
        return None
    badly = own.exit_code is not None and own.exit_code not in _EXPECTED
    return _end(store, own) if word in ("crashed", "failed") or badly else None


def _stall(store: Store) -> Trouble:
    found, beat = store.condition, store.heartbeat
    engine = (beat.pid, beat.process_start, beat.step, beat.phase) if beat is not None else None
    idle = "" if found.idle is None else f"no progress for {found.idle:,.0f} s"
    return Trouble(
        key=(found.word, engine),
        ended=False,
        title=idle or "the engine is suspended",
        facts=(
            f"{found.sentence[:1].upper()}{found.sentence[1:]}.",
            f"What to do: {found.advice}." if found.advice else "",
            "Nothing is done about it by itself: it may go on at any moment.",
        ),
    )


def _end(store: Store, own: OwnEnd) -> Trouble:
    beat = store.heartbeat
    code = own.exit_code
    failed = store.condition.word == "failed"
    if code is None and failed and beat is not None:
        code = beat.exit_code
    tail = store.log_tail
    lines = tail.lines if tail is not None else ()
    title, advice = _how(store, code, own)
    note = ""
    if failed and beat is not None and beat.exit_code == code:
        note = beat.note
    elif code is not None and code > 0:
        note = next((line for line in reversed(lines) if line.strip()), "")
    engine = beat.engine if beat is not None else None
    return Trouble(
        key=("ended", engine, code, tail.modified if tail is not None else None),
        ended=True,
        title=title,
        facts=tuple(fact for fact in (note.strip(), lost_text(store), advice) if fact),
        log_lines=lines,
        log_note=_log_note(store),
    )


def _how(store: Store, code: int | None, own: OwnEnd) -> tuple[str, str]:
    """How it ended, and what to do about it."""
    beat = store.heartbeat
    killed_here = own.killed_pid is not None and (beat is None or beat.pid == own.killed_pid)
    several = beat is not None and beat.agent is not None  # then the code is that of the one that started them all
    if killed_here and (code is None or code < 0 or several):
        return f"the engine was killed from here (pid {own.killed_pid})", _GO_ON
    if not code and store.condition.word == "failed":
        return "the engine has failed", _GO_ON
    if code is None:
        return _without_a_word(store)
    if code < 0:
        return _by_signal(-code)
    return _by_code(code, store, several=several)


def _by_code(code: int, store: Store, *, several: bool) -> tuple[str, str]:
    beat = store.heartbeat
    if code == ExitCode.FAILED and several and store.condition.word == "crashed":
        return "a process of the engine was ended", _GO_ON
    if code == ExitCode.FAILED and beat is not None and beat.note and not beat.note.endswith(SEE_LOG):
        return f"the engine could not go on (exit code {code})", _GO_ON
    if code not in MEANINGS:
        return f"the engine ended with exit code {code}, which is none of its own", _GO_ON
    return f"the engine ended with exit code {code}: {MEANINGS[ExitCode(code)]}", _ADVICE[ExitCode(code)]


def _by_signal(number: int) -> tuple[str, str]:
    if number == signal.SIGKILL:
        return "the engine was killed from outside by SIGKILL (out of memory?)", (
            f"`dmesg` tells whether the kernel ran out of memory. {_GO_ON}"
        )
    return f"the engine was ended by {signal_name(number)}", f"Its log may say more. {_GO_ON}"


def _without_a_word(store: Store) -> tuple[str, str]:
    beat = store.heartbeat
    if beat is not None and beat.boot_id and boot_id() and beat.boot_id != boot_id():
        return "the machine was restarted while the engine ran", _GO_ON
    where = f" in phase {beat.phase}" if beat is not None else ""
    return f"the engine ended without a word{where}", (
        "Its exit status is unknown to this console, which did not start it: killed, out of memory, or a crash."
    )


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def lost_text(store: Store) -> str:
    """How many steps have to be trained again."""
    beat = store.heartbeat
    step = max(store.last.step if store.last else 0, beat.step if beat else 0)
    if store.checkpoints is None or not store.complete:
        return "How many steps are lost is not known yet."
    if not step:
        return "It had not trained a step."
    saved = store.newest_checkpoint
    if saved is None:
        return f"There is no valid checkpoint: all {human_count(step)} steps are lost."
    lost = max(0, step - saved)
    if not lost:
        return f"Nothing is lost: step {human_count(saved)} is saved."
    steps, are = ("step", "is") if lost == 1 else ("steps", "are")
    return (
        f"{human_count(lost)} {steps} since the checkpoint of step {human_count(saved)} {are} lost "
        f"and will be trained again."
    )


def _log_note(store: Store) -> str:
    tail = store.log_tail
    if tail is None:
        return "there is no engine.log: its output went to where it was started"
    if tail.problem:
        return tail.problem
    started = next((event.time for event in reversed(store.events) if event.kind == "start"), None)
    if started is not None and tail.modified < started - 1.0:
        return "engine.log is older than this engine, whose output went to where it was started"
    return ""
