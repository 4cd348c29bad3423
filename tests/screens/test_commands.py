"""The one table of commands: keys, help, README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from andrea_engine.run.condition import Condition
from andrea_tui.commands import COMMANDS, Situation, key_table
from andrea_tui.feed.store import Store

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_readme_has_this_key_table() -> None:
    found = re.search(r"<!-- keys -->\n(.*?)\n<!-- /keys -->", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, "README.md has no table between <!-- keys --> and <!-- /keys -->"
    assert found[1].strip() == key_table()


def test_every_key_and_id_is_there_once() -> None:
    keys = [key for command in COMMANDS for key in command.keys]
    assert len(keys) == len(set(keys))
    assert len({command.id for command in COMMANDS}) == len(COMMANDS)
    assert {"escape", "ctrl+q", "ctrl+c", "enter"} & set(keys) == set()
    assert all(command.help.endswith(".") for command in COMMANDS)


@pytest.mark.parametrize(
    "read_only", ["", "this console only watches (--watch)", "another console (pid 7) is in charge"]
)
@pytest.mark.parametrize("alive", [True, False])
def test_a_console_that_may_not_act_offers_nothing_that_acts(read_only: str, alive: bool) -> None:
    store = Store()
    store.condition = Condition("training" if alive else "stopped", alive=alive, sentence="")
    possible = {c.id for c in COMMANDS if not c.reason(Situation(store, read_only))}
    acting = {"checkpoint", "resume", "override", "rollback", "pivot"}
    if read_only:
        assert possible & acting == set()
        assert ("take_over" in possible) == read_only.startswith("another")
        assert ("stop" in possible) == (not alive), "closing the console is always possible"
    assert "detach" in possible
