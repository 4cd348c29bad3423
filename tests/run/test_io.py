"""Replacing, appending and reading files: what a reader may find whenever it looks."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from andrea_engine.run.io import (
    TEMP_PATTERN,
    Buffer,
    append_line,
    atomic_write,
    open_regular,
    preallocate,
    read_optional,
    read_regular,
    remove_stale_temporaries,
    write_all,
)

from .helpers import ROOT, killed, leftovers

PARTS: list[Buffer] = [b"se", bytearray(b"co"), memoryview(b"nd")]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "state"
    assert atomic_write(path, b"first") == 5
    assert atomic_write(path, (part for part in PARTS)) == 6
    assert path.read_bytes() == b"second"
    assert atomic_write(path, b"") == 0
    assert path.read_bytes() == b""
    assert leftovers(tmp_path) == []


def test_the_mode_is_the_users(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        atomic_write(tmp_path / "state", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("size", [4, 6])
def test_another_size_than_announced_is_an_error(tmp_path: Path, size: int) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="stored"):
        atomic_write(path, iter([b"12345"]), size=size)
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == []


def test_a_file_that_shrank_meanwhile_does_not_get_the_name(tmp_path: Path) -> None:
    def shrink(written: int) -> None:
        (name,) = leftovers(tmp_path)
        os.truncate(tmp_path / name, 3)

    with pytest.raises(OSError, match="stored 3 of 5 bytes"):
        atomic_write(tmp_path / "state", b"12345", progress=shrink)
    assert os.listdir(tmp_path) == []


def test_a_failing_source_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")

    def parts() -> object:
        yield b"new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atomic_write(path, parts())  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == []


def test_durable_means_two_fsyncs_and_otherwise_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.path.isdir(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    atomic_write(tmp_path / "a", b"x")
    assert synced == [False, True]
    atomic_write(tmp_path / "a", b"x", durable=False)
    assert synced == [False, True]


def test_a_link_in_the_place_of_the_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    decoy = tmp_path / "decoy"
    decoy.write_bytes(b"untouched")
    (tmp_path / "state").symlink_to(decoy)
    atomic_write(tmp_path / "state", b"new")
    assert decoy.read_bytes() == b"untouched"
    assert not (tmp_path / "state").is_symlink()


def test_temporary_names_can_be_found_again(tmp_path: Path) -> None:
    seen: list[str] = []
    atomic_write(tmp_path / "step_000100.bin", b"x", progress=lambda _: seen.extend(leftovers(tmp_path)))
    match = TEMP_PATTERN.match(seen[0])
    assert match is not None
    assert match["name"] == "step_000100.bin"
    assert int(match["pid"]) == os.getpid()


def test_stale_temporaries_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    (tmp_path / ".step_000100.bin.111.1.tmp").write_bytes(b"12345")
    (tmp_path / ".step_000200.bin.111.2.tmp").write_bytes(b"123")
    (tmp_path / f".step_000300.bin.{os.getpid()}.1.tmp").write_bytes(b"1")  # of an earlier process with our number
    (tmp_path / ".step_000400.bin.222.1.tmp").write_bytes(b"alive")
    (tmp_path / ".step_000500.bin.111.3.tmp").mkdir()
    (tmp_path / ".step_000600.bin.111.4.tmp").symlink_to(tmp_path / "keep")
    for name in ("keep", "step_000100.bin", ".tmp", "a.111.1.tmp", ".x.111.1.tmp\n", ".x.1\u0661.1.tmp"):
        (tmp_path / name).write_bytes(b"stays")
    before = set(os.listdir(tmp_path))
    assert remove_stale_temporaries(tmp_path, lambda pid: pid == 222) == 5 + 3 + 1
    gone = before - set(os.listdir(tmp_path))
    assert gone == {".step_000100.bin.111.1.tmp", ".step_000200.bin.111.2.tmp", f".step_000300.bin.{os.getpid()}.1.tmp"}


def test_lines_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "events"
    append_line(path, b"one")
    append_line(path, b"two")
    assert path.read_bytes() == b"one\ntwo\n"


def test_a_line_after_a_torn_one_starts_afresh(tmp_path: Path) -> None:
    path = tmp_path / "events"
    whole = b"one\ntwo\n"
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        append_line(path, b"three")
        torn = length > 0 and whole[length - 1 : length] != b"\n"
        assert path.read_bytes() == whole[:length] + (b"\n" if torn else b"") + b"three\n"


def test_a_line_is_not_appended_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "decoy").write_bytes(b"")
    (tmp_path / "events").symlink_to(tmp_path / "decoy")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        append_line(tmp_path / "events", b"x")
    assert (tmp_path / "decoy").read_bytes() == b""


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name in ("fifo", "folder", "link", "missing"):
        with pytest.raises(OSError, match=name):
            open_regular(tmp_path / name)
    assert read_regular(tmp_path / "file", limit=5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_regular(tmp_path / "file", limit=4)
    assert read_optional(tmp_path / "missing") is None
    with pytest.raises(OSError, match="not a regular file"):
        read_optional(tmp_path / "fifo")


def test_no_file_is_waited_for(tmp_path: Path) -> None:
    """A pipe that nobody writes to: whoever opens it waiting would wait for ever, so a child tries it."""
    os.mkfifo(tmp_path / "fifo")
    code = "import pathlib; from andrea_engine.run.io import open_regular; open_regular(pathlib.Path('fifo'))"
    command = [sys.executable, "-c", code]
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    with killed(subprocess.Popen(command, cwd=tmp_path, env=path, stderr=subprocess.PIPE)) as child:
        assert b"not a regular file" in child.communicate(timeout=20)[1]


def test_write_all_continues_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    pieces: list[int] = []
    descriptor = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
        assert write_all(descriptor, b"12345678", pieces.append) == 8
    os.close(descriptor)
    assert pieces == [3, 3, 2]
    assert (tmp_path / "file").read_bytes() == b"12345678"


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_a_file_system_without_reservation_is_no_error(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    preallocate(99, 100)
    monkeypatch.delattr(os, "posix_fallocate")
    preallocate(99, 100)
