"""Reading loss records: our format while it grows, the other formats, and damage of every kind."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.run.loss_entry import LossEntry, make_entry
from andrea_engine.run.loss_reader import LossReader

from .helpers import array_text, entry, steps, strict


def read(path: Path, data: bytes) -> tuple[list[LossEntry], LossReader]:
    path.write_bytes(data)
    reader = LossReader(path)
    return reader.read_all(), reader


# -- our format -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_the_array_of_lines(tmp_path: Path, count: int) -> None:
    wanted = [entry(step) for step in range(1, count + 1)]
    text = array_text(wanted)
    assert strict(text) == [json.loads(e.to_line()) for e in wanted]
    entries, reader = read(tmp_path / "loss", text)
    assert entries == wanted
    assert reader.lines_format
    assert reader.array
    assert reader.torn == reader.damage.lines == 0
    assert reader.entries_read == count
    if wanted:
        assert text[: reader.end].endswith(b"}")
        assert text[reader.end :] == b"\n]\n"


@settings(max_examples=150, deadline=None)
@given(
    commits=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    cuts=st.lists(st.integers(0, 4000), max_size=25),
    limit=st.integers(400, 2000),
)
def test_each_entry_comes_exactly_once_however_the_file_grows(
    tmp_path_factory: pytest.TempPathFactory, commits: list[int], cuts: list[int], limit: int
) -> None:
    """Each commit overwrites the closing bracket; it reaches the disk in pieces that are cut anywhere."""
    path = tmp_path_factory.mktemp("grow") / "loss"
    path.write_bytes(b"[\n]\n")
    reader, end = LossReader(path), 1
    got: list[LossEntry] = []
    all_entries: list[LossEntry] = []
    for count in commits:
        fresh = [entry(len(all_entries) + k + 1) for k in range(count)]
        text = (b",\n" if all_entries else b"\n") + b",\n".join(e.to_line() for e in fresh)
        all_entries += fresh
        whole = text + b"\n]\n"
        places = sorted({cut for cut in cuts if cut < len(whole)})
        with path.open("r+b") as file:
            for start, stop in zip([0, *places], [*places, len(whole)], strict=True):
                file.seek(end + start)
                file.write(whole[start:stop])
                file.flush()
                got += reader.read(limit)
                assert not reader.restarted
        end += len(text)
        while new := reader.read(limit):
            got += new
        assert got == all_entries
    assert reader.end == end
    assert not reader.shrunk
    assert reader.damage.lines == 0


def test_a_torn_end_is_measured_and_waits(tmp_path: Path) -> None:
    text = array_text([entry(1), entry(2)])
    entries, reader = read(tmp_path / "loss", text[:-10])
    assert steps(entries) == [1]
    assert reader.torn == len(entry(2).to_line()) - 7
    (tmp_path / "loss").write_bytes(text)
    assert steps(reader.read()) == [2]
    assert reader.torn == 0


def test_a_shortened_file_is_flagged_for_good(tmp_path: Path) -> None:
    path = tmp_path / "loss"
    entries, reader = read(path, array_text([entry(1), entry(2), entry(3)]))
    assert len(entries) == 3
    path.write_bytes(array_text([entry(1)]))
    assert steps(reader.read()) == [1]
    assert reader.restarted
    assert reader.shrunk
    path.write_bytes(array_text([entry(1), entry(2)]))
    assert steps(reader.read()) == [2]
    assert not reader.restarted
    assert reader.shrunk
    (tmp_path / "other").write_bytes(array_text([entry(1), entry(2), entry(3)]))
    (tmp_path / "other").replace(path)
    assert steps(reader.read()) == [1, 2, 3]
    assert reader.restarted
    assert reader.shrunk


def test_a_replaced_file_is_read_again_without_alarm(tmp_path: Path) -> None:
    path, other = tmp_path / "loss", tmp_path / "other"
    _, reader = read(path, array_text([entry(1)]))
    other.write_bytes(array_text([entry(1), entry(2)]))
    other.replace(path)
    assert steps(reader.read()) == [1, 2]
    assert reader.restarted
    assert not reader.shrunk


def test_a_deleted_file_that_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "loss"
    _, reader = read(path, array_text([entry(1), entry(2)]))
    path.unlink()
    assert reader.read() == []
    (tmp_path / "spare").write_bytes(b"")  # so that the number of the old inode is not used again
    path.write_bytes(array_text([entry(1)]))
    assert steps(reader.read()) == [1]
    assert reader.restarted


def test_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    for name in ("missing", "folder", "fifo", "link"):
        assert LossReader(tmp_path / name).read_all() == []
    for data in (b"", b"[", b"[\n", b"[]", b"[]\n", b"[\n]\n", b" \n"):
        entries, reader = read(tmp_path / "loss", data)
        assert entries == []
        assert reader.damage.lines == 0
        assert reader.lines_format


# -- other formats ----------------------------------------------------------------------------------------------------

PAIRS = [[1, 9.0], [2, 8.5], [3, 8.0]]
OBJECTS = [{"step": s, "loss": x, "extra": {"kept": "aside"}} for s, x in PAIRS]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(PAIRS),
        json.dumps(PAIRS) + "\n",
        json.dumps(PAIRS, indent=2),
        "[\n" + ",\n".join(map(json.dumps, PAIRS)) + "\n]\n",
        json.dumps(OBJECTS),
        json.dumps(OBJECTS, indent=1),
        "[" + ",\n".join(map(json.dumps, OBJECTS)) + "]",
        "[\n" + ",\n".join(map(json.dumps, OBJECTS)) + "\n]\n",
        "[\r\n" + ",\r\n".join(map(json.dumps, OBJECTS)) + "\r\n]\r\n",
        "".join(json.dumps(item) + "\n" for item in OBJECTS),
        "".join(json.dumps(item) + "\r\n" for item in OBJECTS),
        "\n\n".join(json.dumps(item) for item in OBJECTS) + "\n",
    ],
    ids=[
        "pairs",
        "pairs-newline",
        "pairs-pretty",
        "pairs-lines",
        "document",
        "pretty",
        "document-lines",
        "ours",
        "ours-crlf",
        "jsonl",
        "jsonl-crlf",
        "jsonl-spaced",
    ],
)
def test_every_format(tmp_path: Path, text: str) -> None:
    entries, reader = read(tmp_path / "loss", text.encode())
    assert [(e.step, e.loss) for e in entries] == [(1, 9.0), (2, 8.5), (3, 8.0)]
    assert reader.damage.lines == 0
    assert reader.unparseable == ""
    assert (reader.lines_format and reader.array) == text.startswith('[\n{"step"')


def test_a_document_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "model.loss.json"
    entries, reader = read(path, json.dumps(PAIRS[:2]).encode())
    assert len(entries) == 2
    assert reader.read() == []
    path.write_bytes(json.dumps(PAIRS)[:-5].encode())  # the writer is in the middle of it
    assert reader.read() == []
    assert reader.unparseable
    path.write_bytes(json.dumps(PAIRS).encode())
    assert steps(reader.read()) == [1, 2, 3]
    assert reader.restarted
    assert not reader.unparseable
    (tmp_path / "other").write_bytes(json.dumps([*PAIRS, [4, 7.5]]).encode())
    (tmp_path / "other").replace(path)
    assert steps(reader.read()) == [1, 2, 3, 4]
    assert reader.restarted


def test_a_document_that_is_no_array_says_so(tmp_path: Path) -> None:
    for data in (b'"text"', b"7", b"null"):
        entries, reader = read(tmp_path / "loss", data)
        assert entries == []
        assert reader.unparseable == "it is not an array"


# -- damage -----------------------------------------------------------------------------------------------------------

SPELLINGS = ["NaN", "Infinity", "-Infinity", "null", '"NaN"', "1e999"]


@pytest.mark.parametrize("shape", ["ours", "jsonl", "document", "pairs"])
def test_losses_that_are_not_finite_are_counted_and_the_rest_is_read(tmp_path: Path, shape: str) -> None:
    """Case C11: six spellings at steps 10 to 15 of 20."""
    losses = dict(enumerate(SPELLINGS, start=10))
    if shape == "pairs":
        items = [f"[{s}, {losses.get(s, '3.5')}]" for s in range(1, 21)]
    else:
        items = [f'{{"step": {s}, "loss": {losses.get(s, "3.5")}}}' for s in range(1, 21)]
    text = {
        "ours": "[\n" + ",\n".join(items) + "\n]\n",
        "jsonl": "\n".join(items) + "\n",
        "document": "[" + ", ".join(items) + "]",
        "pairs": "[" + ", ".join(items) + "]",
    }[shape]
    entries, reader = read(tmp_path / "loss", text.encode())
    assert steps(entries) == list(range(1, 21))
    assert [e.step for e in entries if e.nonfinite] == [10, 11, 12, 13, 14, 15]
    assert [e.step for e in entries if e.loss is None] == [10, 11, 12, 13, 14, 15]
    assert reader.damage.lines == 0


@pytest.mark.parametrize(
    "bad",
    [
        b"garbage",
        b'{"step": 5, "loss": ',
        b'{"loss": 3.0}',
        b'{"step": -5, "loss": 3.0}',
        b'{"step": "5", "loss": 3.0}',
        b'{"step": 5, "source": "\xff\xfe"}',
        b"\x00" * 5000,
        b'{"step": 5, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"step": ' + b"9" * 5000 + b"}",
        b"[[[[",
        b"{}",
    ],
)
def test_one_bad_line_costs_only_itself_and_is_located(tmp_path: Path, bad: bytes) -> None:
    good = [e.to_line() for e in (entry(1), entry(2), entry(3), entry(4))]
    lines = [b"[", good[0] + b",", good[1] + b",", bad + b",", good[2] + b",", good[3], b"]", b""]
    entries, reader = read(tmp_path / "loss", b"\n".join(lines))
    assert steps(entries) == [1, 2, 3, 4]
    assert reader.damage.lines == 1
    assert reader.damage.first_line == 4
    assert reader.damage.first_offset == sum(len(line) + 1 for line in lines[:3])


def test_a_bad_line_is_located_after_earlier_reads_too(tmp_path: Path) -> None:
    path = tmp_path / "loss"
    text = array_text([entry(1), entry(2)])
    _, reader = read(path, text)
    damaged = text[:-3] + b",\nbroken,\n" + entry(3).to_line() + b"\n]\n"
    path.write_bytes(damaged)
    assert steps(reader.read()) == [3]
    assert reader.damage.first_line == 4
    assert reader.damage.first_offset == damaged.index(b"broken")


def test_a_lone_surrogate_in_a_source_is_read_and_can_be_written(tmp_path: Path) -> None:
    text = b'[\n{"step": 1, "loss": 2.0, "source": "\\ud800x"}\n]\n'
    entries, _ = read(tmp_path / "loss", text)
    assert entries[0].source == "?x"
    strict(entries[0].to_line())


def test_a_document_counts_what_is_no_entry(tmp_path: Path) -> None:
    entries, reader = read(tmp_path / "loss", b'[[1, 2.0], "x", [2, 1.5], {"loss": 1}, null]')
    assert steps(entries) == [1, 2]
    assert reader.damage.lines == 3


@pytest.mark.parametrize("data", [b"\x00" * 100, b"[" * 100_000, b"not json", b"[[1, 2.0]", b"\xff\xfe"])
def test_what_is_no_record_at_all_is_told(tmp_path: Path, data: bytes) -> None:
    entries, reader = read(tmp_path / "loss", data)
    assert entries == []
    assert not reader.lines_format
    assert reader.unparseable


def test_a_line_longer_than_a_read_does_not_stop_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "loss"
    path.write_bytes(b"[\n" + entry(1).to_line() + b",\n" + b"x" * 3000 + b",\n" + entry(2).to_line() + b"\n]\n")
    reader, got = LossReader(path), []
    for _ in range(20):
        got += reader.read(limit=500)
    assert steps(got) == [1, 2]
    assert reader.damage.lines >= 1
    assert reader.damage.first_line == 3


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_change_in_the_middle_never_raises_and_costs_at_most_two_entries(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    text = bytearray(array_text([entry(step) for step in range(1, 9)]))
    place = data.draw(st.integers(2, len(text) - 4))
    text[place] = data.draw(st.integers(0, 255))
    entries, reader = read(tmp_path_factory.mktemp("flip") / "loss", bytes(text))
    assert len(entries) >= 6
    assert len(entries) + 2 * reader.damage.lines >= 8 or reader.torn


def test_the_fast_and_the_careful_way_agree(tmp_path: Path) -> None:
    """One bad line sends a whole region the careful way; the good entries must come out the same."""
    spellings = [
        b'{"step": 1}',
        b'{"step": 2, "loss": null}',
        b'{"step": 3, "loss": null, "nonfinite": ["grad_norm"]}',
        b'{"step": 4, "loss": null, "nonfinite": ["loss", "grad_norm"]}',
        b'{"step": 5, "loss": 1, "nonfinite": ["lr"], "policy": 3, "session": 2, "source": "a\\u00e9"}',
        b'{"step": 6, "loss": 0.1, "grad_norm": null, "power_w": 130, "energy_j": 1e9, "seconds": 0.0}',
    ]
    fast, _ = read(tmp_path / "fast", b"[\n" + b",\n".join(spellings) + b"\n]\n")
    careful, reader = read(tmp_path / "careful", b"[\n" + b",\n".join([*spellings, b"bad {}"]) + b"\n]\n")
    assert reader.damage.lines == 1
    assert fast == careful


def test_two_hundred_thousand_entries_are_read_within_two_seconds(tmp_path: Path) -> None:
    one = make_entry(step=123_456, loss=3.1234567, ema=3.2345678, source="gutenberg", lr=3e-4, grad_norm=0.98765)
    line = one.to_line()
    lines = [line.replace(b"123456", str(step).encode(), 1) for step in range(1, 200_001)]
    (tmp_path / "loss").write_bytes(b"[\n" + b",\n".join(lines) + b"\n]\n")
    reader = LossReader(tmp_path / "loss")
    started = time.process_time()  # of this process: other work on the machine does not count
    entries = reader.read_all()
    assert time.process_time() - started < 2.0
    assert (len(entries), entries[-1].step, reader.damage.lines) == (200_000, 200_000, 0)
