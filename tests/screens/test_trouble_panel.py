"""What the dashboard shows when the engine has ended badly or gets nowhere, and the keys that lead on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from andrea_engine.run.condition import Condition
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.heartbeat import read_heartbeat, write_heartbeat
from andrea_tui.widgets.status_bar import WORDS
from tests.screens.conftest import Acts, Console, console
from tests.screens.situations import beat, situation
from tests.widgets.stores import HOSTILE

SIZES = [(60, 20), (80, 24), (120, 40)]


def shown(running: Console) -> bool:
    return running.lines[1].startswith("┌─  ✕ ") or running.lines[1].startswith("┌─  ▲ ")


async def until_shown(running: Console) -> None:
    await running.until(lambda: shown(running), "the trouble is shown")


def write_log(directory: RunDirectory, count: int = 30) -> None:
    directory.log.write_text("".join(f"log line {n}\n" for n in range(1, count + 1)))


class Child:
    """An engine that was started from here and has ended."""

    def __init__(self, code: int | None) -> None:
        self.code = code

    def poll(self) -> int | None:
        return self.code


@pytest.mark.parametrize("size", SIZES)
async def test_a_crash_is_told_with_loss_log_and_keys(size: tuple[int, int], tmp_path: Path, acts: Acts) -> None:
    with situation("crashed", tmp_path / "run") as directory:
        write_log(directory)
        async with console(directory, size) as running:
            await until_shown(running)
            text = " ".join(running.text.replace("│", " ").split())
            assert "the engine ended without a word in phase training" in text
            assert "10 steps since the checkpoint of step 30 are lost and will be trained again." in text
            assert "exit status is unknown to this console" in text
            assert "r resume v log Esc put this away" in text
            assert "log line 30" in text
            assert ("log line 11 " in text) == (size == (120, 40)), "twenty lines where there is room"
            assert "log line 10 " not in text
            running.assert_sound()
            await running.press("v")
            assert running.open == "LogScreen"
            await running.press("escape")
            assert shown(running)
            await running.press("escape")
            await running.until(lambda: not shown(running), "Esc puts it away")
            assert "1 loss" in running.lines[1]
            await running.press("r")
    assert acts.started == [()]


async def test_r_resumes_and_the_next_end_is_shown_again(tmp_path: Path, acts: Acts) -> None:
    with situation("crashed", tmp_path / "run") as directory:
        async with console(directory) as running:
            await until_shown(running)
            await running.press("escape")
            await running.until(lambda: not shown(running), "it is put away")
            await running.press("r")
            assert acts.started == [()]
            running.app.control.child = Child(2)  # type: ignore[assignment]
            directory.log.write_text("andrea-engine: run.toml: nothing makes sense\n")
            await running.until(lambda: "ended with exit code 2: the configuration" in running.text, "it is told")
            await running.until(lambda: "run.toml: nothing makes sense" in running.text, "with its sentence")
            assert shown(running)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-9, "killed from outside by SIGKILL (out of memory?)"),
        (-11, "ended by SIGSEGV"),
        (5, "ended with exit code 5: no valid checkpoint"),
        (3, "ended with exit code 3: it could not save"),
    ],
)
async def test_the_end_of_an_own_engine_is_known_exactly(code: int, words: str, tmp_path: Path, acts: Acts) -> None:
    with situation("crashed", tmp_path / "run") as directory:
        async with console(directory) as running:
            running.app.control.child = Child(code)  # type: ignore[assignment]
            await running.until(lambda: words in running.text, "it is told")
            assert running.notices == []


async def test_a_failed_engine_of_another_starter_left_its_sentence(tmp_path: Path, acts: Acts) -> None:
    with situation("failed", tmp_path / "run") as directory:
        left = read_heartbeat(directory.heartbeat)
        assert left is not None
        write_heartbeat(directory.heartbeat, msgspec.structs.replace(left, exit_code=3, note="could not save step 40"))
        async with console(directory) as running:
            await running.until(lambda: "exit code 3: it could not save" in running.text, "it is told")
            assert "could not save step 40" in running.text
            assert "there is no engine.log" in running.text


@pytest.mark.parametrize(
    "name", ["training", "empty", "stopped", "finished", "halted", "elsewhere", "recorded", "rubbish"]
)
async def test_elsewhere_there_is_no_trouble(name: str, tmp_path: Path, acts: Acts) -> None:
    with situation(name, tmp_path / "run") as directory:
        async with console(directory) as running:
            if name == "halted":
                await running.press("escape")
            await running.settle()
            assert not shown(running)
            assert running.dashboard.query_one("#trouble").display is False


async def test_a_digit_shows_its_panel_alone_and_the_trouble_comes_back(tmp_path: Path, acts: Acts) -> None:
    with situation("crashed", tmp_path / "run") as directory:
        async with console(directory, (80, 24)) as running:
            await until_shown(running)
            await running.press("4")
            await running.until(lambda: running.lines[1].startswith("┌─ 4 arms"), "the arms are alone")
            await running.press("escape")
            await until_shown(running)


async def test_a_viewer_is_told_why_it_cannot_resume(tmp_path: Path, acts: Acts) -> None:
    with situation("crashed", tmp_path / "run") as directory:
        async with console(directory, watch=True) as running:
            await until_shown(running)
            await running.press("r")
            assert "only watches" in running.notices[0]
    assert acts.none


@pytest.mark.parametrize("size", SIZES)
async def test_a_hostile_end_is_only_shown(size: tuple[int, int], tmp_path: Path, acts: Acts) -> None:
    with situation("failed", tmp_path / "run", HOSTILE) as directory:
        directory.log.write_bytes((HOSTILE * 20 + "\n").encode("utf-8", "surrogatepass") * 30 + bytes(range(256)))
        async with console(directory, size) as running:
            await until_shown(running)
            running.assert_sound()


def stalled(seconds: float) -> Condition:
    return Condition(
        "stalled",
        alive=True,
        sentence=f"no progress for {seconds:.0f} s in phase training (limit 60 s): it waits in the kernel (state D)",
        advice="look at the disk",
        idle=seconds,
    )


@pytest.mark.parametrize("size", SIZES)
async def test_a_stall_rings_once_and_tells_what_to_do(
    size: tuple[int, int], tmp_path: Path, acts: Acts, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Condition("training", alive=True, sentence="")]
    rung: list[str] = []
    monkeypatch.setattr("andrea_tui.feed.tailer.condition", lambda *args, **more: found[0])
    monkeypatch.setattr("andrea_tui.app.AndreaApp.bell", lambda app: rung.append(found[0].word))
    with situation("training", tmp_path / "run") as directory:
        async with console(directory, size) as running:
            assert not shown(running)
            for seconds in (60.0, 61.0, 75.0):
                found[0] = stalled(seconds)
                await running.until(
                    lambda: f"stalled {found[0].idle:.0f} s" in running.lines[0], "the first line says so"
                )
            await until_shown(running)
            text = " ".join(running.text.replace("│", " ").split())
            assert "no progress for 75 s" in running.lines[1]
            assert "waits in the kernel (state D)" in text
            assert "What to do: look at the disk." in text
            assert "Nothing is done about it by itself" in text
            assert " ALARM  no progress for 75 s" in running.lines[-2]
            running.assert_sound()
            assert rung == ["stalled"]
            await running.press("escape")
            await running.until(lambda: not shown(running), "it is put away")
            assert "ALARM" in running.lines[-2], "the line stays"
            found[0] = Condition("training", alive=True, sentence="")
            await running.until(lambda: "ALARM" not in running.lines[-2], "it goes on")
            found[0] = stalled(60.0)
            await running.until(lambda: "ALARM" in running.lines[-2], "again")
            assert rung == ["stalled", "stalled"]
    assert acts.none


async def test_a_crash_that_was_seen_to_happen_rings_once(
    tmp_path: Path, acts: Acts, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[str] = []
    monkeypatch.setattr("andrea_tui.app.AndreaApp.bell", lambda app: rung.append(app.store.condition.word))
    with situation("training", tmp_path / "run") as directory:
        async with console(directory) as running:
            await running.until(lambda: "training" in running.lines[0], "it trains")
            write_heartbeat(directory.heartbeat, beat("training", pid=2**22 - 3))
            await until_shown(running)
            await running.settle()
    assert rung == ["crashed"]


def test_every_trouble_has_a_sign_on_the_first_line() -> None:
    assert {"stalled", "suspended", "crashed", "failed"} <= set(WORDS)
