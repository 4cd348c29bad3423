"""Following a file of lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.run.tailing import LineTail


@settings(max_examples=100, deadline=None)
@given(
    lines=st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b"")), max_size=20),
    cuts=st.lists(st.integers(0, 600), max_size=12),
    limit=st.integers(31, 100),
)
def test_every_line_comes_once_however_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], cuts: list[int], limit: int
) -> None:
    path = tmp_path_factory.mktemp("tail") / "log"
    text = b"".join(line + b"\n" for line in lines)
    tail, got = LineTail(path), []
    assert tail.read() == []
    for cut in [*sorted(cuts), len(text)]:
        path.write_bytes(text[:cut])
        while new := tail.read(limit):
            got += new
        assert not tail.restarted
        assert got == text[:cut].split(b"\n")[:-1]
    assert tail.offset == len(text)


def test_an_incomplete_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntw")
    tail = LineTail(path)
    assert tail.read() == [b"one"]
    assert tail.read() == []
    path.write_bytes(b"one\ntwo\n")
    assert tail.read() == [b"two"]


def test_another_or_a_shorter_file_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\n")
    tail = LineTail(path)
    tail.read()
    path.write_bytes(b"new\n")
    assert tail.read() == [b"new"]
    assert tail.restarted
    (tmp_path / "other").write_bytes(b"a\nb\nc\nd\ne\n")
    (tmp_path / "other").replace(path)
    assert tail.read() == [b"a", b"b", b"c", b"d", b"e"]
    assert tail.restarted
    assert tail.read() == []
    assert not tail.restarted


def test_a_start_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\n")
    assert LineTail(path, start=4).read() == [b"two"]


def test_a_line_beyond_the_limit_does_not_stop_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 250 + b"\nlast\n")
    tail, got = LineTail(path), []
    while new := tail.read(100):
        got += new
    assert b"".join(got) == b"x" * 250 + b"last"
    assert got[-1] == b"last"


def test_missing_and_odd_files_give_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert LineTail(tmp_path / "missing").read() == []
    assert LineTail(tmp_path / "folder").read() == []
