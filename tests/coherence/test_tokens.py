from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.coherence.tokens import normalise, tokenise

# Characters that have bitten tokenisers: joiners, marks, fillers, emoji parts, surrogates, controls.
AWKWARD = (
    "a'é\u0301\u0e31\u0e01\u093e\u0939 \n\x00\u200b\u200d\u2019\ufe0f\u3164你カ한\u1112\u1161\u11ab😀👩🏽🇫🇷\ud800._3"
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I don't know.", ["I", "don't", "know", "."]),
        ("don\u2019t", ["don't"]),
        ("'quoted' dogs'", ["'", "quoted", "'", "dogs", "'"]),
        ("games, games", ["games", ",", "games"]),
        ("'''?'", ["'", "'", "'", "?", "'"]),
        ("snake_case 3.14", ["snake", "_", "case", "3", ".", "14"]),
        ("x2 = abc123", ["x2", "=", "abc123"]),
        ("你好,世界!", ["你", "好", ",", "世", "界", "!"]),
        ("カード々", ["カ", "ー", "ド", "々"]),
        ("한국어", ["한", "국", "어"]),
        ("\u1112\u1161\u11ab", ["한"]),  # conjoining jamo compose to one syllable
        ("ที่นี่", ["ที่", "นี่"]),  # Thai: a consonant with its vowel and tone marks
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("Привет, мир", ["Привет", ",", "мир"]),
        ("naïve café", ["naïve", "café"]),
        ("👨\u200d👩\u200d👧 👍🏽👍", ["👨\u200d👩\u200d👧", "👍🏽", "👍"]),
        ("🇫🇷🇩🇪🇮", ["🇫🇷", "🇩🇪", "🇮"]),
        ("😀😀", ["😀", "😀"]),
        ("", []),
        (" \n\t\u3000\u2800", []),
    ],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    assert tokenise(text) == [unicodedata.normalize("NFC", token) for token in tokens]


@pytest.mark.parametrize(
    "disguised",
    [
        "re\u200bgion",  # zero-width space
        "re\u200dgion",  # joiner
        "re\u00adgion",  # soft hyphen
        "\ufeffregion",
        "reg\u202eion",  # direction override
        "regi\u034fon",  # grapheme joiner
        "r\u0335e\u0336g\u0337ion",  # struck through
        "region\u0e31",  # a Thai vowel on a Latin letter
        "region\ufe0f",  # variation selector
        "re\u3164gion",  # Hangul filler
        "re\x00gion",
    ],
)
def test_an_invisible_disguise_does_not_make_a_new_word(disguised: str) -> None:
    assert tokenise(disguised) == ["region"]


def test_composed_and_decomposed_letters_are_the_same_token() -> None:
    assert tokenise("cafe\u0301") == tokenise("caf\u00e9") == ["caf\u00e9"]
    assert tokenise("e\u200b\u0301") == ["\u00e9"]


def test_joiners_between_emoji_count_only_where_they_join() -> None:
    assert tokenise("❤\ufe0f\u200d🔥") == ["❤\u200d🔥"]
    assert tokenise("😀\u200d\u200d😀") == ["😀", "😀"]
    assert tokenise("e\u200d😀\u200d") == ["e", "😀"]
    assert tokenise("👩🏽\u200d🔥") == ["👩🏽\u200d🔥"]
    assert tokenise("🏽\u200d🔥") == ["🏽", "🔥"], "a tone without a person joins nothing"


@settings(deadline=None)
@given(st.one_of(st.text(), st.text(st.sampled_from(AWKWARD))))
def test_any_text_splits_into_visible_tokens_that_split_no_further(text: str) -> None:
    tokens = tokenise(text)
    assert all(tokens)
    assert not any(char.isspace() for token in tokens for char in token)
    assert tokenise(" ".join(tokens)) == tokens
    assert "".join(tokens) == "".join(normalise(text).split())


@settings(deadline=None)
@given(st.one_of(st.text(), st.text(st.sampled_from(AWKWARD))))
def test_normalise_is_idempotent(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)
