"""Where there is room for one line only, it says what matters: state, step, loss EMA, last score."""

from __future__ import annotations

import pytest

from andrea_tui.feed.store import Store
from andrea_tui.widgets.rows import RowsWidget, row_width
from andrea_tui.widgets.status_bar import StatusBar
from tests.screens.conftest import console
from tests.screens.situations import situation
from tests.widgets.stores import PHASES, full
from tests.widgets.test_rows import text_of


@pytest.fixture(autouse=True)
def braille(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowsWidget, "kind", property(lambda self: "braille"))


def line(store: Store, width: int, watching: str = "") -> str:
    bar = StatusBar("runs/120m")
    bar.alone, bar.watching = True, watching
    (row,) = bar.lay_out(store, width, 1)
    assert row_width(row) == width
    return text_of(row)


@pytest.mark.parametrize("width", [24, 30, 40, 59, 80, 200])
@pytest.mark.parametrize(("word", "alive"), PHASES)
def test_state_step_loss_and_score(word: str, alive: bool, width: int) -> None:
    text = line(full(word=word, alive=alive), width)
    assert word in text
    assert "400" in text
    assert "4.003" in text, "the EMA of the last step, 4 + 1/400, rounded"
    assert text.rstrip().removesuffix(" of 100").endswith(" 20")


def test_more_words_where_there_is_room() -> None:
    store = full()
    assert line(store, 80).startswith("runs/120m  ● training  step 400  loss EMA 4.003  score 20 of 100")
    assert line(store, 50).startswith("● training  step 400  EMA 4.003  score 20")
    assert line(store, 34).startswith("● training 400 EMA 4.003 score 20")
    assert line(store, 12).startswith("● 400 4.003 ")
    assert "watching" in line(store, 80, "watching")


def test_what_is_unknown_is_no_number() -> None:
    text = line(Store(), 80)
    assert "loss EMA –" in text
    assert "score – of 100" in text


@pytest.mark.parametrize("size", [(120, 15), (59, 24), (40, 10), (20, 5)])
async def test_in_the_console(size: tuple[int, int], tmp_path) -> None:  # type: ignore[no-untyped-def]
    with situation("stopped", tmp_path / "run") as directory:
        async with console(directory, size) as running:
            running.dashboard.redraw()
            await running.settle()
            first = running.lines[0]
            for words in ("40", "4.100", "87"):
                assert words in first, first
            running.assert_sound()
