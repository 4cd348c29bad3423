"""`andrea-engine score`: the four scores of a text, as the published cases demand them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from andrea_engine.coherence.metrics import AXES, score
from tests.support.inprocess import andrea_engine
from tests.support.tiny import TEXTS

CASES = json.loads((Path(__file__).parent.parent / "coherence" / "cases.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_published_cases(case: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text(str(case["text"]) * int(str(case.get("repeat", 1))), encoding="utf-8")
    result = andrea_engine("score", file, "--json")
    assert result.code == 0
    scores = json.loads(result.out)
    assert float(str(case.get("min", 0))) <= scores["total"] <= float(str(case.get("max", 100)))
    assert scores["total"] == pytest.approx(sum(scores[axis.name] for axis in AXES), abs=0.011)


def test_text_names_each_axis_with_its_range() -> None:
    text = (TEXTS / "garden.txt").read_text()
    lines = andrea_engine("score", TEXTS / "garden.txt").out.splitlines()
    assert [line.split()[0] for line in lines] == ["bigram", "trigram", "english", "character", "total"]
    assert [line.split()[-1] for line in lines] == ["35", "35", "20", "10", "100"]
    assert float(lines[-1].split()[1]) == pytest.approx(score(text).total, abs=0.005)
    assert score(text).total > 80, "prose is good"


@pytest.mark.parametrize("content", [b"", b" \n\t ", b"a", b"\xff"])
def test_text_without_two_tokens_is_scored_and_not_varied(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "text"
    file.write_bytes(content)
    result = andrea_engine("score", file, "--json")
    assert result.code == 0
    scores = json.loads(result.out)
    assert (scores["bigram"], scores["trigram"]) == (0, 0)


def test_what_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        result = andrea_engine("score", path)
        assert result.code == 2
        assert f"{path} cannot be read: {reason}" in result.err
