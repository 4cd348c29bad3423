"""Stored samples: what we write, what the original wrote, and what neither would."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.run.errors import RunError
from andrea_engine.run.samples import KEPT, Sample, StoredScores, read_samples, write_samples

from .helpers import strict

SCORES = StoredScores(bigram=35.0, trigram=34.5, english=20.0, character=10.0, total=99.5)


def sample(step: int, text: str = "once there was a small red boat") -> Sample:
    return Sample(step=step, text=text, scores=SCORES, source="tales", loss=3.5, tokens=7, seed=2**63 + step)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("samples") / ".samples.json"
    samples = [sample(100 * k, text) for k, text in enumerate(texts)]
    write_samples(path, samples)
    strict(path.read_bytes())
    assert read_samples(path) == samples


def test_the_newest_thousand_are_kept(tmp_path: Path) -> None:
    path = tmp_path / ".samples.json"
    write_samples(path, [sample(step) for step in range(1500)])
    assert [s.step for s in read_samples(path)] == list(range(500, 1500))
    assert KEPT == 1000


def test_the_originals_entries_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.samples.json"
    items = [{"step": 100, "text": "a"}, {"step": 200, "loss": 3, "text": "b"}, {"step": 300, "loss": 3.5, "text": ""}]
    path.write_text(json.dumps(items))
    assert read_samples(path) == [
        Sample(step=100, text="a"),
        Sample(step=200, text="b", loss=3.0),
        Sample(step=300, text="", loss=3.5),
    ]


def test_fields_of_other_types_cost_only_themselves(tmp_path: Path) -> None:
    path = tmp_path / ".samples.json"
    path.write_text(
        '[{"step": 1, "text": "a", "scores": "high", "source": "x"}, {"step": 2, "text": "b", "source": 7},'
        ' {"step": 3, "text": 4}, {"step": "5", "text": "c"}, {"step": true, "text": "d"}, {"text": "e"}, 7, null, [],'
        ' {"step": 6, "text": "\\ud800f", "loss": NaN}, {"step": 7, "text": "g", "unknown": {"kept": "aside"}}]'
    )
    samples = read_samples(path)
    assert [(s.step, s.text, s.source) for s in samples] == [
        (1, "a", "x"),
        (2, "b", None),
        (6, "?f", None),
        (7, "g", None),
    ]
    write_samples(path, samples)
    strict(path.read_bytes())
    assert [s.step for s in read_samples(path)] == [1, 2, 6, 7]


@pytest.mark.parametrize("data", [b"", b" \n", b"[]", b"[\n]"])
def test_an_empty_file_holds_no_samples(tmp_path: Path, data: bytes) -> None:
    (tmp_path / ".samples.json").write_bytes(data)
    assert read_samples(tmp_path / ".samples.json") == []


def test_no_file_no_samples(tmp_path: Path) -> None:
    assert read_samples(tmp_path / ".samples.json") == []


@pytest.mark.parametrize(
    "data",
    [b"{}", b"7", b"null", b"garbage", b'[{"step": 1', b"\xff", b"\x00" * 9, b"[" * 100_000],
)
def test_a_corrupt_file_is_one_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / ".samples.json"
    path.write_bytes(data)
    with pytest.raises(RunError, match=r"\.samples\.json is not "):
        read_samples(path)
    assert path.read_bytes() == data


def test_deep_nesting_under_an_unknown_key(tmp_path: Path) -> None:
    path = tmp_path / ".samples.json"
    path.write_bytes(b'[{"step": 1, "text": "a", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]")
    with pytest.raises(RunError, match="nested too deeply"):
        read_samples(path)


def test_what_is_no_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("folder", "fifo"):
        with pytest.raises(RunError, match=f"{name} cannot be read"):
            read_samples(tmp_path / name)
