"""Lines of a file of any size: the same as if it had been read whole, and of bounded length."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_tui.feed.last_words import last_words
from andrea_tui.feed.line_file import PIECE, LineFile, LineFileError

BLOCK, STEP = 32, 8  # small, so that a few hundred bytes have many blocks


def naive_starts(data: bytes, piece: int) -> list[int]:
    """Where lines start, from the whole content: behind newlines, and at multiples of `piece` far from any."""
    starts = {0} | {place + 1 for place in range(len(data)) if data[place] == 10}
    for place in range(piece, len(data) - piece + 1, piece):
        if b"\n" not in data[place - piece : place + piece]:
            starts.add(place)
    return sorted(start for start in starts if start < len(data))


def opened(path: Path, data: bytes, piece: int = STEP, block: int = BLOCK) -> LineFile:
    path.write_bytes(data)
    file = LineFile(path, piece, block)
    file.refresh()
    return file


contents = st.lists(st.sampled_from([b"\n", b"a", b"bcd", b"e" * 7, b"f" * 40, b"\xff\x00", b"\r\n"]), max_size=60)


@settings(deadline=None, max_examples=100)
@given(contents.map(b"".join))
def test_block_by_block_gives_what_the_whole_file_gives(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = opened(tmp_path_factory.mktemp("log") / "log", data)
    lines = [line for block in range(file.blocks) for line in file.lines(block)]
    starts = naive_starts(data, STEP)
    assert [line.start for line in lines] == starts
    ends = [*starts, len(data)][1:]
    for line, start, end in zip(lines, starts, ends, strict=True):
        assert line.data == data[start:end].rstrip(b"\r\n")
        assert len(line.data) <= 3 * STEP
        assert line.continued == (start > 0 and data[start - 1] != 10)
        assert b"\n" not in line.data
    file.close()


@settings(deadline=None, max_examples=60)
@given(contents.map(b"".join), contents.map(b"".join))
def test_finished_blocks_stay_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, before: bytes, added: bytes
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    file = opened(path, before)
    final = file.final_blocks
    known = [file.lines(block) for block in range(final)]
    with path.open("ab") as log:
        log.write(added)
    assert file.refresh() is False
    assert file.final_blocks >= final
    assert [file.lines(block) for block in range(final)] == known
    file.close()


def test_lines_below_twice_the_piece_are_never_broken(tmp_path: Path) -> None:
    data = b"\n".join([b"x" * (2 * PIECE - 1)] * 40)
    file = opened(tmp_path / "log", data, PIECE, 64 * 1024)
    assert [len(line.data) for block in range(file.blocks) for line in file.lines(block)] == [2 * PIECE - 1] * 40
    file.close()


def test_a_file_of_another_size_or_another_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = opened(path, b"one\ntwo\n")
    path.write_bytes(b"one\ntwo\nthree\n")
    assert file.refresh() is False
    path.write_bytes(b"new\n")
    assert file.refresh() is True
    (tmp_path / "other").write_bytes(b"rotated\n")
    (tmp_path / "other").replace(path)
    assert file.refresh() is True
    assert [line.data for line in file.lines(0)] == [b"rotated"]
    path.unlink()
    assert file.refresh() is True, "between two files of a rotation"
    assert file.lines(0) == []
    with pytest.raises(LineFileError, match="there is no log in this run"):
        file.refresh()
    file.close()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.symlink_to("/etc/passwd"), "log is a symbolic link; links are not followed"),
        (make_pipe, "log is not a regular file, so it is not opened"),
        (lambda path: path.mkdir(), "log is not a regular file, so it is not opened"),
        (lambda path: None, "there is no log in this run"),
    ],
)
def test_what_is_no_plain_file_is_refused_in_one_sentence(tmp_path: Path, make: object, words: str) -> None:
    path = tmp_path / "log"
    make(path)  # type: ignore[operator]
    with pytest.raises(LineFileError, match=words):
        LineFile(path).refresh()
    found = last_words(path)
    assert (found.lines, words in found.problem) == ((), True)


def test_two_hundred_megabytes_take_a_few(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as log:
        log.write(b"first\n" + b"x" * 1_000_000 + b"\n")
        log.truncate(200_000_000)
        log.seek(0, os.SEEK_END)
        log.write(b"\nlast but one\nlast\n")
    file = LineFile(path)
    tracemalloc.start()
    try:
        file.refresh()
        assert file.lines(0)[0].data == b"first"
        middle = file.lines(file.blocks // 2)
        assert [line.data for line in file.lines(file.blocks - 1)][-2:] == [b"last but one", b"last"]
        assert last_words(path, 2).lines == ("last but one", "last")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        file.close()
    assert {line.data for line in middle} == {bytes(PIECE)}
    assert peak < 2_000_000


def test_the_last_words_are_the_last_lines_that_say_something(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d\n\n" % number for number in range(100_000)) + b"no newline \xff\x1b[2J")
    found = last_words(path)
    assert found.lines[-1] == "no newline \ufffd\x1b[2J"
    assert found.lines[:-1] == tuple(f"line {number}" for number in range(99_981, 100_000))
    assert found.modified == path.stat().st_mtime
    path.write_bytes(b"")
    assert last_words(path).lines == ()
