"""The durable write: exact bytes, the order of system calls, and every one of them failing."""

from __future__ import annotations

import array
import errno
import hashlib
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from andrea_engine.run import checkpoint, io
from andrea_engine.run.checkpoint import INT32_MAX, inspect_checkpoint, write_checkpoint
from andrea_engine.run.errors import ExitCode, SaveError

from .helpers import checkpoint_bytes_of, leftovers, put_checkpoint, regions

COUNT = 5
WHOLE = 8 + 12 * COUNT


@pytest.fixture
def chopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pieces, so that a small file takes many of them."""
    monkeypatch.setattr(checkpoint, "HASH_CHUNK", 12)
    monkeypatch.setattr(io, "WRITE_CHUNK", 5)


@pytest.mark.parametrize("step", [0, 100, 1_000_000, INT32_MAX])
def test_bytes_digest_and_progress(tmp_path: Path, step: int, chopped: None) -> None:
    heard: list[tuple[int, int]] = []
    written = write_checkpoint(tmp_path, step, regions(COUNT), lambda done, total: heard.append((done, total)))
    data = written.path.read_bytes()
    assert data == checkpoint_bytes_of(step, COUNT)
    assert written.path.name == f"step_{step:06d}.bin"
    assert (written.step, written.bytes) == (step, WHOLE)
    assert written.digest == hashlib.sha256(data).hexdigest()
    assert written.seconds >= 0
    assert inspect_checkpoint(written.path, COUNT).valid
    assert [total for _, total in heard] == [WHOLE] * len(heard)
    assert [done for done, _ in heard] == sorted({done for done, _ in heard})
    assert heard[-1][0] == WHOLE
    assert leftovers(tmp_path) == []


def test_any_buffer_will_do(tmp_path: Path) -> None:
    weights, m, v = regions(COUNT)
    write_checkpoint(tmp_path, 100, [weights, bytearray(m), memoryview(array.array("f", v))])
    assert (tmp_path / "step_000100.bin").read_bytes() == checkpoint_bytes_of(100, COUNT)


def test_the_same_step_again_replaces_the_file(tmp_path: Path) -> None:
    before = put_checkpoint(tmp_path, 100, seed=2.0).stat().st_ino
    path = write_checkpoint(tmp_path, 100, regions(COUNT)).path
    assert path.read_bytes() == checkpoint_bytes_of(100, COUNT)
    assert path.stat().st_ino != before


@pytest.mark.parametrize(
    ("step", "lengths"),
    [
        (-1, (4, 4, 4)),
        (2**31, (4, 4, 4)),
        (1, (0, 0, 0)),
        (1, (4, 4, 8)),
        (1, (4, 8, 8)),
        (1, (6, 6, 6)),
    ],
)
def test_what_does_not_fit_the_format_is_refused(tmp_path: Path, step: int, lengths: tuple[int, int, int]) -> None:
    with pytest.raises(SaveError, match="does not fit the format"):
        write_checkpoint(tmp_path, step, [bytes(length) for length in lengths])
    assert os.listdir(tmp_path) == []


def test_too_many_parameters_are_refused_before_a_byte_is_touched(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("w+b") as file:
        file.truncate(4 * 2**31)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as region, pytest.raises(SaveError):
            write_checkpoint(tmp_path, 1, [region, region, region])  # type: ignore[list-item]
    assert os.listdir(tmp_path) == ["sparse"]


# -- the recipe -------------------------------------------------------------------------------------------------------


class Recorder:
    """Notes the system calls of a write by what they act on; `fail` makes the n-th call of a name fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.flags: list[int] = []
        self.fail: tuple[str, int, int] | None = None
        self._names: dict[int, str] = {}
        for name in ("open", "posix_fallocate", "write", "fsync", "replace", "close"):
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *rest: Any, **named: Any) -> Any:
            if name == "open":
                what = "directory" if rest[0] & os.O_DIRECTORY else "file"
            else:
                what = self._names.get(first, "?") if isinstance(first, int) else "file"
            if name == "close":
                self._names.pop(first, None)
                real(first)
            self._note(f"{name} {what}")
            if name == "close":
                return None
            result = real(first, *rest, **named)
            if name == "open":
                self._names[result] = what
                self.flags.append(rest[0])
            return result

        return call

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if self.fail is not None and self.fail[0] == call and self.calls.count(call) == self.fail[1]:
            raise OSError(self.fail[2], os.strerror(self.fail[2]))


def test_the_order_of_system_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chopped: None) -> None:
    with monkeypatch.context() as patch:
        recorder = Recorder(patch)
        write_checkpoint(tmp_path, 100, regions(COUNT))
    once = [call for k, call in enumerate(recorder.calls) if recorder.calls[k - 1 : k] != [call]]
    assert once == [
        "open file",
        "posix_fallocate file",
        "write file",
        "fsync file",
        "close file",
        "replace file",
        "open directory",
        "fsync directory",
        "close directory",
    ]
    assert recorder.calls.count("write file") > 3
    needed = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    assert recorder.flags[0] & needed == needed


FAULTS = [
    ("open file", errno.EMFILE),
    ("posix_fallocate file", errno.ENOSPC),
    ("write file", errno.ENOSPC),
    ("write file", errno.EIO),
    ("fsync file", errno.EIO),
    ("close file", errno.EIO),
    ("replace file", errno.EROFS),
]


@pytest.mark.parametrize(("call", "code"), FAULTS)
def test_a_failing_call_leaves_the_old_file_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chopped: None, call: str, code: int
) -> None:
    old = put_checkpoint(tmp_path, 100, seed=2.0)
    before, inode = old.read_bytes(), old.stat().st_ino
    with monkeypatch.context() as patch:
        calls = Recorder(patch)
        write_checkpoint(tmp_path, 200, regions(COUNT))
        total = calls.calls.count(call)
    (tmp_path / "step_000200.bin").unlink()
    assert total >= 1
    for number in range(1, total + 1):  # every one of them, not only the first
        with monkeypatch.context() as patch:
            Recorder(patch).fail = (call, number, code)
            with pytest.raises(SaveError) as caught:
                write_checkpoint(tmp_path, 100, regions(COUNT))
        assert caught.value.exit_code == ExitCode.SAVE_FAILED
        assert "step_000100.bin" in str(caught.value)
        assert ("disk full" if code == errno.ENOSPC else os.strerror(code)) in str(caught.value)
        assert os.listdir(tmp_path) == ["step_000100.bin"]
        assert old.read_bytes() == before
        assert old.stat().st_ino == inode
    assert write_checkpoint(tmp_path, 100, regions(COUNT)).path.stat().st_ino != inode


def test_a_failed_directory_fsync_is_not_called_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        Recorder(patch).fail = ("fsync directory", 1, errno.EIO)
        with pytest.raises(SaveError):
            write_checkpoint(tmp_path, 100, regions(COUNT))
    assert leftovers(tmp_path) == []


def test_without_reservation_the_write_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        Recorder(patch).fail = ("posix_fallocate file", 1, errno.EOPNOTSUPP)
        write_checkpoint(tmp_path, 100, regions(COUNT))
    assert inspect_checkpoint(tmp_path / "step_000100.bin", COUNT).valid


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[: max(1, len(data) // 3)]))
        write_checkpoint(tmp_path, 100, regions(COUNT))
    assert (tmp_path / "step_000100.bin").read_bytes() == checkpoint_bytes_of(100, COUNT)


@pytest.mark.parametrize("liar", [1, 2, 3])
def test_a_write_that_claims_more_than_it_stored_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chopped: None, liar: int
) -> None:
    """The reserved length is the right one all the same, so the length alone would not tell."""
    real, count = os.write, 0

    def lying(descriptor: int, data: memoryview) -> int:
        nonlocal count
        count += 1
        return len(data) if count == liar else real(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lying)
        with pytest.raises(SaveError, match="could not be written"):
            write_checkpoint(tmp_path, 100, regions(COUNT))
    assert os.listdir(tmp_path) == []


# -- a disk that is full ----------------------------------------------------------------------------------------------


def test_too_little_space_is_seen_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "FREE_SPACE_MARGIN", 2**80)
    with pytest.raises(SaveError, match=r"disk full: step_000100\.bin needs 68 bytes, [\d,]+ are free in "):
        write_checkpoint(tmp_path, 100, regions(COUNT))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("reserve", [True, False], ids=["reserved", "unreserved"])
def test_a_real_full_disk(small_disk: Path, monkeypatch: pytest.MonkeyPatch, reserve: bool) -> None:
    """Room for two and a half: the third fails, the two stay, and space that comes back is used at once."""
    monkeypatch.setattr(checkpoint, "FREE_SPACE_MARGIN", -(2**40))  # let the disk itself say no
    if not reserve:
        monkeypatch.setattr(io, "preallocate", lambda descriptor, size: None)
    count = 8500  # 102,008 bytes each
    data = [array.array("f", [0.5]).tobytes() * count] * 3
    for step in (100, 200):
        write_checkpoint(small_disk, step, data)
    before = {path.name: path.read_bytes() for path in small_disk.iterdir()}
    with pytest.raises(SaveError, match=r"disk full: step_000300\.bin needs 102,008 bytes"):
        write_checkpoint(small_disk, 300, data)
    assert {path.name: path.read_bytes() for path in small_disk.iterdir()} == before
    (small_disk / "step_000100.bin").unlink()
    assert inspect_checkpoint(write_checkpoint(small_disk, 300, data).path, count).valid


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(SaveError, match="could not be written"):
        write_checkpoint(tmp_path / "missing", 100, regions(COUNT))
