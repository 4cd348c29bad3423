"""Repairing a run: what is repaired, what is left, that nothing is lost, and that a death on the way is made up for."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from andrea_engine.run.check import check
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, LockedError, RunError
from andrea_engine.run.events import EventLog, read_events
from andrea_engine.run.lock import EngineLock
from andrea_engine.run.loss_reader import LossReader
from andrea_engine.run.repair import repair, repair_locked
from andrea_engine.run.state import read_state
from andrea_engine.run.workshop import Repair
from tests.run import pivot_support as support
from tests.run.faults import EVERY, VISIBLE, Death, Faults, die, fail
from tests.run.helpers import array_text, entry, put_checkpoint

DEAD = 999_999_999  # no process has this number


@pytest.fixture
def place() -> Iterator[Path]:
    """Thousands of fsyncs: in memory, where there is such a place."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


@pytest.fixture
def run(place: Path) -> RunDirectory:
    """A run that was stopped at step 40, with checkpoints at 30 and 40."""
    return support.build(place / "run")


def rebuilt(directory: RunDirectory, step: int) -> dict[str, object]:
    """Stands for the fold over the loss record."""
    last = [e.step for e in LossReader(directory.loss).read_all() if e.step <= step][-1]
    return {"step": last, "arms": {}}


def repaired(directory: RunDirectory, *, apply: bool = True, **options: object) -> list[str]:
    found: list[Repair] = []
    count = repair(directory, apply=apply, announce=found.append, rebuild=rebuilt, **options)  # type: ignore[arg-type]
    assert count == len(found)
    return [f"{one.path}: {one.sentence}" for one in found]


def originals(directory: RunDirectory) -> dict[str, bytes]:
    """What lies in the archive's folders of repairs and beside them, by name."""
    return {path.name: path.read_bytes() for path in directory.archive.rglob("*") if path.is_file()}


def everything(directory: RunDirectory) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory.path)): path.read_bytes()
        for path in directory.path.rglob("*")
        if path.is_file() and path != directory.lock
    }


def happy(directory: RunDirectory) -> None:
    """Nothing is left to repair, and the check has neither a problem nor a leftover to tell."""
    report = check(directory)
    assert report.ok, report.problems()
    told = [f"{f.path}: {f.text}" for f in report.findings if f.severity in {"note", "warning"}]
    assert [text for text in told if "half-written" in text or "not closed" in text or "newline" in text] == []
    assert repaired(directory, apply=False) == []


def test_a_healthy_run_has_nothing_to_repair(run: RunDirectory) -> None:
    before = everything(run)
    assert repaired(run, apply=False) == []
    assert repaired(run) == []
    assert everything(run) == before


def test_a_temporary_of_a_dead_writer_is_kept_and_one_of_a_living_writer_stays(run: RunDirectory) -> None:
    (run.path / f".step_000050.bin.{DEAD}.1.tmp").write_bytes(b"half")
    run.tokens.mkdir()
    (run.tokens / f".chat.u16.{DEAD}.7.tmp").write_bytes(b"tokens")
    living = run.path / f".console.json.{os.getppid()}.1.tmp"
    living.write_bytes(b"soon")
    assert len(repaired(run)) == 2
    kept = originals(run)
    assert kept[f"step_000050.bin.{DEAD}.1.half-written"] == b"half"
    assert kept[f"chat.u16.{DEAD}.7.half-written"] == b"tokens"
    assert living.read_bytes() == b"soon"
    assert repaired(run) == []


@pytest.mark.parametrize("torn", [b'{"time":1,"ki', b"\x00\x00\x00", b"[" * 5000])
def test_the_torn_end_of_the_event_log(run: RunDirectory, torn: bytes) -> None:
    before = run.events.read_bytes()
    run.events.write_bytes(before + torn)
    (sentence,) = repaired(run)
    assert f"ends in {len(torn):,} bytes" in sentence
    assert run.events.read_bytes().startswith(before)
    assert originals(run)["events.jsonl"] == torn
    assert read_events(run.events)[-1].text("text").startswith("repair: events.jsonl: ends in")
    happy(run)


def test_an_event_that_only_lacks_its_newline_is_kept(run: RunDirectory) -> None:
    whole = b'{"time":5.0,"kind":"notice","session":1,"text":"the last word"}'
    run.events.write_bytes(run.events.read_bytes() + whole)
    repaired(run)
    assert next(e.text("text") for e in read_events(run.events) if e.kind == "notice") == "the last word"
    assert not run.archive.exists()
    happy(run)


@pytest.mark.parametrize("end", [b',\n{"step":41,"lo', b",\n", b"", b"\n", b'\n]\n{"step":41'])
def test_the_end_of_the_loss_record(run: RunDirectory, end: bytes) -> None:
    whole = run.loss.read_bytes()
    entries = whole.removesuffix(b"\n]\n")
    run.loss.write_bytes(entries + end)
    (sentence,) = repaired(run)
    assert sentence.startswith(".loss.json: ")
    assert run.loss.read_bytes() == whole
    if b"{" in end:
        assert end in originals(run).values()
    happy(run)


def test_a_second_torn_end_at_the_same_place_does_not_replace_the_first(run: RunDirectory) -> None:
    entries = run.loss.read_bytes().removesuffix(b"\n]\n")
    for end in (b',\n{"step":41,"a', b',\n{"step":41,"b'):
        run.loss.write_bytes(entries + end)
        repaired(run)
    assert {b',\n{"step":41,"a', b',\n{"step":41,"b'} <= set(originals(run).values())


def test_a_torn_journal_keeps_its_whole_lines(run: RunDirectory) -> None:
    lines = [entry(step).to_line() + b"\n" for step in (41, 42, 43)]
    torn = lines[0] + lines[1] + lines[2][:20]
    run.journal.write_bytes(torn)
    repaired(run)
    assert run.journal.read_bytes() == lines[0] + lines[1]
    assert originals(run)[".loss.journal.jsonl"] == torn
    happy(run)


def test_a_journal_whose_first_line_is_damaged_keeps_the_others(run: RunDirectory) -> None:
    """They may be of the newest checkpoint, whose commit was cut short: then they are nowhere else."""
    run.loss.write_bytes(array_text(map(entry, range(1, 31))))
    lines = [entry(step).to_line() + b"\n" for step in range(31, 42)]
    run.journal.write_bytes(b"\x00" * 40 + b"}\n" + b"".join(lines))
    repaired(run)
    assert run.journal.read_bytes() == b"".join(lines)
    happy(run)


def test_a_journal_of_zeros_as_a_power_cut_leaves_it(run: RunDirectory) -> None:
    run.journal.write_bytes(bytes(5000))
    repaired(run)
    assert run.journal.read_bytes() == b""
    assert originals(run)[".loss.journal.jsonl"] == bytes(5000)
    happy(run)


def test_invalid_checkpoints_make_room_for_the_newest_valid_one(run: RunDirectory) -> None:
    os.truncate(run.path / "step_000040.bin", 60)
    put_checkpoint(run.path, 20, 3).rename(run.path / "step_000050.bin")
    os.mkfifo(run.path / "step_000060.bin")
    (run.path / "step_000070.bin").symlink_to("/etc/hostname")
    assert len(repaired(run)) == 3, "a file of another model is not touched"
    left = sorted(name for name in os.listdir(run.path) if name.startswith("step_"))
    assert left == ["step_000030.bin", "step_000050.bin"]
    folder = next(run.archive.glob("repair-*"))
    assert sorted(p.name for p in folder.iterdir()) == ["step_000040.bin", "step_000060.bin", "step_000070.bin"]
    assert (folder / "step_000070.bin").is_symlink()
    assert [finding.path for finding in check(run).problems()] == ["step_000050.bin"]


def test_with_deep_what_only_reading_finds_is_moved_as_well(run: RunDirectory) -> None:
    path = run.path / "step_000040.bin"
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    assert repaired(run) == []
    (sentence,) = repaired(run, deep=lambda path: None)
    assert "its bytes differ from the digest" in sentence
    assert originals(run)["step_000040.bin"] == bytes(data)


def test_without_any_valid_checkpoint_all_stay_where_they_are(run: RunDirectory) -> None:
    for step in (30, 40):
        os.truncate(run.path / f"step_{step:06d}.bin", 60)
    assert repaired(run) == []
    assert check(run).exit_code == 5


def test_what_cannot_be_repaired_is_left_alone(run: RunDirectory) -> None:
    steps = [step for step in range(1, 41) if step != 17]
    run.loss.write_bytes(array_text(map(entry, steps)))
    run.config.write_text("[model]\nwidth = 3\n")
    before = everything(run)
    assert repaired(run) == []
    assert everything(run) == before
    assert {finding.path for finding in check(run).problems()} == {".loss.json", "run.toml"}


def test_unreadable_convenience_files(run: RunDirectory) -> None:
    garbage = {".samples.json": b"no", ".state.json": b"[]", "engine.json": b"{", "console.json": b"7"}
    garbage |= {"run.lock.json": b"\xff"}
    for name, data in garbage.items():
        (run.path / name).write_bytes(data)
    assert len(repaired(run)) == 5
    kept = originals(run)
    assert {name: kept[name] for name in garbage} == garbage
    assert read_state(run.state) == {"step": 40, "arms": {}}
    assert run.samples.read_bytes().split() == [b"[", b"]"]
    happy(run)


def test_a_missing_state_is_rebuilt_and_where_it_cannot_be_nothing_is_claimed(run: RunDirectory) -> None:
    run.state.unlink()
    assert repaired(run) == [".state.json: is missing; is rebuilt from the loss record"]
    assert read_state(run.state) == {"step": 40, "arms": {}}
    run.state.unlink()
    assert repair(run, apply=True, announce=lambda found: None) == 0
    run.loss.write_bytes(array_text(map(entry, range(1, 36))))
    assert repaired(run) == [], "a record that ends at step 35 does not tell the bandit of step 40"


def test_a_half_done_pivot_is_completed_by_its_own_recovery(run: RunDirectory) -> None:
    before = support.contents(run)
    support.pending(run)
    assert len(repaired(run, apply=False)) == 1
    repaired(run)
    support.carried_out(run, before)
    happy(run)


def test_a_pivot_that_is_ahead_stays_ahead(run: RunDirectory) -> None:
    support.pending(run, 50, phase="asked", reached=None)
    assert repaired(run) == []
    support.pending(run, 50)
    assert repaired(run) == [], "its checkpoint is not there"


def test_a_damaged_intent_is_moved_only_while_nothing_is_archived(run: RunDirectory) -> None:
    run.pivot_intent.write_bytes(b"garbage")
    (run.archive / "pivot-0001-step-000040").mkdir(parents=True)
    assert repaired(run) == []
    (run.archive / "pivot-0001-step-000040").rmdir()
    assert len(repaired(run)) == 1
    assert originals(run)["pivot.json"] == b"garbage"
    happy(run)


def test_a_link_in_the_place_of_the_event_log_is_moved_and_not_followed(run: RunDirectory, place: Path) -> None:
    decoy = place / "decoy"
    decoy.write_bytes(b"mine\n")
    run.events.unlink()
    run.events.symlink_to(decoy)
    assert len(repaired(run)) == 1
    assert decoy.read_bytes() == b"mine\n"
    assert not run.events.is_symlink()


def test_never_while_an_engine_lives(run: RunDirectory) -> None:
    run.events.write_bytes(run.events.read_bytes() + b"torn")
    before = everything(run)
    lock = EngineLock(run)
    for apply in (True, False):
        with pytest.raises(LockedError):
            repair(run, apply=apply, announce=lambda found: None)
    lock.release()
    assert everything(run) == before


def test_an_archive_that_leads_elsewhere_is_refused(run: RunDirectory, place: Path) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    run.archive.symlink_to(elsewhere)
    os.truncate(run.path / "step_000040.bin", 60)
    with pytest.raises(RunError, match="not a folder of the run itself"):
        repaired(run)
    assert list(elsewhere.iterdir()) == []
    assert (run.path / "step_000040.bin").exists()


def test_what_is_no_run_is_refused(place: Path) -> None:
    with pytest.raises(ConfigError):
        repaired(RunDirectory(place))


# -- cut short anywhere --------------------------------------------------------------------------------------------

GARBAGE = b'{"step":41,"lo'


def spoil(run: RunDirectory) -> None:
    """Everything at once that a repair can do something about, but a pivot, which has its own enumeration."""
    run.loss.write_bytes(run.loss.read_bytes().removesuffix(b"\n]\n") + b",\n" + GARBAGE)
    run.journal.write_bytes(entry(41).to_line() + b"\n" + GARBAGE)
    run.events.write_bytes(run.events.read_bytes() + GARBAGE)
    put_checkpoint(run.path, 50, support.N_PARAMS)
    os.truncate(run.path / "step_000050.bin", 70)
    (run.path / f".step_000060.bin.{DEAD}.1.tmp").write_bytes(b"half")
    run.samples.write_bytes(b"no samples")
    run.state.write_bytes(b"no state")
    run.heartbeat.write_bytes(b"no beat")


def mended(run: RunDirectory, before: dict[str, bytes]) -> None:
    """All is repaired, every original is kept, and the loss record is what it was, byte for byte."""
    happy(run)
    for name in (".loss.json", "run.toml", "step_000030.bin", "step_000040.bin"):
        assert (run.path / name).read_bytes() == before[name], name
    assert run.events.read_bytes().startswith(before["events.jsonl"])
    assert run.journal.read_bytes() == entry(41).to_line() + b"\n"
    kept = set(originals(run).values())
    assert {b",\n" + GARBAGE, entry(41).to_line() + b"\n" + GARBAGE, GARBAGE, b"half"} <= kept
    assert {b"no samples", b"no state", b"no beat"} <= kept
    assert any(len(data) == 70 for data in kept)
    assert read_state(run.state) == {"step": 40, "arms": {}}


def carry_out(run: RunDirectory) -> None:
    """Without the engine's lock: a process that only plays dead would keep it."""
    repair_locked(run, apply=True, announce=lambda found: None, rebuild=rebuilt)


def interrupt(run: RunDirectory, stop_at: int, how: Callable[[], None], names: tuple[str, ...]) -> bool:
    """Repair up to operation `stop_at`; False when there are fewer."""
    faults = Faults(stop_at, how, names)
    try:
        with faults:
            carry_out(run)
    except (Death, RunError):
        assert faults.count >= stop_at
    return faults.count >= stop_at


def copy(template: RunDirectory, path: Path) -> RunDirectory:
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(template.path, path)
    return RunDirectory(path)


@pytest.mark.parametrize("how", [die, fail])
def test_stopped_once_anywhere(run: RunDirectory, place: Path, how: Callable[[], None]) -> None:
    before = everything(run)
    spoil(run)
    stop_at, more = 0, True
    while more:
        stop_at += 1
        directory = copy(run, place / "once")
        more = interrupt(directory, stop_at, how, EVERY)
        digest = hashlib.sha256((directory.path / "step_000040.bin").read_bytes())
        assert digest.digest() == hashlib.sha256(before["step_000040.bin"]).digest()
        carry_out(directory)
        mended(directory, before)
    assert stop_at > 80, "every file is created, written, synced and renamed"


def test_stopped_anywhere_and_again_in_the_next_repair(run: RunDirectory, place: Path) -> None:
    """Each death, followed by one at every third operation of the repair after it."""
    before = everything(run)
    spoil(run)
    pairs = first = 0
    more = True
    while more:
        first += 5
        once = copy(run, place / "once")
        more = interrupt(once, first, die, VISIBLE)
        second, again = first % 3, more
        while again:
            second += 3
            directory = copy(once, place / "twice")
            again = interrupt(directory, second, die, VISIBLE)
            carry_out(directory)
            mended(directory, before)
            pairs += 1
    assert pairs > 60


def test_repairs_are_put_down_in_the_event_log(run: RunDirectory) -> None:
    EventLog(run.events, 3).append("start", pid=1)
    spoil(run)
    count = len(repaired(run))
    told = [event for event in read_events(run.events) if event.text("text").startswith("repair: ")]
    assert len(told) == count
    assert {event.session for event in told} == {3}


def test_a_pivot_is_completed_however_its_repair_was_cut_short(run: RunDirectory, place: Path) -> None:
    before = support.contents(run)
    support.pending(run)
    stop_at, more = 0, True
    while more:
        stop_at += 1
        directory = copy(run, place / "once")
        more = interrupt(directory, stop_at, die, VISIBLE)
        support.safe(directory, before)
        carry_out(directory)
        support.carried_out(directory, before)
        happy(directory)
    assert stop_at > 20
