"""User sources: folders, patterns, JSON Lines, Hugging Face data sets, and what hostile files do to them."""

from __future__ import annotations

import json
import os
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from andrea_engine.data.sources import (
    KINDS,
    Source,
    SourceUnavailable,
    excerpts,
    jsonl,
    make_source,
    make_sources,
    text_files,
)
from andrea_engine.run.errors import ConfigError


def source(base: Path, kind: str, **spec: object) -> Source:
    return make_source("books", {"name": "books", "kind": kind, **spec}, base)


def documents(base: Path, kind: str, **spec: object) -> list[str]:
    return list(source(base, kind, **spec).documents())


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A base folder with `books/` in it: good files, hidden ones, links, and files that are no text."""
    books = tmp_path / "books"
    (books / "b").mkdir(parents=True)
    (books / ".git").mkdir()
    (books / "a.txt").write_bytes(b"\xef\xbb\xbffirst\r\nline\n")
    (books / "b" / "c.txt").write_text("second")
    (books / "b" / "d.md").write_text("third")
    (books / "e.txt").write_text("  \n")
    (books / ".git" / "config.txt").write_text("hidden")
    (books / ".hidden.txt").write_text("hidden")
    (books / "latin.txt").write_bytes("Größe".encode("latin-1"))
    (books / "binary.txt").write_bytes(b"text\0text")
    os.mkfifo(books / "pipe.txt")
    (tmp_path / "secret.txt").write_text("secret")
    (books / "link.txt").symlink_to(tmp_path / "secret.txt")
    (books / "loop").symlink_to(books)
    (books / "b" / "loop2").symlink_to(books)
    return tmp_path


def test_a_folder_gives_its_text_files_in_order_and_counts_the_rest(shelf: Path) -> None:
    folder = source(shelf, "text", path="books")
    assert list(folder.documents()) == ["first\nline\n", "second", "third"]
    assert folder.skipped == 2
    assert list(folder.documents()) == ["first\nline\n", "second", "third"]
    assert folder.skipped == 2


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("books/*.txt", ["first\nline\n"]),
        ("books/**/*.txt", ["first\nline\n", "second"]),
        ("books/?/*.[tm]*", ["second", "third"]),
        ("**/c.txt", ["second"]),
        (["books/b/*.md", "books/b/*", "*.txt"], ["second", "third", "secret"]),
    ],
)
def test_patterns_give_each_file_once(shelf: Path, pattern: object, expected: list[str]) -> None:
    assert documents(shelf, "text", glob=pattern) == expected
    if isinstance(pattern, str):
        assert documents(Path("/nowhere"), "text", glob=str(shelf / pattern)) == expected


def test_a_named_file_and_a_named_link_are_read(shelf: Path) -> None:
    assert documents(shelf, "text", path="books/b/c.txt") == ["second"]
    assert documents(shelf, "text", path="books/link.txt") == ["secret"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"path": "absent"}, "absent cannot be read"),
        ({"path": "books/latin.txt"}, "none of the 1 files at .*latin.txt is UTF-8 text"),
        ({"path": "books/pipe.txt"}, "none of the 1 files"),
        ({"path": "books/.git"}, None),
        ({"path": "books/e.txt"}, "there is no text at .*e.txt"),
        ({"glob": "books/*.nothing"}, r"there is no text at books/\*.nothing"),
    ],
)
def test_no_text_is_a_reason_in_one_sentence(shelf: Path, spec: dict[str, object], reason: str | None) -> None:
    if reason is None:  # hidden, but named
        assert documents(shelf, "text", **spec) == ["hidden"]
        return
    with pytest.raises(SourceUnavailable, match=reason):
        documents(shelf, "text", **spec)


def test_a_link_to_itself_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to("self")
    with pytest.raises(SourceUnavailable, match="cannot be read"):
        documents(tmp_path, "text", path="self")


def test_a_large_file_becomes_documents_cut_at_line_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "_PIECE_BYTES", 10)
    (tmp_path / "big.txt").write_text("größe\n" * 5)
    found = documents(tmp_path, "text", path="big.txt")
    assert len(found) > 1
    assert "".join(found) == "größe\n" * 5
    assert all(text.endswith("\n") for text in found)


def test_the_byte_budget_cuts_between_characters(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("ab")
    (tmp_path / "2.txt").write_text("ßßß")
    assert documents(tmp_path, "text", path=".", max_bytes=5) == ["ab", "ß"]
    assert documents(tmp_path, "text", path=".", max_bytes=2) == ["ab"]
    assert documents(tmp_path, "text", path=".", max_bytes=100) == ["ab", "ßßß"]


LINES = [
    '{"text": "plain"}',
    '{"text": 7}',
    "{broken",
    "",
    '{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hi? "},'
    ' {"role": "assistant", "content": "Yes."}]}',
    '{"messages": [{"role": "tool", "content": "x"}]}',
    '{"messages": []}',
    '{"messages": [7]}',
    '["text"]',
    "[" * 5000,
    '{"text": NaN}',
    '{"body": "other"}',
    '{"text": "last"}',
]
CHAT = "Be brief.\n> Hi?\n< Yes.\n"


def test_json_lines_give_text_and_turns_and_count_the_rest(tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl").write_bytes("\n".join(LINES).encode() + b"\n\xff\xfe\n")
    chat = source(tmp_path, "jsonl", path="chat.jsonl")
    assert list(chat.documents()) == ["plain", CHAT, "last"]
    assert chat.skipped == 10
    body = source(tmp_path, "jsonl", path="chat.jsonl", field="body")
    assert list(body.documents()) == ["other"]
    assert body.skipped == 12


def test_of_a_folder_only_jsonl_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}')
    (tmp_path / "notes.txt").write_text("not JSON")
    assert documents(tmp_path, "jsonl", path=".") == ["one"]


def test_a_line_too_long_is_one_skipped_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "_MAX_LINE_BYTES", 32)
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "x" * 200}) + '\n{"text": "short"}\n')
    lines = source(tmp_path, "jsonl", path="a.jsonl")
    assert list(lines.documents()) == ["short"]
    assert lines.skipped == 1


def test_a_file_in_which_nothing_is_usable_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n[]\n")
    with pytest.raises(SourceUnavailable, match=r"none of the 2 lines at .*a.jsonl is a JSON object with a 'text'"):
        documents(tmp_path, "jsonl", path="a.jsonl")
    with pytest.raises(SourceUnavailable, match="the text field 'body'"):
        documents(tmp_path, "jsonl", path="a.jsonl", field="body")


def fake_datasets(monkeypatch: pytest.MonkeyPatch, load_dataset: object) -> None:
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))


def test_hugging_face_records_are_read_like_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def load_dataset(*args: object, **options: object) -> Iterator[Mapping[str, object]]:
        asked.extend([args, options])
        return iter([{"text": "one"}, {"other": 1}, {"text": "two"}])

    fake_datasets(monkeypatch, load_dataset)
    data = source(tmp_path, "hf", dataset="json", data_files=["a.jsonl", "https://x/b"], split="valid")
    assert list(data.documents()) == ["one", "two"]
    assert data.skipped == 1
    files = [str(tmp_path / "a.jsonl"), "https://x/b"]
    assert asked == [("json", None), {"split": "valid", "data_files": files, "streaming": True}]


def test_a_hugging_face_error_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object, **_options: object) -> Iterator[object]:
        yield {"text": "one"}
        raise OSError("no route\nto host")

    fake_datasets(monkeypatch, broken)
    documents_ = source(tmp_path, "hf", dataset="some/set").documents()
    assert next(documents_) == "one"
    with pytest.raises(SourceUnavailable, match=r"data set 'some/set' \(train\) cannot be read: no route$"):
        next(documents_)


def test_without_the_datasets_package_the_reason_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(SourceUnavailable, match=r"pip install 'andrea\[datasets\]'"):
        documents(tmp_path, "hf", dataset="json")


def test_real_datasets_reads_local_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    assert documents(tmp_path, "hf", dataset="json", data_files="a.jsonl") == ["one", "two"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "'kind' must be one of python-text, text, jsonl, hf, not None"),
        ({"kind": "csv"}, "'kind' must be one of"),
        ({"kind": "text", "paths": "x"}, "unknown key 'paths'; kind 'text' has name, kind, path, glob, max_bytes"),
        ({"kind": "text"}, "give either 'path' or 'glob'"),
        ({"kind": "text", "path": "a", "glob": "b"}, "give either 'path' or 'glob'"),
        ({"kind": "text", "path": 7}, "'path' must be a string that is not empty, not '7'"),
        ({"kind": "text", "path": " "}, "'path' must be a string that is not empty"),
        ({"kind": "text", "glob": ["a", 7]}, "'glob' must be a string or a list of strings"),
        ({"kind": "text", "path": "a", "max_bytes": 0}, "'max_bytes' must be a positive whole number"),
        ({"kind": "text", "path": "a", "max_bytes": True}, "'max_bytes' must be a positive whole number"),
        ({"kind": "jsonl", "path": "a", "field": ""}, "'field' must be a string"),
        ({"kind": "hf"}, "needs 'dataset'"),
        ({"kind": "python-text"}, "'arm' must be one of python-topics, .*, not 'books'"),
    ],
)
def test_a_wrong_table_is_refused_with_its_name_and_key(tmp_path: Path, spec: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=f"source 'books': .*{message}"):
        make_source("books", spec, tmp_path)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", ".a", "-a", "a b", "a\n", "ä", "x" * 65, None, 7])
def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path, name: object) -> None:
    with pytest.raises(ConfigError, match="is not usable"):
        make_sources([{"name": name, "kind": "text", "path": "x"}], tmp_path)


def test_identity_is_the_table_whatever_its_order(tmp_path: Path) -> None:
    one = make_source("a", {"name": "a", "kind": "text", "path": "x"}, tmp_path)
    two = make_source("a", {"path": "x", "kind": "text", "name": "a"}, tmp_path / "elsewhere")
    three = make_source("a", {"path": "y", "kind": "text", "name": "a"}, tmp_path)
    assert one.identity == two.identity != three.identity


def test_every_kind_is_buildable(tmp_path: Path) -> None:
    specs: list[dict[str, object]] = [
        {"name": "python-topics", "kind": "python-text"},
        {"name": "b", "kind": "text", "path": "b"},
        {"name": "c", "kind": "jsonl", "path": "c"},
        {"name": "d", "kind": "hf", "dataset": "json"},
    ]
    assert [made.name for made in make_sources(specs, tmp_path)] == [spec["name"] for spec in specs]
    assert {spec["kind"] for spec in specs} == set(KINDS)


def test_excerpts_share_the_budget_and_pass_over_what_is_not_there(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name * 50)
    specs: list[dict[str, object]] = [{"name": n, "kind": "text", "path": n} for n in ("a", "absent", "b")]
    assert list(excerpts(make_sources(specs, tmp_path), 30)) == ["a" * 10, "b" * 10]
