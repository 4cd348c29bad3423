"""Dictionary entries in the shape `> define X` / `< X is ...`, made from the first sentences of documentation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_ARTICLE = re.compile(r"(?:An?|The) ")
_SENTENCE_END = re.compile(r"\.(?:\s|$)")
_MARKUP = re.compile(r"::|>>>|[<>{}|\\*]|--|==")
_ROLE = re.compile(r":\w+:`~?([^`]*)`")
_IS = re.compile(r"(?:An?|The) ([A-Za-z][\w' -]{2,40}?) is ((?:an?|the|any|used|executed|one) .+)")
# Verbs that open a docstring; only with a known one can the sentence be turned into "that does".
_VERB_LIST = """
accept access add allow append apply assert assign attempt break build calculate call change check choose clean
clear close collect combine compare compile compute configure connect construct contain convert copy count create
cut decode define delete describe detect determine disable display divide draw emit enable encode end ensure
evaluate execute expand extract fetch fill filter find fit flush force format generate get give guess handle hold
implement import indicate initialize insert install invert invoke iterate join keep list load locate lock log look
make manage map mark match measure merge modify move multiply normalize notify open parse perform pick prepare
print process produce provide push put query raise read receive record refresh register release remove rename
render replace report represent request reset resolve restore retrieve return rotate round run save scale scan
schedule search select send serialize set show shift shut sort specify split start stop store strip subtract
support swap switch take tell terminate test transform translate truncate try turn undo update use validate
verify wait walk wrap write yield
"""
_VERBS = frozenset(_VERB_LIST.split())


def dictionary(topics: Iterable[str], named: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Entries from reference chapters, then from (`def`|`class`, name, docstring) triples; each term once."""
    seen: set[str] = set()
    for term, meaning in _definitions(topics, named):
        if term not in seen:
            seen.add(term)
            yield f"> define {term}\n< {term} is {meaning}.\n"


def _definitions(topics: Iterable[str], named: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    for chapter in topics:
        for paragraph in chapter.split("\n\n"):
            match = _IS.fullmatch(first_sentence(paragraph) or "")
            if match:
                yield match[1], match[2]
    for kind, name, text in named:
        sentence = None if name.startswith("_") else first_sentence(text)
        meaning = sentence and describe(kind, sentence)
        if meaning:
            yield name, meaning


def first_sentence(text: str) -> str | None:
    """The first sentence without its full stop; None when it is no plain sentence of 3 to 40 words."""
    line = " ".join(_ROLE.sub(r"\1", text.partition("\n\n")[0]).replace("`", "").split())
    end = _SENTENCE_END.search(line)
    sentence = line[: end.start()] if end else line
    if not 3 <= len(sentence.split()) <= 40 or not end or _MARKUP.search(sentence):
        return None
    return sentence


def describe(kind: str, sentence: str) -> str | None:
    """What follows "X is": `Return the sum` gives `a function that returns the sum`; None when it would not read."""
    if _ARTICLE.match(sentence):
        return sentence[0].lower() + sentence[1:]
    verb, _, rest = sentence.partition(" ")
    verb = verb.lower()
    if verb in _VERBS:
        verb = _third_person(verb)
    elif not any(verb == _third_person(base) for base in (verb[:-1], verb[:-2], verb[:-3] + "y") if base in _VERBS):
        return None
    return f"a {'class' if kind == 'class' else 'function'} that {verb} {rest}"


def _third_person(verb: str) -> str:
    if verb.endswith(("s", "sh", "ch", "x", "z")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"
