"""The wizard: nothing happens before apply, and every refusal is one sentence."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from andrea_engine.run.arms import arm_rows
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.intent import read_intent
from andrea_engine.run.pivot import Plan
from andrea_tui.feed.store import Store
from andrea_tui.screens.pivot.pages import when_text
from tests.screens.conftest import Acts, console
from tests.support.inprocess import andrea_engine
from tests.support.tiny import make_run

IGNORED = {"engine.json", "engine.log", "engine.lock", "console.json"}


@pytest.fixture(scope="module")
def stopped_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run that was trained for real: the wizard reads its record, its state and its sources."""
    directory = make_run(tmp_path_factory.mktemp("wizard") / "run")
    assert andrea_engine("train", directory.path, "--steps", 20).code == 0
    return directory


@pytest.fixture
def run(stopped_run: RunDirectory, tmp_path: Path) -> RunDirectory:
    import shutil

    shutil.copytree(stopped_run.path, tmp_path / "run")
    return RunDirectory(tmp_path / "run")


def digest(directory: RunDirectory) -> str:
    """Of every file but heartbeat, lock, log and the mark of the console in charge."""
    sums = hashlib.sha256()
    for path in sorted(directory.path.rglob("*")):
        if path.is_file() and path.name not in IGNORED:
            sums.update(f"{path.relative_to(directory.path)}\0".encode() + path.read_bytes())
    return sums.hexdigest()


@pytest.mark.parametrize("pages", [0, 1, 2, 3])
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_esc_on_each_page_leaves_no_trace(
    pages: int, size: tuple[int, int], run: RunDirectory, acts: Acts
) -> None:
    before = digest(run)
    async with console(run, size) as app:
        await app.press("p")
        assert app.open == "PivotWizard"
        await app.press(*["enter"] * min(pages, 1), *(["0", ".", "7"] if pages else []), *["enter"] * (pages - 1))
        await app.settle()
        app.assert_sound()
        assert "[" + ("1 now", "2 floors & caps", "3 preview", "4 review")[pages] + "]" in app.text
        await app.press("escape")
        assert app.open == "DashboardScreen"
    assert (digest(run), acts.none) == (before, True)


async def test_the_preview_and_the_review_tell_what_changes(run: RunDirectory, acts: Acts) -> None:
    async with console(run) as app:
        await app.press("p")
        first = app.app.screen.draft.arms[0]  # type: ignore[attr-defined]
        await app.press("enter", "0", ".", "7", "enter")
        await app.until(lambda: "simulated" in app.text, "the preview is there")
        assert "harbour" in app.text
        assert "garden" in app.text
        await app.press("enter")
        await app.until(lambda: f"floor of {first}: none -> 0.7" in app.text, "the change is told")
        assert "at once, at step 20: the engine is not running" in app.text
        assert "archive/pivot-0001-step-000020" in app.text


async def test_apply_writes_the_intent_and_follows_it(
    run: RunDirectory, acts: Acts, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[RunDirectory] = []
    monkeypatch.setattr("andrea_tui.screens.pivot.follow.see_through", seen.append)
    monkeypatch.setattr("andrea_tui.screens.dashboard.DEBOUNCE_SECONDS", 0.0)  # the second p comes at once here
    async with console(run) as app:
        await app.press("p")
        first = app.app.screen.draft.arms[0]  # type: ignore[attr-defined]
        await app.press("enter", "0", ".", "7", "enter", "enter")
        await app.until(lambda: "archive/pivot-0001" in app.text, "the review is there")
        await app.press("enter")
        intent = read_intent(run)
        assert intent is not None
        assert f"{first} = 0.7" in intent.policy
        assert [directory.path for directory in seen] == [run.path]
        assert app.open == "PivotFollow"
        # a second p says that one is under way, and shows it
        await app.press("escape", "p")
        assert app.open == "PivotFollow"
        assert any("a pivot is under way at step 20" in notice for notice in app.notices)


async def test_watching_refuses(run: RunDirectory, acts: Acts) -> None:
    async with console(run, watch=True) as app:
        await app.press("p")
        assert app.open == "DashboardScreen"
        assert any("only watches" in notice for notice in app.notices)
    assert read_intent(run) is None


async def test_a_policy_file_that_is_none_changes_nothing(run: RunDirectory, acts: Acts, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("[floors]\nharbour = 2\n[caps]\nharbour = 1\n")
    async with console(run) as app:
        await app.press("p", "enter", "o")
        await app.search(str(bad))
        await app.press("enter")
        await app.until(lambda: any("below its floor" in notice for notice in app.notices), "the reason is told")
        assert all("\n" not in notice for notice in app.notices)
        assert app.app.screen.draft.policy().floors == {}  # type: ignore[attr-defined]


async def test_a_shipped_policy_is_loaded_and_the_own_one_saved(
    run: RunDirectory, acts: Acts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with console(run) as app:
        await app.press("p", "enter", "o")
        await app.search("chatbot")
        await app.press("enter")
        await app.until(lambda: "chat" in app.app.screen.draft.arms, "the policy is loaded")  # type: ignore[attr-defined]
        await app.press("v")
        await app.press("enter")
        await app.until((tmp_path / "policies/mine.toml").exists, "the policy is saved")


async def test_an_unfinished_number_keeps_the_wizard_on_its_page(run: RunDirectory, acts: Acts) -> None:
    async with console(run) as app:
        await app.press("p", "enter", ".", "enter")
        assert "[2 floors & caps]" in app.text
        assert any("which is not a number" in notice for notice in app.notices)


async def test_the_arms_keep_one_order_on_all_pages(
    run: RunDirectory, acts: Acts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the first page when the wizard was opened: neither that of the file, nor the alphabet, nor the shares of
    a later moment."""
    monkeypatch.setattr("andrea_tui.screens.dashboard.DEBOUNCE_SECONDS", 0.0)  # the second p comes at once here
    async with console(run) as app:

        def order() -> list[str]:
            return [word for line in app.lines for word in line.split()[:1] if word in ("garden", "harbour")]

        def share(garden: float) -> None:
            arms = {"garden": {"share": garden}, "harbour": {"share": 1 - garden}}
            monkeypatch.setattr(Store, "arms", property(lambda store: arm_rows({"arms": arms})))

        names = ["garden", "harbour"]
        for garden, expected in ((0.6, names), (0.4, names[::-1])):
            share(garden)
            await app.press("p")
            assert order() == expected
            share(1 - garden)
            app.app.screen.redraw()  # type: ignore[attr-defined]
            await app.settle()
            assert order() == expected
            await app.press("enter")
            assert order() == expected
            await app.press("enter")
            await app.until(lambda: "simulated" in app.text, "the preview is there")
            await app.settle()
            assert order() == expected
            await app.press("escape")


@pytest.mark.parametrize(("step", "words"), [(21, "in 1 step (about"), (1022, "in 1,002 steps (about")])
def test_when_it_takes_effect(step: int, words: str) -> None:
    plan = Plan(1, "now", 20, step, 3.0, running=True, arguments=(), archive="", archived=(), notices=())
    assert words in when_text(plan)
