"""The token cache: encoded once, reused, rebuilt when it does not fit, never trusted blindly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.data import token_cache
from andrea_engine.data.sources import SourceUnavailable
from andrea_engine.data.token_cache import Corpus, PreparationStopped, held_out, load, prepare
from andrea_engine.data.tokenizer import BOS, Tokenizer
from andrea_engine.run.errors import ConfigError, SaveError

TOKENIZER = Tokenizer(["the", " the"])


@dataclass
class Texts:
    """A source from a list; counts how often it is read."""

    name: str
    texts: list[str]
    identity: str = "1"
    skipped: int = 0
    reads: int = 0

    def documents(self) -> Iterator[str]:
        self.reads += 1
        if not self.texts:
            raise SourceUnavailable("the shelf is empty")
        yield from self.texts


def chat() -> Texts:
    return Texts("chat", ["the cat", "the thé"], skipped=3)


def test_documents_are_encoded_with_bos_before_each(tmp_path: Path) -> None:
    corpus = prepare([chat()], TOKENIZER, tmp_path, 4)
    expected = [BOS, *TOKENIZER.encode("the cat"), BOS, *TOKENIZER.encode("the thé")]
    assert corpus.array("chat").tolist() == expected
    assert (tmp_path / "chat.u16").read_bytes() == np.array(expected, "<u2").tobytes()
    arm = corpus.arms["chat"]
    assert (arm.tokens, arm.validation_tokens, arm.documents, arm.characters) == (len(expected), 0, 2, 14)
    assert arm.skipped == 3
    assert not corpus.array("chat").flags.writeable


def test_a_second_start_reads_the_cache_and_not_the_source(tmp_path: Path) -> None:
    first = prepare([chat()], TOKENIZER, tmp_path, 4)
    gone = Texts("chat", [])
    second = prepare([gone], TOKENIZER, tmp_path, 4)
    assert gone.reads == 0
    assert second.arms == first.arms
    assert load(tmp_path).arms == first.arms
    assert load(tmp_path).verify() == []


def spoil_size(directory: Path) -> None:
    with (directory / "chat.u16").open("ab") as file:
        file.write(b"xx")


def spoil_content(directory: Path) -> None:
    data = bytearray((directory / "chat.u16").read_bytes())
    data[2] ^= 1
    (directory / "chat.u16").write_bytes(data)


def spoil_link(directory: Path) -> None:
    (directory / "chat.u16").rename(directory / "moved")
    (directory / "chat.u16").symlink_to(directory / "moved")


def spoil_manifest(directory: Path) -> None:
    (directory / "manifest.json").write_text("{")


def remove(directory: Path) -> None:
    (directory / "chat.u16").unlink()


@pytest.mark.parametrize("spoil", [spoil_size, spoil_content, spoil_link, spoil_manifest, remove])
def test_a_spoilt_cache_is_refused_by_load_and_rebuilt_by_prepare(tmp_path: Path, spoil: object) -> None:
    first = prepare([chat()], TOKENIZER, tmp_path, 4)
    expected = first.array("chat").tolist()
    spoil(tmp_path)  # type: ignore[operator]
    with pytest.raises(ConfigError, match="start training to encode"):
        load(tmp_path)
    again = chat()
    assert prepare([again], TOKENIZER, tmp_path, 4).array("chat").tolist() == expected
    assert again.reads == 1
    assert load(tmp_path).arms == first.arms


def test_verify_names_an_altered_file_that_is_too_large_to_hash_on_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare([chat()], TOKENIZER, tmp_path, 4)
    monkeypatch.setattr(token_cache, "VERIFY_BYTES", 1)
    spoil_content(tmp_path)
    assert load(tmp_path).verify() == ["chat"]


def test_another_tokenizer_or_another_table_encodes_again(tmp_path: Path) -> None:
    prepare([chat()], TOKENIZER, tmp_path, 4)
    for source, tokenizer in ((chat(), Tokenizer(["cat", "the"])), (Texts("chat", ["new"], identity="2"), TOKENIZER)):
        corpus = prepare([source], tokenizer, tmp_path, 4)
        assert source.reads == 1
        assert tokenizer.decode(corpus.array("chat")) == "".join(source.texts)


def test_a_source_without_text_is_unavailable_and_asked_again(tmp_path: Path) -> None:
    empty = Texts("books", [])
    corpus = prepare([chat(), empty], TOKENIZER, tmp_path, 4)
    assert list(corpus.arms) == ["chat"]
    assert corpus.unavailable == load(tmp_path).unavailable == {"books": "the shelf is empty"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chat.u16", "manifest.json"]
    empty.texts = ["full"]
    assert list(prepare([empty, chat()], TOKENIZER, tmp_path, 4).arms) == ["books", "chat"]


def test_an_arm_whose_source_left_the_configuration_is_gone(tmp_path: Path) -> None:
    prepare([chat(), Texts("zombie", ["brains"])], TOKENIZER, tmp_path, 4)
    assert list(prepare([chat()], TOKENIZER, tmp_path, 4).arms) == ["chat"]
    assert list(load(tmp_path).arms) == ["chat"]


def test_a_source_that_lost_its_text_after_a_change_is_no_arm(tmp_path: Path) -> None:
    prepare([chat(), Texts("b", ["b"])], TOKENIZER, tmp_path, 4)
    corpus = prepare([chat(), Texts("b", [], identity="2")], TOKENIZER, tmp_path, 4)
    assert (list(corpus.arms), list(corpus.unavailable)) == (["chat"], ["b"])


@pytest.mark.parametrize("sources", [[], [Texts("a", []), Texts("b", [])]])
def test_no_text_at_all_is_a_configuration_error(tmp_path: Path, sources: list[Texts]) -> None:
    with pytest.raises(ConfigError, match=r"a: the shelf is empty; b: the shelf is empty|run.toml lists none"):
        prepare(sources, TOKENIZER, tmp_path, 4)


@pytest.mark.parametrize("names", [["../x"], ["a", "A"], ["a", "a"]])
def test_names_that_would_share_or_leave_the_folder_are_refused(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(ConfigError, match="name"):
        prepare([Texts(name, ["x"]) for name in names], TOKENIZER, tmp_path / "tokens", 4)
    assert list(tmp_path.iterdir()) == []


def test_a_stop_keeps_what_is_finished_and_leaves_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "_BUFFER_BYTES", 2)
    seen: list[tuple[str, int, int]] = []
    with pytest.raises(PreparationStopped):
        prepare(
            [chat(), Texts("long", ["a", "b", "c"])],
            TOKENIZER,
            tmp_path,
            4,
            progress=lambda *call: seen.append(call),
            should_stop=lambda: seen[-1][0] == "long",
        )
    assert seen == [("chat", 1, 6), ("chat", 2, 13), ("long", 1, 2)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chat.u16", "manifest.json"]
    resumed = chat()
    prepare([resumed, Texts("long", ["a"])], TOKENIZER, tmp_path, 4)
    assert resumed.reads == 0


def test_a_rest_of_a_killed_start_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".chat.u16.999999.1.tmp").write_bytes(b"half")
    prepare([chat()], TOKENIZER, tmp_path, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chat.u16", "manifest.json"]


@settings(deadline=None)
@given(st.integers(1, 20_000_000), st.integers(1, 2048))
def test_the_held_out_part_is_small_and_never_the_whole(tokens: int, context: int) -> None:
    kept = held_out(tokens, context)
    if tokens // context <= 20:
        assert kept == 0
    else:
        assert context + 1 <= kept <= max(context + 1, 65_536)
        assert kept == context + 1 or kept <= tokens / 100
        assert tokens - kept > context


def test_training_and_validation_are_disjoint_and_complete(tmp_path: Path) -> None:
    source = Texts("long", ["abcdefghij" * 100])
    corpus = prepare([source], TOKENIZER, tmp_path, 4)
    # 1001 tokens: 1 % are 10.
    assert (corpus.arms["long"].tokens, corpus.arms["long"].validation_tokens) == (991, 10)
    whole = np.concatenate([corpus.array("long"), corpus.validation("long")])
    assert whole.tolist() == [BOS, *TOKENIZER.encode(source.texts[0])]
    # Another context moves the border without reading the source again.
    assert prepare([source], TOKENIZER, tmp_path, 40).arms["long"].validation_tokens == 41
    assert source.reads == 1
    assert load(tmp_path).arms["long"].validation_tokens == 41


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SaveError, match=r"the encoded text cannot be written to .*file/tokens: Not a directory"):
        prepare([chat()], TOKENIZER, tmp_path / "file" / "tokens", 4)


def test_an_empty_folder_has_nothing_to_load(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no readable manifest\.json"):
        load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"context": 0},
        {"arms": {"../x": {}}},
        {"arms": {"chat": {"tokens": -1}}},
        {"arms": []},
        {"extra": 1},
    ],
)
def test_a_hostile_manifest_is_not_trusted(tmp_path: Path, change: dict[str, object]) -> None:
    prepare([chat()], TOKENIZER, tmp_path, 4)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ConfigError, match="holds no readable"):
        load(tmp_path)
    assert isinstance(prepare([chat()], TOKENIZER, tmp_path, 4), Corpus)
