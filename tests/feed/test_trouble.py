"""How an engine ended, in words; what is lost; and an engine that gets nowhere."""

from __future__ import annotations

import signal
import time

import pytest

from andrea_engine.run.condition import Condition
from andrea_engine.run.errors import ExitCode
from andrea_engine.run.events import Event
from andrea_engine.run.heartbeat import Heartbeat
from andrea_engine.run.loss_entry import make_entry
from andrea_engine.run.process import boot_id
from andrea_tui.feed.last_words import LogTail
from andrea_tui.feed.store import Store
from andrea_tui.feed.trouble import MEANINGS, OwnEnd, Trouble, lost_text, trouble
from andrea_tui.feed.update import EntryBatch, Update

NOTHING = OwnEnd()


def beat(**fields: object) -> Heartbeat:
    known: dict[str, object] = {"pid": 77, "process_start": 1, "boot_id": boot_id(), "host": "h", "session": 2}
    known |= {"phase": "training", "phase_since": 0.0, "time": 0.0, "step": 140}
    return Heartbeat(**(known | fields))  # type: ignore[arg-type]


def store(
    word: str,
    *,
    steps: int = 141,
    saved: int | None = 100,
    known: bool = True,
    heartbeat: Heartbeat | None = None,
    tail: LogTail | None = None,
    events: tuple[Event, ...] = (),
    alive: bool = False,
    idle: float | None = None,
) -> Store:
    made = Store()
    entries = tuple(
        make_entry(step=n, loss=3.0, ema=3.0, source="chat", lr=1e-3, grad_norm=1.0) for n in range(1, steps + 1)
    )
    made.apply(
        Update(
            time.time(),
            Condition(word, alive=alive, sentence="it waits (state D)", advice="look at the disk", idle=idle),
            beat() if heartbeat is None else heartbeat,
            batches=(EntryBatch(entries),),
            events=events,
            newest_checkpoint=saved,
            checkpoints=(0 if saved is None else 1) if known else None,
            log_tail=tail,
        )
    )
    return made


def found(store: Store, own: OwnEnd = NOTHING) -> Trouble:
    trouble_found = trouble(store, own)
    assert trouble_found is not None
    return trouble_found


@pytest.mark.parametrize(
    "word", ["stopped", "finished", "empty", "halted", "pivot", "elsewhere", "recorded", "missing"]
)
def test_a_regular_end_is_no_trouble(word: str) -> None:
    assert trouble(store(word), NOTHING) is None
    assert trouble(store(word), OwnEnd(exit_code=0)) is None


@pytest.mark.parametrize("word", ["training", "starting", "saving"])
def test_a_living_engine_is_none_whatever_an_earlier_one_did(word: str) -> None:
    assert trouble(store(word, alive=True), OwnEnd(exit_code=-9)) is None


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5])
def test_every_exit_code_has_its_meaning_in_words(code: int) -> None:
    note = "its one sentence; see engine.log"
    seen = found(store("failed", heartbeat=beat(phase="failed", exit_code=code, note=note)))
    assert seen.ended
    assert seen.title == f"the engine ended with exit code {code}: {MEANINGS[ExitCode(code)]}"
    assert seen.facts[0] == note
    assert seen.facts[1].startswith("41 steps since the checkpoint of step 100 are lost")
    assert len(seen.facts) == 3, "and what to do"


def test_a_failure_with_a_sentence_of_its_own_is_not_called_unforeseen() -> None:
    note = "rank 1 (process 9) has ended; start the run again"
    seen = found(store("failed", heartbeat=beat(phase="failed", exit_code=1, note=note, agent=5)))
    assert (seen.title, seen.facts[0]) == ("the engine could not go on (exit code 1)", note)
    assert not any("traceback" in fact for fact in seen.facts)


def test_the_code_of_a_launcher_is_not_that_of_the_process_that_was_killed() -> None:
    several = beat(agent=5)
    tail = LogTail(("rank 0 (process 77) was ended by SIGKILL (out of memory?)", ""), time.time())
    seen = found(store("crashed", heartbeat=several, tail=tail), OwnEnd(exit_code=1))
    assert (seen.title, seen.facts[0]) == ("a process of the engine was ended", tail.lines[0])
    from_here = found(store("crashed", heartbeat=several, tail=tail), OwnEnd(exit_code=1, killed_pid=77))
    assert from_here.title == "the engine was killed from here (pid 77)"


@pytest.mark.parametrize("code", [None, 0])
def test_a_failure_without_a_code_keeps_its_sentence(code: int | None) -> None:
    seen = found(store("failed", heartbeat=beat(phase="failed", exit_code=code, note="its one sentence")))
    assert (seen.title, seen.facts[0]) == ("the engine has failed", "its one sentence")


def test_all_codes_of_the_engine_but_success_are_known() -> None:
    assert set(MEANINGS) == set(ExitCode) - {ExitCode.OK}


def test_a_code_that_nobody_knows() -> None:
    assert "exit code 99, which is none of its own" in found(store("crashed"), OwnEnd(exit_code=99)).title


def test_an_engine_that_never_reported_tells_through_its_log() -> None:
    tail = LogTail(("andrea-engine: run.toml: presett is unknown", ""), time.time())
    seen = found(store("stopped", tail=tail), OwnEnd(exit_code=2))
    assert seen.title.startswith("the engine ended with exit code 2: the configuration")
    assert seen.facts[0] == "andrea-engine: run.toml: presett is unknown"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-signal.SIGKILL, "killed from outside by SIGKILL (out of memory?)"),
        (-signal.SIGSEGV, "ended by SIGSEGV"),
        (-signal.SIGRTMIN, "ended by SIGRTMIN"),
        (-signal.SIGRTMIN - 1, f"ended by signal {signal.SIGRTMIN + 1}"),
    ],
)
def test_a_signal_is_named(code: int, words: str) -> None:
    assert words in found(store("crashed"), OwnEnd(exit_code=code)).title


def test_a_kill_from_here_is_not_blamed_on_memory() -> None:
    for own in (OwnEnd(exit_code=-9, killed_pid=77), OwnEnd(killed_pid=77)):
        assert found(store("crashed"), own).title == "the engine was killed from here (pid 77)"
    assert "from outside" in found(store("crashed"), OwnEnd(exit_code=-9, killed_pid=12)).title


def test_an_engine_of_another_starter_ends_without_a_word() -> None:
    seen = found(store("crashed"))
    assert seen.title == "the engine ended without a word in phase training"
    assert any("exit status is unknown to this console" in fact for fact in seen.facts)


@pytest.mark.skipif(not boot_id(), reason="this system has no boot id")
def test_a_restarted_machine_is_told() -> None:
    assert found(store("crashed", heartbeat=beat(boot_id="another"))).title.startswith("the machine was restarted")


@pytest.mark.parametrize(
    ("steps", "saved", "beat_step", "words"),
    [
        (141, 100, 140, "41 steps since the checkpoint of step 100 are lost"),
        (141, 100, 150, "50 steps since"),
        (101, 100, 100, "1 step since the checkpoint of step 100 is lost"),
        (100, 100, 100, "Nothing is lost: step 100 is saved."),
        (40, 100, 40, "Nothing is lost: step 100 is saved."),
        (41, None, 41, "There is no valid checkpoint: all 41 steps are lost."),
        (0, None, 0, "It had not trained a step."),
    ],
)
def test_how_many_steps_are_lost(steps: int, saved: int | None, beat_step: int, words: str) -> None:
    assert words in lost_text(store("crashed", steps=steps, saved=saved, heartbeat=beat(step=beat_step)))


def test_what_is_not_known_yet_is_not_claimed() -> None:
    assert "not known yet" in lost_text(store("crashed", known=False))
    unread = store("crashed")
    unread.complete = False
    assert "not known yet" in lost_text(unread)


def test_a_log_that_is_not_of_this_engine_is_named_so() -> None:
    now = time.time()
    started = (Event(now, "start", 2, {}),)
    lines = ("old",)
    assert found(store("crashed", tail=LogTail(lines, now + 5), events=started)).log_note == ""
    assert "older than this engine" in found(store("crashed", tail=LogTail(lines, now - 60), events=started)).log_note
    assert "there is no engine.log" in found(store("crashed")).log_note
    assert found(store("crashed", tail=LogTail((), 0.0, "it is a link"))).log_note == "it is a link"


def test_each_end_is_a_trouble_of_its_own() -> None:
    first = found(store("crashed", tail=LogTail((), 1.0)))
    assert first.key == found(store("crashed", tail=LogTail((), 1.0))).key
    assert first.key != found(store("crashed", heartbeat=beat(session=3), tail=LogTail((), 1.0))).key
    assert first.key != found(store("crashed", tail=LogTail((), 2.0))).key, "another start wrote to the log"


def test_a_stall_tells_state_and_advice_and_does_nothing() -> None:
    seen = found(store("stalled", alive=True, idle=75.0))
    assert not seen.ended
    assert seen.title == "no progress for 75 s"
    assert seen.facts[:2] == ("It waits (state D).", "What to do: look at the disk.")
    assert "Nothing is done about it by itself" in seen.facts[2]
    assert seen.key == found(store("stalled", alive=True, idle=76.0)).key, "one stall, however long"
    later = beat(step=141)
    assert seen.key != found(store("stalled", alive=True, idle=75.0, heartbeat=later)).key
    assert found(store("suspended", alive=True)).title == "the engine is suspended"
