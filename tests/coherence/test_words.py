from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from andrea_engine.coherence.words import english_words, is_english

ENGLISH = """
    games boats walked chased baked cakes region harbour children mother's boat's don't it's I'm he's they've a I to of
    in the was are you cat run The HELLO Don't
"""
NOT_ENGLISH = (
    "zz b x qq nba Budy http hmmm xxxx nicht avec n't t's 's ' '' 3 2nd p000 café the\u0301 的 мир ｔｈｅ \u212aing"
)


@pytest.mark.parametrize("word", ENGLISH.split())
def test_english(word: str) -> None:
    assert is_english(word)


@pytest.mark.parametrize("word", [*NOT_ENGLISH.split(), "", " ", "the "])
def test_not_english(word: str) -> None:
    assert not is_english(word)


def test_the_list_is_the_same_on_every_machine() -> None:
    words = english_words()
    digest = hashlib.sha256("\n".join(sorted(words)).encode()).hexdigest()
    # Changing the list changes scores: raise METRICS_VERSION together with these two values.
    assert len(words) == 36970
    assert digest == "c9700695967902fa454933be4332a314f9b67049555df3e2b714f74e818998d7"
    assert all(word.isascii() and word.replace("'", "").isalpha() and word == word.lower() for word in words)


def test_the_list_is_read_on_first_use_only_and_nothing_heavy_comes_with_it() -> None:
    program = """
import sys
import andrea_engine.coherence.backtest
assert "wordfreq" not in sys.modules, "read before it was needed"
from andrea_engine.coherence.metrics import score
assert score("The boats left.").english > 0
assert "wordfreq" in sys.modules
print(sorted({"torch", "numpy", "textual", "rich"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
