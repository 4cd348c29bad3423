"""Successor variety: where words can be cut.

Z. Harris, "From phoneme to morpheme" (Language 31, 1955): write under each prefix of a word how many distinct
letters can follow it in the corpus. Inside a morpheme the number falls, because the next letter gets predictable;
where it rises again to a peak, a morpheme has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def successor_variety(words: Iterable[str]) -> dict[str, int]:
    """Prefix -> distinct successors (the end of a word is one of them); a prefix that is not listed has one.

    In sorted order all words with a common prefix stand together, and a new successor of that prefix appears exactly
    where two neighbours part; so one pass over the neighbours counts them all.
    """
    variety: dict[str, int] = {}
    previous: str | None = None
    for word in sorted(set(words)):
        if previous is not None:
            prefix = word[: _common(previous, word)]
            variety[prefix] = variety.get(prefix, 1) + 1
        previous = word
    return variety


def _common(left: str, right: str) -> int:
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))


def boundaries(word: str, variety: Mapping[str, int]) -> list[int]:
    """Positions strictly inside `word` at which its successor variety peaks."""
    found: list[int] = []
    before, here = variety.get("", 1), variety.get(word[:1], 1)
    for index in range(1, len(word)):
        after = variety.get(word[: index + 1], 1)
        if here > before and here >= after:
            found.append(index)
        before, here = here, after
    return found


def candidates(words: Mapping[str, int]) -> dict[str, int]:
    """Every span between two boundaries (or ends) of a word -> how often it occurs, weighted by the words' counts.

    A leading space belongs to its word: it stays with the first span and takes no part in the statistics, so that
    "boat" and " boat" teach each other.
    """
    variety = successor_variety(word[_lead(word) :] for word in words)
    counts: dict[str, int] = {}
    for word, count in words.items():
        lead = _lead(word)
        cuts = [0, *(lead + cut for cut in boundaries(word[lead:], variety)), len(word)]
        for index, start in enumerate(cuts[:-1]):
            for end in cuts[index + 1 :]:
                span = word[start:end]
                counts[span] = counts.get(span, 0) + count
    return counts


def _lead(word: str) -> int:
    return 1 if word[0] == " " and not word.isspace() else 0
