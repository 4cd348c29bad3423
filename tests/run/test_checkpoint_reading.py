"""Checkpoint files as they are found: arithmetic, names, hostile and damaged files, and which one is resumed from."""

from __future__ import annotations

import errno
import hashlib
import os
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.run import checkpoint
from andrea_engine.run.checkpoint import (
    Chosen,
    checkpoint_bytes,
    checkpoint_name,
    choose_checkpoint,
    file_digest,
    inspect_checkpoint,
    list_checkpoints,
    parse_name,
)
from andrea_engine.run.errors import NoCheckpointError

from .helpers import checkpoint_bytes_of, put_checkpoint

COUNT = 5
WHOLE = 8 + 12 * COUNT


def choose(directory: Path, digests: Mapping[int, str] | None = None, bad: str = "", count: int = COUNT) -> Chosen:
    """Choose with a content check that finds fault with the file named `bad`."""
    chosen = choose_checkpoint(
        directory, count, digests or {}, lambda path: "has weights that are not finite" if path.name == bad else None
    )
    assert chosen is not None
    return chosen


# -- arithmetic and names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "size"),
    [
        (12_780_288, 153_363_464),
        (98_698_752, 1_184_385_032),
        (480_513_024, 5_766_156_296),
        (200_000_000, 2_400_000_008),  # beyond int32
        (2**31 - 1, 25_769_803_772),
    ],
)
def test_sizes(count: int, size: int) -> None:
    assert checkpoint_bytes(count) == size


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (0, "step_000000.bin"),
        (100, "step_000100.bin"),
        (999_999, "step_999999.bin"),
        (1_000_000, "step_1000000.bin"),
        (2**31 - 1, "step_2147483647.bin"),
    ],
)
def test_names(step: int, name: str) -> None:
    assert checkpoint_name(step) == name
    assert parse_name(name) == step


@given(st.integers(0, 2**31 - 1))
def test_every_step_has_one_name(step: int) -> None:
    assert parse_name(checkpoint_name(step)) == step


@pytest.mark.parametrize(
    "name",
    [
        "step_100.bin",
        "step_0000100.bin",  # the same step would have two names
        "step_12345678901.bin",
        "step_-00100.bin",
        "step_+00100.bin",
        "step_000100.bin\n",
        "step_000100.BIN",
        "step_000100.bin.tmp",
        "xstep_000100.bin",
        ".step_000100.bin.7.1.tmp",
        "step_\u0660\u0660\u0660\u0661\u0660\u0660.bin",  # digits, but not ours
        "step_1e0005.bin",
        "",
    ],
)
def test_other_names_are_none(name: str) -> None:
    assert parse_name(name) is None


def test_the_list_is_in_the_order_of_numbers(tmp_path: Path) -> None:
    for step in (999_900, 1_000_000, 200, 1_000_100):
        put_checkpoint(tmp_path, step)
    (tmp_path / "step_000300.bin\n").write_bytes(b"")
    (tmp_path / os.fsdecode(b"step_\xff00100.bin")).write_bytes(b"")
    os.utime(tmp_path / "step_000200.bin", (4e9, 4e9))  # a file time from the future changes nothing
    assert [file.step for file in list_checkpoints(tmp_path)] == [1_000_100, 1_000_000, 999_900, 200]
    assert choose(tmp_path).file.step == 1_000_100


def test_no_directory_has_no_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert list_checkpoints(tmp_path / "missing") == []
    assert list_checkpoints(tmp_path / "file") == []


# -- one file ---------------------------------------------------------------------------------------------------------


def test_a_good_file(tmp_path: Path) -> None:
    found = inspect_checkpoint(put_checkpoint(tmp_path, 300), COUNT)
    assert (found.step, found.bytes, found.n_params, found.problem, found.valid) == (300, WHOLE, COUNT, None, True)


def test_every_truncation_is_refused_and_passed_over(tmp_path: Path) -> None:
    older, newest = put_checkpoint(tmp_path, 100), put_checkpoint(tmp_path, 200)
    whole = newest.read_bytes()
    for length in range(WHOLE):
        newest.write_bytes(whole[:length])
        problem = inspect_checkpoint(newest, COUNT).problem
        assert problem is not None
        assert f"{length} bytes" in problem
        assert ("shorter than the header" if length < 8 else f"needs {WHOLE}") in problem
        chosen = choose(tmp_path)
        assert chosen.file.path == older
        assert [(s.name, s.reason) for s in chosen.skipped] == [("step_000200.bin", problem)]
        assert newest.stat().st_size == length  # nothing is deleted or repaired
    newest.write_bytes(whole + b"\0")
    assert not inspect_checkpoint(newest).valid


@pytest.mark.parametrize("step", [-1, 0, 100, 101, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("count", [-1, 0, 5, 6, -(2**31), 2**31 - 1])
def test_a_header_must_agree_with_name_and_length(tmp_path: Path, step: int, count: int) -> None:
    path = tmp_path / "step_000100.bin"
    path.write_bytes(struct.pack("<ii", step, count) + bytes(12 * COUNT))
    assert inspect_checkpoint(path).valid == (step == 100 and count == COUNT)


def test_a_header_with_no_parameters_and_no_data_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "step_000100.bin"
    path.write_bytes(struct.pack("<ii", 100, 0))  # satisfies the size equation
    assert inspect_checkpoint(path).problem == "header holds step 100 and 0 parameters"


def test_name_against_header(tmp_path: Path) -> None:
    path = tmp_path / "step_000200.bin"
    path.write_bytes(checkpoint_bytes_of(100))
    assert inspect_checkpoint(path).problem == "header says step 100, the name says 200"


def test_byte_swapped(tmp_path: Path) -> None:
    assert struct.unpack("<i", struct.pack(">i", 12_800_000)) == (5_292_800,)
    path = tmp_path / "step_000100.bin"
    path.write_bytes(checkpoint_bytes_of(100, order=">"))
    problem = inspect_checkpoint(path).problem
    assert problem is not None
    assert "its header needs" in problem


def test_a_forged_sparse_file_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    path = tmp_path / "step_000100.bin"
    path.write_bytes(struct.pack("<ii", 100, 2**31 - 1))
    os.truncate(path, 25_769_803_772)
    assert path.stat().st_blocks * 512 < 1024 * 1024
    problem = inspect_checkpoint(path, COUNT).problem
    assert problem == "holds 2,147,483,647 parameters, but this model has 5"
    with pytest.raises(NoCheckpointError, match="holds 2,147,483,647 parameters"):
        choose_checkpoint(tmp_path, COUNT, {}, lambda path: pytest.fail("its content was looked at"))


def test_what_is_no_regular_file_is_never_opened_through(tmp_path: Path) -> None:
    real = put_checkpoint(tmp_path, 100)
    os.mkfifo(tmp_path / "step_000200.bin")  # a plain open would wait for ever
    (tmp_path / "step_000300.bin").symlink_to(real)
    (tmp_path / "step_000400.bin").symlink_to("/dev/zero")
    (tmp_path / "step_000500.bin").mkdir()
    (tmp_path / "step_000600.bin").symlink_to("step_000600.bin")
    found = list_checkpoints(tmp_path)
    assert [file.step for file in found if file.valid] == [100]
    assert all(file.problem and file.problem.startswith("cannot be opened") for file in found[:-1])
    chosen = choose(tmp_path)
    assert chosen.file.path == real
    assert len(chosen.skipped) == 5


def test_a_wrong_name_is_a_problem_and_not_an_exception(tmp_path: Path) -> None:
    assert inspect_checkpoint(tmp_path / "weights.bin").problem == "not named step_NNNNNN.bin"


# -- the choice -------------------------------------------------------------------------------------------------------


def test_nothing_to_choose_from(tmp_path: Path) -> None:
    assert choose_checkpoint(tmp_path, COUNT, {}, lambda path: None) is None


def test_a_digest_verifies(tmp_path: Path) -> None:
    path = put_checkpoint(tmp_path, 100)
    assert file_digest(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert choose(tmp_path, {100: file_digest(path)}).verified
    assert not choose(tmp_path, {200: file_digest(path)}).verified


@settings(max_examples=60, deadline=None)
@given(bit=st.integers(0, 8 * WHOLE - 1))
def test_one_flipped_bit_is_always_found(tmp_path_factory: pytest.TempPathFactory, bit: int) -> None:
    directory = tmp_path_factory.mktemp("flip")
    older, newest = put_checkpoint(directory, 100), put_checkpoint(directory, 200)
    digests = {100: file_digest(older), 200: file_digest(newest)}
    data = bytearray(newest.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    newest.write_bytes(data)
    if bit < 64:  # a changed step or count needs no digest to be found
        assert not inspect_checkpoint(newest, COUNT).valid
    chosen = choose(directory, digests)
    assert chosen.file.step == 100
    assert chosen.verified
    assert [s.name for s in chosen.skipped] == ["step_000200.bin"]


def test_content_problems_are_passed_over_with_their_reason(tmp_path: Path) -> None:
    for step in (100, 200):
        put_checkpoint(tmp_path, step)
    chosen = choose(tmp_path, bad="step_000200.bin")
    assert chosen.file.step == 100
    assert chosen.skipped[0].reason == "has weights that are not finite"


def test_a_file_that_cannot_be_read_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older, newest = put_checkpoint(tmp_path, 100), put_checkpoint(tmp_path, 200)
    digests = {100: file_digest(older), 200: file_digest(newest)}
    real = file_digest

    def failing(path: Path) -> str:
        if path == newest:
            raise OSError(errno.EIO, "Input/output error")
        return real(path)

    monkeypatch.setattr(checkpoint, "file_digest", failing)
    chosen = choose(tmp_path, digests)
    assert chosen.file.path == older
    assert chosen.skipped[0].reason == "cannot be read: Input/output error"


@pytest.mark.parametrize("other", [COUNT - 1, COUNT + 1, 2 * COUNT])
def test_a_file_of_another_model_is_never_passed_over(tmp_path: Path, other: int) -> None:
    put_checkpoint(tmp_path, 100)
    put_checkpoint(tmp_path, 200, other)
    (tmp_path / "step_000300.bin").write_bytes(b"")
    with pytest.raises(NoCheckpointError, match=rf"holds {other} parameters, but this model has {COUNT}") as caught:
        choose(tmp_path)
    assert int(caught.value.exit_code) == 5


def test_when_none_is_valid_every_reason_is_told(tmp_path: Path) -> None:
    put_checkpoint(tmp_path, 100)
    (tmp_path / "step_000200.bin").write_bytes(b"short")
    (tmp_path / "step_000300.bin").write_bytes(b"")
    with pytest.raises(NoCheckpointError) as caught:
        choose(tmp_path, bad="step_000100.bin")
    message = str(caught.value)
    assert caught.value.exit_code == 5
    for part in ("step_000300.bin only 0 bytes", "step_000200.bin only 5 bytes", "step_000100.bin has weights"):
        assert part in message
