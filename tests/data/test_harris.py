"""Successor variety against a literal reading of its definition."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.data.harris import boundaries, candidates, successor_variety

words = st.sets(st.text("abc ", max_size=6), max_size=30)


def naive_variety(corpus: set[str], prefix: str) -> int:
    """Distinct letters after `prefix`, the end of a word being one more "letter"."""
    return len({word[len(prefix) : len(prefix) + 1] for word in corpus if word.startswith(prefix)})


@settings(deadline=None)
@given(words)
def test_variety_is_the_number_of_distinct_successors(corpus: set[str]) -> None:
    variety = successor_variety(corpus)
    prefixes = {word[:length] for word in corpus for length in range(len(word) + 1)}
    assert {p: variety.get(p, 1) for p in prefixes} == {p: naive_variety(corpus, p) for p in prefixes}


def test_a_stem_ends_where_the_variety_peaks() -> None:
    corpus = {"read", "reads", "reading", "reader", "readable", "rope", "red"}
    variety = successor_variety(corpus)
    # after "read": end, s, i, e, a = 5; after "rea": d = 1; after "re": a, d = 2
    assert (variety["read"], variety.get("rea", 1), variety["re"]) == (5, 1, 2)
    assert 4 in boundaries("reading", variety)
    assert 3 not in boundaries("reading", variety)


def test_a_rise_that_goes_on_is_no_peak_yet() -> None:
    variety = successor_variety({"ab", "abc", "abd", "ax"})
    assert (variety.get("", 1), variety["a"], variety["ab"]) == (1, 2, 3)
    assert boundaries("abc", variety) == [2]


def test_a_word_without_company_has_no_boundary() -> None:
    assert boundaries("lonely", successor_variety({"lonely"})) == []


def test_candidates_are_the_spans_between_cuts_weighted_by_the_words() -> None:
    # "ab" is followed by end, c and d (3); "a" by b alone; the empty prefix by a alone: one peak, after "ab".
    assert candidates({"ab": 5, "abc": 2, "abd": 1}) == {"ab": 8, "abc": 2, "abd": 1, "c": 2, "d": 1}


def test_a_leading_space_stays_with_its_word() -> None:
    found = candidates({" ab": 5, "abc": 2, " abd": 1})
    assert found == {" ab": 6, "abc": 2, " abd": 1, "ab": 2, "c": 2, "d": 1}


def test_spaces_alone_are_words_of_their_own() -> None:
    assert candidates({"  ": 3}) == {"  ": 3}
