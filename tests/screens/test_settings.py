"""What is remembered of how a run was looked at: bounded, outside of the run, and never in the way."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andrea_tui.settings import FILE_LIMIT, MOST_RUNS, Settings
from tests.screens.conftest import console
from tests.screens.situations import picture, situation

HABITS: dict[str, object] = {"theme": "andrea-light", "panel": "loss", "log_y": True, "smoothing": "0.9"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "console.json"


def test_each_run_has_its_own(path: Path, tmp_path: Path) -> None:
    kept = Settings(path)
    kept.remember(tmp_path / "a", HABITS)
    kept.remember(tmp_path / "b", {"panel": "arms"})
    assert Settings(path).of(tmp_path / "a") == HABITS
    assert Settings(path).of(tmp_path / "b") == {"panel": "arms"}


def test_one_run_by_whatever_name_it_is_called(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    monkeypatch.chdir(tmp_path)
    Settings(path).remember(Path("run"), HABITS)
    for name in ("run", "./run/", "link"):
        assert Settings(path).of(Path(name)) == HABITS


def test_a_new_run_takes_the_last_theme_and_nothing_else(path: Path, tmp_path: Path) -> None:
    assert Settings(path).of(tmp_path / "new") == {}
    Settings(path).remember(tmp_path / "a", HABITS)
    assert Settings(path).of(tmp_path / "new") == {"theme": "andrea-light"}


def test_the_newest_two_hundred_stay(path: Path, tmp_path: Path) -> None:
    kept = Settings(path)
    for number in range(MOST_RUNS + 5):
        kept.remember(tmp_path / str(number), {"number": number})
        if number == MOST_RUNS - 1:
            kept.remember(tmp_path / "0", {"number": 0})  # looked at again: not the oldest any more
    left = [number for number in range(MOST_RUNS + 5) if "number" in kept.of(tmp_path / str(number))]
    assert left == [0, *range(6, MOST_RUNS + 5)]
    assert len(json.loads(path.read_text())["runs"]) == MOST_RUNS


def test_a_path_that_is_not_utf_8(path: Path) -> None:
    strange = Path(os.fsdecode(b"/runs/\xff\xfe"))
    Settings(path).remember(strange, HABITS)
    assert Settings(path).of(strange) == HABITS


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\x00",
        b'{"runs": []}',
        b'{"runs": {"a": 1}}',
        b"[" * 100_000,
        b" " * (FILE_LIMIT + 1),
    ],
    ids=range(9),
)
def test_rubbish_is_forgotten(path: Path, tmp_path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    assert Settings(path).of(tmp_path) == {}
    Settings(path).remember(tmp_path, HABITS)
    assert Settings(path).of(tmp_path) == HABITS


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=JSON | st.fixed_dictionaries({"runs": st.dictionaries(st.text(), JSON, max_size=4)}))
def test_any_json_is_harmless(found: object, path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(found))
    kept = Settings(path)
    kept.of(tmp_path)
    kept.remember(tmp_path, HABITS)
    assert kept.of(tmp_path) == HABITS


def test_only_small_plain_values_are_kept(path: Path, tmp_path: Path) -> None:
    Settings(path).remember(tmp_path, {"list": [1], "none": None, "long": "x" * 10_000, "nested": {"a": 1}, "b": False})
    assert Settings(path).of(tmp_path) == {"b": False}


@pytest.mark.parametrize("obstacle", ["file above", "directory in its place", "link", "pipe"])
def test_where_it_cannot_be_kept_nothing_happens(path: Path, tmp_path: Path, obstacle: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"runs": {}}')
    if obstacle == "file above":
        path.parent.write_text("")
    else:
        path.parent.mkdir()
    if obstacle == "directory in its place":
        path.mkdir()
    elif obstacle == "link":
        path.symlink_to(secret)
    elif obstacle == "pipe":
        os.mkfifo(path)
    Settings(path).remember(tmp_path, HABITS)
    Settings(path).of(tmp_path)
    assert secret.read_text() == '{"runs": {}}'


@pytest.mark.parametrize(
    ("state_home", "home", "expected"),
    [
        ("/s", "/h", "/s/andrea/console.json"),
        ("", "/h", "/h/.local/state/andrea/console.json"),
        ("relative", "/h", "/h/.local/state/andrea/console.json"),
    ],
)
def test_where_it_is(state_home: str, home: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", state_home)
    monkeypatch.setenv("HOME", home)
    assert str(Settings()._path) == expected


# -- in the console ---------------------------------------------------------------------------------------------------


async def test_a_run_comes_back_as_it_was_left(tmp_path: Path, state_home: Path) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.press("y", "2")
            running.app.theme = "andrea-light"
            await running.settle()
            assert running.dashboard.alone == "power"
        async with console(directory) as running:
            assert running.app.theme == "andrea-light"
            assert running.dashboard.alone == "power"
            assert running.app.view.log_y
            assert "1 loss" not in running.text
            await running.press("escape")
            assert "1 loss" in running.text
        async with console(directory) as running:
            assert running.dashboard.alone == ""
    assert (state_home / "andrea" / "console.json").is_file()


async def test_looking_leaves_no_trace_in_the_run(tmp_path: Path) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        before = picture(directory)
        async with console(directory, watch=True) as running:
            await running.press("1", "y", "1")
        assert picture(directory) == before


async def test_who_changed_nothing_is_not_remembered(tmp_path: Path, state_home: Path) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        async with console(directory) as running:
            running.app.leave("left")
    assert list(state_home.iterdir()) == []


@pytest.mark.parametrize("habits", [{"theme": "no such theme", "panel": "no such panel", "log_y": "?"}, {"theme": 7}])
async def test_remembered_nonsense_is_ignored(habits: dict[str, object], tmp_path: Path) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        Settings().remember(directory.path, habits)
        async with console(directory) as running:
            assert running.app.theme == "andrea-dark"
            assert running.dashboard.alone == ""
            running.assert_sound()


async def test_no_color_is_neither_overruled_nor_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        Settings().remember(directory.path, {"theme": "andrea-light"})
        monkeypatch.setenv("NO_COLOR", "1")
        async with console(directory) as running:
            assert running.app.theme == "andrea-ansi"
            await running.press("y")
        assert "theme" not in Settings().of(directory.path)
