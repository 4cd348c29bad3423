"""The loss record is written so that any interruption leaves a prefix of the truth, and a start completes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, ExitCode
from andrea_engine.run.loss_entry import LossEntry, current_branch
from andrea_engine.run.loss_record import LossRecord, Recovery

from .helpers import array_text, entry, leftovers, steps
from .record_support import journal, opened, put, recorded, recover, span


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fsync: for the many thousand states of the exhaustive tests."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


# -- the ordinary course ----------------------------------------------------------------------------------------------


def test_entries_wait_in_the_journal_until_their_checkpoint_is_durable(run: RunDirectory) -> None:
    with opened(run, 0) as (record, recovery):
        assert recovery == Recovery(entries=[])
        assert run.loss.read_bytes() == b"[\n]\n"
        for step in (1, 2, 3):
            record.append(entry(step))
        assert recorded(run) == []
        assert journal(run) == span(1, 3)
        record.sync_journal()
        record.commit(2)
        assert recorded(run) == span(1, 2)
        assert journal(run) == [entry(3)]
        record.append(entry(4))
        assert journal(run) == span(3, 4)
        record.commit(4)
        record.commit(4)  # nothing waits: nothing happens
    assert run.loss.read_bytes() == array_text(span(1, 4))
    assert run.journal.read_bytes() == b""
    assert recover(run, 4) == Recovery(entries=span(1, 4))
    assert leftovers(run.path) == []


def test_a_commit_is_durable_in_this_order(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    real, synced = os.fsync, []

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    with opened(run, 0) as (record, _):
        record.append(entry(1))
        monkeypatch.setattr(os, "fsync", fsync)
        record.sync_journal()
        assert synced == [str(run.journal)]
        record.commit(1)
        assert synced[1:] == [str(run.loss), str(run.journal), str(run.path)]


def test_no_byte_before_the_closing_bracket_changes(run: RunDirectory) -> None:
    before = b"["
    with opened(run, 0) as (record, _):
        for step in range(1, 30):
            record.append(entry(step))
            if step % 3 == 0:
                record.commit(step)
                now = run.loss.read_bytes()
                assert now.startswith(before)
                assert now.endswith(b"}\n]\n")
                before = now[:-3]
    for _ in range(2):
        recover(run, 27)
        assert run.loss.read_bytes() == before + b"\n]\n"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    runs=st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(0, 3), st.booleans()), min_size=1, max_size=5
    )
)
def test_sessions_of_any_length_leave_one_entry_a_step(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, int, int, bool]], quick: None
) -> None:
    """Each session trains, commits every `cadence` steps, and ends anywhere, also between checkpoint and commit."""
    run = RunDirectory(tmp_path_factory.mktemp("sessions"))
    durable = 0
    wanted: dict[int, LossEntry] = {}
    for session, (length, cadence, waiting, uncommitted) in enumerate(runs, start=1):
        record = LossRecord(run)
        assert record.recover(durable).entries == [wanted[step] for step in range(1, durable + 1)]
        for step in range(durable + 1, durable + length * cadence + waiting + 1):
            wanted[step] = entry(step, session=session)
            record.append(wanted[step])
            if step % cadence == 0:
                durable = step
                if uncommitted and step + cadence > durable + length * cadence:
                    break  # killed right after the checkpoint became durable
                record.commit(step)
        record.close()
    assert recover(run, durable).entries == [wanted[step] for step in range(1, durable + 1)]
    assert recorded(run) == [wanted[step] for step in range(1, durable + 1)]


# -- interrupted ------------------------------------------------------------------------------------------------------


def check_recovery(run: RunDirectory, wanted: list[LossEntry], untouched: bytes) -> None:
    """Recover, compare, then go on writing and compare again."""
    last = wanted[-1].step
    with opened(run, last) as (record, recovery):
        assert recovery.entries == wanted
        assert recorded(run) == wanted
        assert run.loss.read_bytes().startswith(untouched)
        assert journal(run) == []
        record.append(entry(last + 1))
        record.commit(last + 1)
    assert run.loss.read_bytes() == array_text([*wanted, entry(last + 1)])


def test_a_commit_that_was_cut_at_any_byte_is_finished(run: RunDirectory, quick: None) -> None:
    """Every cut of the last two entries, with the bytes of the old closing bracket beyond the cut, and without."""
    kept, fresh = span(1, 3), span(4, 5)
    before, after = array_text(kept), array_text([*kept, *fresh])
    end = len(before) - 3
    for cut in range(end, len(after) + 1):
        for state in {after[:cut], after[:cut] + before[cut:]}:
            put(run, kept, fresh)
            run.loss.write_bytes(state)
            check_recovery(run, [*kept, *fresh], after[: min(cut, len(after) - 3)] if cut > end + 2 else before[:end])


def test_a_first_commit_that_was_cut_at_any_byte_is_finished(run: RunDirectory, quick: None) -> None:
    fresh = span(1, 2)
    after = array_text(fresh)
    for cut in range(1, len(after) + 1):
        for state in {after[:cut], after[:cut] + b"[\n]\n"[cut:]}:
            put(run, [], fresh)
            run.loss.write_bytes(state)
            check_recovery(run, fresh, b"[")


def test_a_record_cut_anywhere_without_a_journal_keeps_every_whole_entry_and_says_what_is_lost(
    run: RunDirectory, quick: None
) -> None:
    kept, last = span(1, 3), span(4, 5)
    after = array_text([*kept, *last])
    for cut in range(len(array_text(kept)) - 3, len(after) - 2):
        put(run, [])
        run.loss.write_bytes(after[:cut])
        whole = after[:cut].count(b"}")
        recovery = recover(run, 5)
        assert recovery.entries == span(1, whole)
        assert recorded(run) == span(1, whole)
        assert any("entries between are lost" in text for text in recovery.notices) == (whole < 5)
    assert recover(run, 0).entries == []


def test_a_torn_entry_is_kept_aside(run: RunDirectory) -> None:
    put(run, span(1, 3))
    whole = run.loss.read_bytes()
    run.loss.write_bytes(whole[:-20])
    recovery = recover(run, 2)
    aside = list(run.archive.iterdir())
    assert len(aside) == 1
    assert whole[:-20].endswith(aside[0].read_bytes())
    assert aside[0].read_bytes().startswith(b',\n{"step":3')
    assert "half-written entry" in recovery.notices[0]
    assert aside[0].name in recovery.notices[0]


@pytest.mark.parametrize("synced", [3, 5])
def test_a_journal_torn_at_any_byte(run: RunDirectory, synced: int, quick: None) -> None:
    """What was synced with the newest checkpoint is whole; anything behind it may be torn."""
    waiting = [e.to_line() + b"\n" for e in span(4, 6)]
    text = b"".join(waiting)
    for cut in range(sum(map(len, waiting[: synced - 3])), len(text) + 1):
        put(run, span(1, 3))
        run.journal.write_bytes(text[:cut])
        recovery = recover(run, synced)
        assert recovery.entries == span(1, synced)
        assert recorded(run) == span(1, synced)
        assert run.journal.read_bytes() == b""
        whole = 3 + text[:cut].count(b"}")
        assert recovery.retrained == whole - synced
        again = [text for text in recovery.notices if "trained again" in text]
        assert len(again) == (1 if whole > synced else 0)


@pytest.mark.parametrize("garbage", [b"\x00" * 500, b"garbage\n", b"[" * 100_000, b"\xff\n" * 9])
def test_a_journal_of_garbage_is_survived_and_told(run: RunDirectory, garbage: bytes) -> None:
    put(run, span(1, 3))
    run.journal.write_bytes(garbage)
    assert recover(run, 3) == Recovery(entries=span(1, 3))
    run.journal.write_bytes(garbage)
    assert any("ends at step 3, before the checkpoint of step 5" in text for text in recover(run, 5).notices)


def test_a_committed_journal_that_could_not_be_shortened_is_not_committed_twice(run: RunDirectory) -> None:
    put(run, span(1, 5), span(3, 7))
    assert recover(run, 5).entries == span(1, 5)
    assert recorded(run) == span(1, 5)
    put(run, span(1, 5), span(3, 7))
    assert recover(run, 4).entries == span(1, 4)
    assert recorded(run) == span(1, 5)
    put(run, span(1, 5), span(3, 7))
    assert recover(run, 7).entries == span(1, 7)
    assert recorded(run) == span(1, 7)


# -- going back -------------------------------------------------------------------------------------------------------


def test_a_fall_back_starts_a_new_branch_and_keeps_the_old_bytes(run: RunDirectory) -> None:
    put(run, span(1, 8), span(9, 9))
    before = run.loss.read_bytes()
    with opened(run, 5) as (record, recovery):
        assert recovery.entries == span(1, 5)
        assert recovery.retrained == 4
        for step in (6, 7):
            record.append(entry(step, session=2))
        record.commit(7)
    assert run.loss.read_bytes().startswith(before[:-3])
    assert recorded(run) == [*span(1, 8), *span(6, 7, session=2)]
    recovery = recover(run, 7)
    assert recovery.entries == [*span(1, 5), *span(6, 7, session=2)]
    assert recovery.retrained == 0  # step 8 was given up long ago
    assert recovery.notices == []


@pytest.mark.parametrize("committed", [0, 1, 2])
def test_a_commit_cut_short_after_a_fall_back_is_finished(run: RunDirectory, committed: int) -> None:
    """The record ends at a later step of the abandoned branch: the number of a step does not say what is missing."""
    branch = span(6, 7, session=2)
    put(run, [*span(1, 8), *branch[:committed]], branch)
    recovery = recover(run, 7)
    assert recovery.entries == [*span(1, 5), *branch]
    assert recorded(run) == [*span(1, 8), *branch]


def test_falling_back_to_nothing(run: RunDirectory) -> None:
    put(run, span(1, 4))
    with opened(run, 0) as (record, recovery):
        assert recovery.entries == []
        assert recovery.retrained == 4
        record.append(entry(1, session=2))
        record.commit(1)
    assert current_branch(recorded(run)) == [entry(1, session=2)]


# -- what is never appended to ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"[[1, 9.0], [2, 8.5]]",
        b"[\n  {\n" + b'    "step": 1\n  }\n]\n',
        b'{"step": 1, "loss": 9.0}\n{"step": 2, "loss": 8.5}\n',
        b'{"step": 1, "lo',
        b"garbage",
        b"\x00" * 64,
    ],
    ids=["pairs", "pretty", "jsonl", "torn-jsonl", "garbage", "zeros"],
)
def test_another_format_is_refused_and_left_alone(run: RunDirectory, data: bytes) -> None:
    run.loss.write_bytes(data)
    with pytest.raises(ConfigError, match="not a JSON array with one entry a line") as caught:
        LossRecord(run).recover(2, accept_damage=True)
    assert caught.value.exit_code == ExitCode.USAGE
    assert run.loss.read_bytes() == data


def test_damage_in_the_middle_is_refused_unless_accepted(run: RunDirectory) -> None:
    lines = [e.to_line() for e in span(1, 4)]
    lines[1] = lines[1][:30]
    data = b"[\n" + b",\n".join(lines) + b"\n]\n"
    run.loss.write_bytes(data)
    with pytest.raises(ConfigError, match=r"1 unreadable line\(s\), the first at line 3 \(byte \d+\)") as caught:
        LossRecord(run).recover(4)
    assert f"(byte {data.index(lines[1])})" in str(caught.value)
    assert run.loss.read_bytes() == data
    with opened(run, 4, accept_damage=True) as (record, recovery):
        assert steps(recovery.entries) == [1, 3, 4]
        record.append(entry(5))
        record.commit(5)
    assert run.loss.read_bytes() == data[:-3] + b",\n" + entry(5).to_line() + b"\n]\n"


@pytest.mark.parametrize("kind", ["folder", "link", "fifo"])
def test_a_record_that_is_no_file_is_refused_in_one_sentence(run: RunDirectory, kind: str, tmp_path: Path) -> None:
    if kind == "folder":
        run.loss.mkdir()
    elif kind == "fifo":
        os.mkfifo(run.loss)
    else:
        (tmp_path / "elsewhere").write_bytes(b"[\n]\n")
        run.loss.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"\.loss\.json cannot be opened"):
        LossRecord(run).recover(0)


@pytest.mark.parametrize("data", [b"", b"[", b"[\n", b"[]", b"[]\n", b"[\n]", b"[\n]\n", b"[\n]\n\n"])
def test_an_empty_record_is_made_whole(run: RunDirectory, data: bytes) -> None:
    run.loss.write_bytes(data)
    with opened(run, 0) as (record, recovery):
        assert recovery == Recovery(entries=[])
        record.append(entry(1))
        record.commit(1)
    assert recorded(run) == [entry(1)]


def test_a_journal_whose_first_line_is_damaged_still_finishes_the_commit(run: RunDirectory) -> None:
    put(run, span(1, 5))
    run.journal.write_bytes(b"\x00\x00}\n" + b"".join(e.to_line() + b"\n" for e in span(6, 10)))
    assert steps(recover(run, 10).entries) == list(range(1, 11))
    assert steps(recorded(run)) == list(range(1, 11))
