"""The tokenizer: lossless, greedy, exact in size, deterministic, and suspicious of files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from andrea_engine.data import tokenizer as module
from andrea_engine.data.tokenizer import BOS, FIRST_SEGMENT, MAX_SEGMENTS, Tokenizer, chunks, train
from andrea_engine.run.errors import ConfigError

PROSE = [
    "The reader was reading while the readers read what the writer had written.",
    "Writing and reading are two sides of one coin; writers read, readers write.",
    "\n\n    def read(self, words):\n        return self.words_read + words\n" * 3,
    "Die Größe der Bücher: große Größen, größere Bücher. 読む 読む 読者 📖📖",
] * 3
LEARNED = train(PROSE, 60)

texts = st.one_of(
    st.text(max_size=80),
    st.text("the readwriting \n\t_0123,.ßé読📖", max_size=120),
    st.lists(st.sampled_from(PROSE), max_size=3).map("".join),
)


def naive_encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """Greedy longest match by trying every segment at every position of every chunk."""
    ids: list[int] = []
    table = {segment.encode(): FIRST_SEGMENT + index for index, segment in enumerate(tokenizer.segments)}
    for chunk in (chunk for block in chunks(text) for chunk in block):
        rest = chunk.encode()
        while rest:
            best = max((segment for segment in table if rest.startswith(segment)), key=len, default=rest[:1])
            ids.append(table.get(best, best[0]))
            rest = rest[len(best) :]
    return ids


@settings(deadline=None)
@given(texts)
def test_any_text_comes_back_exactly(text: str) -> None:
    assert LEARNED.decode(LEARNED.encode(text)) == text


@settings(deadline=None)
@given(texts)
def test_the_longest_segment_wins_at_every_position(text: str) -> None:
    assert LEARNED.encode(text) == naive_encode(LEARNED, text)


@settings(deadline=None)
@given(st.lists(st.text(" \n\ta1_.é", max_size=4).map(lambda text: text * 20), max_size=8).map("".join))
@example(("a" * 50 + " ") * 9)
@example("\n" * 69 + "  a")
def test_where_a_block_ends_does_not_show(text: str) -> None:
    whole = [chunk for block in chunks(text) for chunk in block]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", 70)
        assert [chunk for block in chunks(text) for chunk in block] == whole
    assert "".join(whole) == text
    assert all(len(chunk) <= 65 for chunk in whole)


@settings(deadline=None)
@given(st.lists(st.integers(0, 255), max_size=40))
def test_any_bytes_decode_without_an_error(ids: list[int]) -> None:
    assert LEARNED.decode(ids) == bytes(ids).decode(errors="replace")


def test_lone_surrogates_become_the_replacement_character() -> None:
    assert LEARNED.decode(LEARNED.encode("a\ud800b")) == "a\ufffdb"
    assert train(["ab\ud800"] * 9 + ["ab cd ab cd"] * 9, 3).decode([BOS, 97]) == "a"


def test_ids_are_bytes_then_bos_then_segments() -> None:
    tokenizer = Tokenizer(["the", " the"])
    assert tokenizer.encode("the thé") == [257, 32, 116, 104, 0xC3, 0xA9]
    assert tokenizer.encode(" the") == [258]
    assert tokenizer.encode("") == []
    assert tokenizer.decode([BOS, 257, BOS, 258]) == "the the"
    assert tokenizer.encode_u16(" thea") == bytes([2, 1, 97, 0])
    assert tokenizer.vocab_size == 2 + 256 + 1


@pytest.mark.parametrize("token", [-1, 259, 70_000])
def test_an_id_outside_the_vocabulary_is_refused(token: int) -> None:
    with pytest.raises(ValueError, match="outside the vocabulary of 259"):
        Tokenizer(["the", " the"]).decode([token])


@pytest.mark.parametrize("count", [1, 2, 17, 60, 150])
def test_the_vocabulary_has_exactly_the_size_asked_for(count: int) -> None:
    tokenizer = train(PROSE, count)
    assert tokenizer.vocab_size == count + 257
    assert len(set(tokenizer.segments)) == count


def test_substrings_fill_a_vocabulary_that_boundaries_alone_cannot() -> None:
    # One word without a boundary gives one or two Harris segments; its 21 substrings of 2 to 7 letters are all.
    word = " abcdef"
    spans = {word[start:end] for start in range(7) for end in range(start + 2, 8)}
    assert set(train([word * 4], 21).segments) == spans
    with pytest.raises(ConfigError, match="only 21 recurring segments, fewer than the 22 asked for"):
        train([word * 4], 22)


@pytest.mark.parametrize("count", [0, -1, MAX_SEGMENTS + 1])
def test_a_size_that_ids_cannot_hold_is_refused(count: int) -> None:
    with pytest.raises(ConfigError, match="1 to 65279 segments"):
        train(PROSE, count)
    if count > 0:
        with pytest.raises(ValueError, match="uint16"):
            Tokenizer(f"{number:05}" for number in range(count))


def test_frequent_words_become_single_tokens() -> None:
    tokenizer = train(["the cat and the dog and the boat"] * 50, 8)
    assert len(tokenizer.encode(" the dog")) == 2


def test_training_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "from andrea_engine.data.tokenizer import train\n"
        "print(train(['readers read, writers write; reading and writing'] * 3, 30).digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / module.FILE_NAME
    LEARNED.save(path)
    loaded = Tokenizer.load(path)
    assert loaded.segments == LEARNED.segments
    assert loaded.digest == LEARNED.digest != Tokenizer(LEARNED.segments[::-1]).digest
    assert [entry.name for entry in tmp_path.iterdir()] == [module.FILE_NAME]


def saved(tmp_path: Path, **changes: object) -> Path:
    path = tmp_path / module.FILE_NAME
    LEARNED.save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "is not a Harris tokenizer"),
        ({"version": 2}, "has tokenizer version 2"),
        ({"segments": "abc"}, "must be a list of strings"),
        ({"segments": ["ab", 7]}, "must be a list of strings"),
        ({"segments": ["ab", "ab"]}, "occurs twice"),
        ({"segments": ["a"]}, "has 1 bytes, not 2 to 260"),
        ({"segments": ["x" * 300]}, "has 300 bytes"),
        ({"segments": ["\ud800x"]}, "lone surrogate"),
        ({"segments": ["ab", "cd"]}, "was altered"),
        ({"digest": None}, "was altered"),
    ],
)
def test_a_changed_file_is_refused_in_one_sentence(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Tokenizer.load(saved(tmp_path, **changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / module.FILE_NAME
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=module.FILE_NAME):
        Tokenizer.load(path)


def test_missing_folder_and_pipe_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "absent", tmp_path, tmp_path / "pipe"):
        with pytest.raises(ConfigError, match="cannot be read"):
            Tokenizer.load(path)
