from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.coherence.metrics import AXES, METRICS_VERSION, Scores, score

CASES = json.loads(Path(__file__).with_name("cases.json").read_text(encoding="utf-8"))["cases"]
MAXIMUM = dict(AXES)

PROSE = next(case["text"] for case in CASES if case["name"] == "plain prose")
THAI = "เช้าวันนี้ฉันไปตลาดซื้อแอปเปิ้ลและขนมปัง แล้วเดินกลับบ้านช้าๆ ริมแม่น้ำ ระหว่างทางพบเพื่อนเก่าคนหนึ่ง"
KOREAN = "오늘아침에나는시장에가서사과와빵을사고강가를따라천천히집으로걸어왔다길에서오랜친구를만나이야기를나누었다"


def low(text: str) -> set[str]:
    scores = score(text)
    return {axis.name for axis in AXES if getattr(scores, axis.name) < 0.4 * axis.maximum}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_shared_case(case: dict[str, Any]) -> None:
    text = case["text"] * case["repeat"]
    assert case.get("min", 0) <= score(text).total <= case.get("max", 100)
    assert low(text) >= set(case.get("low", ()))


def test_the_axes_are_the_published_ones() -> None:
    assert AXES == (("bigram", 35), ("trigram", 35), ("english", 20), ("character", 10))
    assert METRICS_VERSION == 2


def test_scores_follow_the_formulas() -> None:
    # 40 tokens "a b c d" x 10: 39 bigrams of which 4 differ, 38 trigrams of which 4 differ.
    scores = score("tree zqk lamp wvx " * 10)
    assert scores.bigram == pytest.approx(35 * 4 / 39, abs=0.005)
    assert scores.trigram == pytest.approx(35 * 4 / 38, abs=0.005)
    # 20 English tokens, 2 distinct words credited twice each, of 40 word tokens: 4/40 of the half that fills the axis.
    assert scores.english == pytest.approx(20 * (4 / 40) / 0.5, abs=0.005)
    assert scores.character == 10 * len(set("treezqklampwvx")) / 20
    assert scores.total == pytest.approx(35 * 4 / 39 + 35 * 4 / 38 + 4 + 6.5, abs=0.02)


def test_english_is_full_at_one_half_and_only_words_count() -> None:
    assert score("tree zqk lamp wvx").english == 20
    assert score("tree zqk wvx qrk").english == 10
    assert score("tree, 12 (zqk) 99 ... wvx: 7 qrk! 😀").english == 10
    assert score("tree 世界好").english == 10  # each ideograph is a word that is not English
    assert score("tree мир мы он").english == 10
    assert score("12 ... 😀").english == 0


def test_characters_are_full_at_twenty_and_blanks_do_not_count() -> None:
    assert score("abcdefghij").character == 5
    assert score("a b c d e f g h i j\n").character == 5
    assert score("abcdefghijklmnopqrst").character == 10
    assert score("abcdefghijklmnopqrstuvwxyz").character == 10


@pytest.mark.parametrize("blank", ["", " ", "\n\n", " \t\u3000", "\u200b\u200d\ufeff", "\x00\x1b"])
def test_blank_text_scores_nothing(blank: str) -> None:
    assert score(blank) == Scores(0, 0, 0, 0)


def test_short_text_is_not_called_varied() -> None:
    assert score("Hello").bigram == score("Hello").trigram == 0
    assert score("Hello there").bigram == pytest.approx(35 / 20)
    assert score("Hello there").trigram == 0
    assert score("Hello there").total < 30
    assert score("a b a b").total < 30


@pytest.mark.parametrize(
    "loop",
    [
        "region ",
        "REGION Region region rEgion ",
        "你好世界",
        "안녕하세요",
        "สวัสดีครับ",
        "привет мир ",
        "😀",
        "👨\u200d👩\u200d👧",
        "The quick brown fox jumps over the lazy dog, and nobody minds. ",
        "Sphinx of black quartz, judge my vow: pack my box with five dozen liquor jugs. ",
        "a b ",
        "> hi\n< hi\n",
    ],
)
def test_a_loop_is_found_in_every_script(loop: str) -> None:
    repeated = loop * (2000 // len(loop))
    assert score(repeated).total < 30
    assert {"bigram", "trigram"} <= low(repeated)


@pytest.mark.parametrize("loop", ["region {} ", "re{}gion ", "{}region "])
def test_invisible_characters_cannot_make_a_loop_look_varied(loop: str) -> None:
    invisible = ["\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u0335", "\u0336", "\u034f", "\ufe0f"]
    text = "".join(loop.format("".join(invisible[i % 10] for i in (n, n // 10, n // 7))) for n in range(150))
    assert score(text) == score(loop.format("") * 150)


@pytest.mark.parametrize("fluent", [THAI, KOREAN])
def test_fluent_text_without_spaces_passes_but_for_english(fluent: str) -> None:
    assert score(fluent).total >= 60
    assert low(fluent) == {"english"}


@pytest.mark.parametrize(
    "fluent",
    [
        "Der alte Mann ging am Morgen hinunter zum Fluss, prüfte seine Netze und sah lange hinüber zum anderen Ufer,"
        " wo ein Feuer rauchte. Er war nicht sicher, ob die Kinder schon wach waren.",
        "Le vieil homme descendit au matin vers la rivière, vérifia ses filets et regarda longtemps la rive opposée,"
        " où un feu fumait. Il ne savait pas si les enfants étaient déjà réveillés.",
        "El viejo bajó por la mañana al río, revisó sus redes y miró largo rato la orilla opuesta, donde humeaba una"
        " hoguera. No sabía si los niños ya estaban despiertos.",
    ],
    ids=["German", "French", "Spanish"],
)
def test_latin_script_is_not_enough_to_be_english(fluent: str) -> None:
    assert low(fluent) == {"english"}


def test_case_and_apostrophe_style_do_not_change_diversity() -> None:
    assert score("Don't DON'T don\u2019t").bigram == score("don't don't don't").bigram


def test_ordinary_repetition_of_words_costs_no_english_marks() -> None:
    words = PROSE.split()
    assert len(words) / len(set(words)) > 1.2  # "the" comes again and again, as it should
    assert score(PROSE).english == score(PROSE * 2).english == 20


@settings(deadline=None, max_examples=10_000)
@given(st.one_of(st.text(), st.text("ab ,'", max_size=300), st.text("你好 \u0301\u200d😀.", max_size=100)))
def test_every_axis_stays_in_its_range_and_scoring_is_deterministic(text: str) -> None:
    scores = score(text)
    for axis in AXES:
        value = getattr(scores, axis.name)
        assert 0 <= value <= axis.maximum
        assert value == round(value, 2)
    assert scores.total == pytest.approx(sum(getattr(scores, name) for name in MAXIMUM))
    assert score(text) == scores


@settings(deadline=None)
@given(st.lists(st.sampled_from(PROSE.split()), min_size=1, max_size=8), st.sampled_from([" ", "\n", ", "]))
def test_repeating_any_phrase_long_enough_falls_below_the_threshold(words: list[str], glue: str) -> None:
    phrase = glue.join(words) + glue
    assert score(phrase * 40).total < 30
