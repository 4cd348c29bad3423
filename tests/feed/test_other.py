"""A second run read beside the first: whatever it is, and while it grows."""

from __future__ import annotations

import json
from pathlib import Path

from andrea_engine.run.directory import RunDirectory
from andrea_tui.feed.store import Store
from andrea_tui.feed.tailer import DirectoryReader
from tests.feed.writer import entry
from tests.support.tiny import make_run


class Pair:
    """A reader of a run and of another one beside it, and the store that they fill."""

    def __init__(self, path: Path, other: RunDirectory) -> None:
        self.reader = DirectoryReader(RunDirectory(path), other)
        self.store = Store()

    def poll(self) -> None:
        self.store.apply(self.reader.poll())


def record(path: Path, steps: range) -> None:
    path.write_bytes(b"[\n" + b",\n".join(entry(step, ema=2.5, seconds=3.0).to_line() for step in steps) + b"\n]\n")


def test_the_other_run_is_read_and_followed_while_it_grows(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    other = make_run(tmp_path / "other")
    record(other.loss, range(1, 11))
    other.journal.write_bytes(entry(11).to_line() + b"\n")
    events = [{"time": 100.0, "kind": "resumed", "session": 1, "step": 0}, {"time": 7.0, "kind": "x", "session": 1}]
    other.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    pair = Pair(tmp_path / "one", other)
    pair.poll()
    assert pair.store.other is not None
    found = pair.store.other.record
    assert (pair.store.other.name, pair.store.other.complete, len(found)) == ("other", True, 11)
    assert found.tokens_per_step is not None
    assert found.clock.steps == [0]
    assert not len(pair.store.loss)
    assert pair.reader.poll().other is None, "nothing new"
    record(other.loss, range(1, 15))
    pair.poll()
    assert len(found) == 14
    record(other.loss, range(1, 4))
    other.journal.unlink()
    pair.poll()
    assert len(found) == 3
    assert any("other: .loss.json got shorter" in problem for problem in pair.store.problems)


def test_a_foreign_an_empty_and_a_damaged_run(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "model.loss.json").write_text(json.dumps([[s, 9.0 - s / 100] for s in range(1, 100)]))
    pair = Pair(tmp_path / "one", RunDirectory(foreign))
    pair.poll()
    assert pair.store.other is not None
    assert len(pair.store.other.record) == 99
    assert pair.store.other.record.tokens_per_step is None

    pair = Pair(tmp_path / "one", make_run(tmp_path / "young"))
    pair.poll()
    assert pair.store.other is not None
    assert (len(pair.store.other.record), pair.store.other.complete) == (0, True)

    damaged = make_run(tmp_path / "damaged")
    damaged.loss.write_bytes(b'[\n{"step": 1, "loss": 2.0},\n{"step": rubbish},\n{"step": 3, "loss": 1.0}\n]\n')
    damaged.config.write_text("this is = not = toml")
    pair = Pair(tmp_path / "one", damaged)
    pair.poll()
    assert pair.store.other is not None
    assert len(pair.store.other.record) == 2
    assert any("damaged: .loss.json: 1 unreadable line(s)" in problem for problem in pair.store.problems)
