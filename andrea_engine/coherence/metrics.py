"""The coherence score: four axes, 100 in all. Pure and versioned.

| axis | range | formula |
|---|---|---|
| bigram, trigram | 0-35 each | distinct n-grams / max(all n-grams, 20) |
| english | 0-20 | credited English words / word tokens, full marks at one half |
| character | 0-10 | distinct visible characters, full marks at 20 |

Tokens are those of `tokens.tokenise`, compared without case. Two refinements keep the plain ratios honest:

- *Short text.* A handful of n-grams is trivially distinct, so the ratio's denominator is at least 20: `Hello
  there` earns 1/20 of the bigram axis. Text without two tokens has no n-grams and scores 0 there.
- *Repeated words.* The other two axes reach 30 of 100, the gate's threshold, so a varied English sentence that
  loops for ever could never fall below it. Each distinct English word is therefore credited twice on average:
  `credited = min(English tokens, 2 x distinct English words)`. Ordinary prose of a sample's length is untouched
  (full marks as long as a quarter of the words are distinct); a loop loses the axis together with its n-grams.

A word token is a token with a letter. Each Han, kana, Hangul or Thai character counts as one and each Cyrillic word
too, so they lower the English share; numbers, punctuation and emoji are no words and leave it alone.

Blank text scores 0 everywhere. A generated sample that is blank is a collapse like any other and counts
as a low one; where nothing was generated there is no sample and nothing to score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from andrea_engine.coherence.tokens import normalise, split
from andrea_engine.coherence.words import is_english

METRICS_VERSION = 2  # raise it whenever the same text could score differently; it is stored with each sample


class Axis(NamedTuple):
    """One axis of the score, from 0 to `maximum`."""

    name: str
    maximum: int


AXES = (Axis("bigram", 35), Axis("trigram", 35), Axis("english", 20), Axis("character", 10))

_BIGRAM, _TRIGRAM, _ENGLISH, _CHARACTER = AXES
_FEWEST_NGRAMS = 20
_CREDIT_PER_WORD = 2
_FULL_SHARE = 0.5
_FULL_CHARACTERS = 20


@dataclass(frozen=True, slots=True)
class Scores:
    """The four axes of one sample, each from 0 to its maximum, rounded to two decimals."""

    bigram: float
    trigram: float
    english: float
    character: float

    @property
    def total(self) -> float:
        """The composite, 0 to 100, which the gate compares with its threshold."""
        return round(self.bigram + self.trigram + self.english + self.character, 2)


def _diversity(tokens: Sequence[str], size: int) -> float:
    """Distinct n-grams of `size` tokens / all of them, 0 to 1."""
    ngrams = list(zip(*(tokens[offset:] for offset in range(size)), strict=False))
    return len(set(ngrams)) / max(len(ngrams), _FEWEST_NGRAMS)


def _english_share(tokens: Sequence[str]) -> float:
    """Credited English words / word tokens, 0 to 1."""
    words = [token for token in tokens if any(char.isalpha() for char in token)]
    if not words:
        return 0.0
    english = [word for word in words if is_english(word)]
    return min(len(english), _CREDIT_PER_WORD * len(set(english))) / len(words)


def _points(axis: Axis, fraction: float) -> float:
    return round(axis.maximum * min(1.0, fraction), 2)


def score(text: str) -> Scores:
    """Score one sample on the four axes (formulas in the module's docstring). Never raises."""
    normalised = normalise(text)
    tokens = [token.casefold() for token in split(normalised)]
    visible = {char for char in normalised if not char.isspace()}
    return Scores(
        bigram=_points(_BIGRAM, _diversity(tokens, 2)),
        trigram=_points(_TRIGRAM, _diversity(tokens, 3)),
        english=_points(_ENGLISH, _english_share(tokens) / _FULL_SHARE),
        character=_points(_CHARACTER, len(visible) / _FULL_CHARACTERS),
    )
