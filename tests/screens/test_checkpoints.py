"""The checkpoint browser: what it shows, what its keys do, and what they refuse."""

from __future__ import annotations

import hashlib
import os
import struct
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from andrea_engine.run.checkpoint import checkpoint_name
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import EventLog, pinned_steps, read_events
from andrea_tui.feed.checkpoints import CheckpointListing, CheckpointRow
from andrea_tui.screens.checkpoints import CheckpointsScreen
from andrea_tui.widgets.checkpoint_table import CheckpointTable, Verdict
from tests.screens.conftest import Acts, Console, console
from tests.screens.situations import SITUATIONS, another_console, picture, situation
from tests.support.tiny import CHECKPOINT_BYTES, N_PARAMS


def put(directory: RunDirectory, step: int) -> None:
    path = directory.path / checkpoint_name(step)
    with path.open("wb") as file:
        file.write(struct.pack("<ii", step, N_PARAMS))
        file.truncate(CHECKPOINT_BYTES)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    log = EventLog(directory.events, 1)
    log.append("save_durable", step=step, bytes=CHECKPOINT_BYTES, sha256=digest, reason="cadence", pinned=False)


class Browser(Console):
    """The console with the browser open."""

    @property
    def screen(self) -> CheckpointsScreen:
        return next(s for s in self.app.screen_stack if isinstance(s, CheckpointsScreen))

    @property
    def step(self) -> int:
        """Step of the row under the cursor."""
        chosen = self.screen.table.chosen
        assert chosen is not None
        return chosen.step

    def row(self, step: int) -> str:
        return next(line for line in self.lines if f" {step:,}  " in line[:16])


@asynccontextmanager
async def browser(
    directory: RunDirectory, size: tuple[int, int] = (120, 40), *, watch: bool = False
) -> AsyncIterator[Browser]:
    async with console(directory, size, watch=watch) as running:
        await running.press(*(["escape"] if running.open == "SamplesScreen" else []), "b")
        opened = Browser(running.app, running.pilot)
        assert opened.open == "CheckpointsScreen"
        await opened.until(lambda: opened.screen.table.listing is not None, "the list was read")
        await opened.settle()
        yield opened


@pytest.mark.parametrize(
    ("name", "size"),
    [*((name, (80, 24)) for name in SITUATIONS), ("training", (40, 10)), ("rubbish", (40, 10)), ("halted", (120, 40))],
)
async def test_every_key_in_every_situation(name: str, size: tuple[int, int], tmp_path: Path, acts: Acts) -> None:
    with situation(name, tmp_path / "run") as directory:
        before = picture(directory)
        async with browser(directory, size) as running:
            for key in ("j", "k", "up", "down", "pageup", "pagedown", "home", "end", "d", "l", "f"):
                await running.press(key)
                running.assert_sound()
                if running.open != "CheckpointsScreen":
                    await running.press("escape")
                    await running.until(lambda: running.open == "CheckpointsScreen", f"Esc leaves {key}")
            await running.press("b")
            assert running.open == "DashboardScreen"
        assert picture(directory) == before
    assert acts.none


async def test_rows_say_what_is_known(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        put(directory, 35)
        (directory.path / checkpoint_name(20)).write_bytes(b"torn")
        os.mkfifo(directory.path / checkpoint_name(10))
        async with browser(directory) as running:
            assert [row.step for row in running.screen.table.listing.rows] == [35, 30, 20, 10]  # type: ignore[union-attr]
            text = running.row(35)
            assert "✓ valid" in text
            assert "388 kB" in text
            assert f"{6.1 - 35 / 20:.3f}" in text, "the EMA of that step"
            assert "87≤" in text, "the score of step 30, which is the last before"
            assert "✕ invalid" in running.row(20)
            assert "only 4 bytes long, shorter than the header" in running.row(20)
            assert "cannot be opened" in running.row(10) or "not a regular file" in running.row(10)
            assert "checkpoints  4, 776 kB, 2 not valid" in running.lines[1]
            assert "every checkpoint is kept" in running.lines[2]
            assert "of disk free" in running.lines[2]
            assert "score 87.0 is that of step 30, the last before" in running.text


async def test_p_pins_at_once_and_unpins_after_asking(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with browser(directory) as running:
            await running.press("p")
            await running.until(lambda: "pinned by hand" in running.row(30), "the pin is shown")
            assert pinned_steps(read_events(directory.events)) == {30}
            assert "(andrea-tui)" in running.text
            await running.press("p")
            assert running.open == "Dialog"
            await running.press("p", "escape")
            assert pinned_steps(read_events(directory.events)) == {30}
            await running.press("p", "enter")
            await running.until(lambda: "pinned by hand" not in running.row(30), "the pin is gone")
            assert pinned_steps(read_events(directory.events)) == set()
    assert acts.none


async def test_d_reads_all_of_the_file(tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        for step in (50, 60):
            put(directory, step)
        with (directory.path / checkpoint_name(60)).open("r+b") as file:
            file.seek(1000)
            file.write(b"\x01")
        async with browser(directory) as running:
            for key, word in (("home", "✕ differs"), ("down", "✓ verified"), ("down", "? no digest")):
                await running.press(key, "d")
                await running.until(lambda: word in running.row(running.step), word)  # noqa: B023
            assert "no digest was recorded" in running.text
            put(directory, 60)
            await running.until(lambda: "✓ valid" in running.row(60), "another file, another verdict")
            assert "✓ verified" in running.row(50)


async def test_l_names_what_moves_and_moves_it(tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        for step in (32, 38):
            put(directory, step)
        async with browser(directory) as running:
            await running.press("end", "l")
            assert "Roll back to step 30?" in running.text
            text = " ".join(running.text.replace("│", " ").split())
            assert "2 newer checkpoints (776 kB): step 38, 32; 1 later sample" in text
            assert (directory.path / checkpoint_name(38)).exists()
            await running.press("enter")
            await running.until(lambda: running.screen.table.count == 1, "the list is what is left")
        assert sorted(path.name for path in directory.archive.glob("*/step_*")) == [
            "step_000032.bin",
            "step_000038.bin",
        ]


@pytest.mark.parametrize(("pivot", "told"), [(31, True), (30, False), (None, False)])
async def test_a_roll_back_behind_a_pivot_says_that_the_policy_stays(
    tmp_path: Path, acts: Acts, pivot: int | None, told: bool
) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        put(directory, 38)
        if pivot is not None:
            EventLog(directory.events, 1).append("pivot", step=pivot)
        async with browser(directory) as running:
            await running.press("end", "l")
            assert "Roll back to step 30?" in running.text
            text = " ".join(running.text.replace("│", " ").split())
            assert ("the policy stays that of the pivot at step 31; p changes it" in text) is told


async def test_f_forks_from_this_step(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        put(directory, 38)
        async with browser(directory) as running:
            await running.press("end", "f")
            assert "from the checkpoint of step 30" in running.text
            await running.press("enter")
            made = tmp_path / "run-from-30" / "step_000030.bin"
            await running.until(made.exists, "the fork is there")
            await running.until(lambda: any("created" in notice for notice in running.notices), "it is told")
    assert acts.none


async def test_i_shows_the_facts_of_inspect(tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        put(directory, 50)
        async with browser(directory) as running:
            await running.press("i")
            await running.until(lambda: running.open == "AnswerScreen", "the facts are there")
            await running.settle()
            for fact in ("50", f"{CHECKPOINT_BYTES:,}", f"{N_PARAMS:,}", "verified", "weights", "rms", "0.000e+00"):
                assert fact in running.text
            assert running.notices == [], "nothing lies over the answer"
            await running.press("escape")
            assert running.open == "CheckpointsScreen"
            await running.settle()
            assert "✓ verified" in running.row(50), "the list knows what was found"
            assert "are as they were saved" in running.text


async def test_i_that_finds_a_broken_file_tells_the_list(tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        put(directory, 50)
        with (directory.path / checkpoint_name(50)).open("r+b") as file:
            file.seek(1000)
            file.write(b"\x01")
        async with browser(directory) as running:
            for word in ("✕ differs", "? no digest"):
                await running.press("i")
                await running.until(lambda: running.open == "AnswerScreen", "the facts are there")
                await running.press("escape")
                await running.settle()
                assert word in running.row(running.step)
                await running.press("down")


async def test_while_a_file_is_read_the_list_says_so_and_after_a_failure_nothing_is_known(
    tmp_path: Path, acts: Acts, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, reads = threading.Event(), []

    def inspect(directory: RunDirectory, row: CheckpointRow) -> tuple[Verdict, str]:
        reads.append(row.step)
        go_on.wait(60.0)
        raise RunError("the disk does not answer")

    monkeypatch.setattr("andrea_tui.screens.checkpoints.inspect_file", inspect)
    with situation("stopped", tmp_path / "run") as directory:
        async with browser(directory) as running:
            try:
                await running.press("i", "i", "d")
                assert "◐ reading" in running.row(30)
                assert "reading all 388 kB" in running.text
                assert running.notices == []
            finally:
                go_on.set()
            await running.until(lambda: "✓ valid" in running.row(30), "it is as it was")
            assert running.notices == ["the disk does not answer"]
            assert reads == [30], "a file that is being read is not read twice"


@pytest.mark.parametrize("who", ["watch", "second", "locked"])
async def test_a_console_that_may_not_act_says_why(who: str, tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run") as directory, another_console(directory) as pid:
        if who != "second":
            (directory.path / "console.json").unlink()
        before = picture(directory)
        async with console(directory, watch=who == "watch") as opened:
            await opened.press(*("k" if who == "locked" else ""), "b")
            running = Browser(opened.app, opened.pilot)
            await running.until(lambda: running.screen.table.count, "the list was read")
            await running.settle()
            reasons = {"watch": "only watches", "second": f"another console (pid {pid})", "locked": "is locked"}
            for key in "plf":
                running.app.clear_notifications()
                await running.press(key)
                assert running.open == "CheckpointsScreen"
                assert any(reasons[who] in notice for notice in running.notices), key
            await running.press("d")
            await running.until(lambda: "no digest" in running.row(30), "reading is allowed")
        assert picture(directory) == before
    assert acts.none


async def test_the_list_follows_the_directory_and_the_cursor_its_checkpoint(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        for step in (32, 34):
            put(directory, step)
        async with browser(directory, (80, 24)) as running:
            await running.press("down")
            assert running.step == 32
            put(directory, 36)
            await running.until(lambda: running.screen.table.count == 4, "the new one is there")
            assert running.step == 32
            (directory.path / checkpoint_name(32)).unlink()
            await running.until(lambda: running.screen.table.count == 3, "it was removed")
            assert running.step == 30
            running.assert_sound()


async def test_the_cursor_stays_on_the_newest_checkpoint_when_a_newer_one_is_saved(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with browser(directory) as running:
            put(directory, 36)
            await running.until(lambda: running.screen.table.count == 2, "the new one is there")
            await running.settle()
            assert running.step == 30
            await running.press("p")
            await running.until(lambda: "pinned by hand" in running.row(30), "what the cursor stood on is pinned")


async def test_at_60_columns_score_and_pin_are_left_and_nothing_is_cut_without_a_sign(
    tmp_path: Path, acts: Acts
) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        put(directory, 35)
        async with browser(directory, (60, 20)) as running:
            await running.press("p")
            await running.until(lambda: "pinned by" in running.row(35), "the pin is shown")
            await running.settle()
            assert "87≤" in running.row(35)
            heading = next(line for line in running.lines if " step " in line and "EMA" in line)
            assert "score  pinned" in heading
            assert "size" not in heading
            file, score, pin, keys = (line.rstrip() for line in running.lines[-4:])
            assert file == " step_000035.bin  size and header agree; digest not checked"
            assert score == " ≤: score 87.0 is that of step 30, the last before"
            assert pin.startswith(" pinned by ")
            assert pin.endswith(("by hand", "…"))
            assert keys == " Esc back  p unpin…  i inspect  l roll back…  f fork…"


def listing(*steps: int) -> CheckpointListing:
    return CheckpointListing(tuple(CheckpointRow(f"{s}", s, 8, None, None, (s, 8, 0)) for s in steps))


def test_from_a_checkpoint_that_is_gone_the_cursor_goes_to_the_nearest() -> None:
    table = CheckpointTable()
    for steps, on in (
        ((400, 300, 200, 100), 400),
        ((500, 400, 300), 400),
        ((700, 600, 500, 300, 290), 300),
        ((700, 600, 310, 200), 310),
        ((), None),
        ((400, 310), 310),
    ):
        table.take(listing(*steps))
        assert (None if table.chosen is None else table.chosen.step) == on


async def test_many_rows_scroll(tmp_path: Path, acts: Acts) -> None:
    with situation("stopped", tmp_path / "run") as directory:
        for step in range(100, 160):
            put(directory, step)
        async with browser(directory, (80, 24)) as running:
            for key, step in (("end", 30), ("pageup", 112), ("home", 159), ("down", 158), ("k", 159), ("up", 159)):
                await running.press(key)
                assert running.step == step
                assert running.row(step).startswith("│ › ")
            await running.press("pagedown")
            assert running.step == 159 - 13
