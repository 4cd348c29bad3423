"""The bandit's snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from andrea_engine.run.errors import RunError
from andrea_engine.run.state import read_state, set_aside, write_state

from .helpers import strict


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / ".state.json"
    assert read_state(path) is None
    state: dict[str, object] = {"arms": {"chat": {"pulls": 3, "ema": 0.25}}, "phase": 1, "bad": float("nan")}
    write_state(path, state)
    strict(path.read_bytes())
    assert read_state(path) == {**state, "bad": None}


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b"null", b"garbage", b"\xff", b'{"a":' * 100_000])
def test_a_corrupt_file_is_one_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / ".state.json"
    path.write_bytes(data)
    with pytest.raises(RunError, match=r"\.state\.json is not "):
        read_state(path)


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    (tmp_path / ".state.json").mkdir()
    with pytest.raises(RunError, match="cannot be read"):
        read_state(tmp_path / ".state.json")
    assert set_aside(tmp_path / ".state.json") == ".state.json.unreadable-1"


def test_a_bad_file_is_kept_and_none_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / ".state.json"
    for number in (1, 2, 3):
        path.write_text(str(number))
        assert set_aside(path) == f".state.json.unreadable-{number}"
        assert (tmp_path / f".state.json.unreadable-{number}").read_text() == str(number)
    assert not path.exists()
    assert set_aside(path) is None
