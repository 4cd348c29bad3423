"""All facts of a run in one value, from good, foreign and damaged directories."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from andrea_engine.run.check import check
from andrea_engine.run.config import create_run, load_config
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog
from andrea_engine.run.heartbeat import Gpu, LastSave, Telemetry, write_heartbeat
from andrea_engine.run.samples import Sample, StoredScores, write_samples
from andrea_engine.run.state import write_state
from andrea_engine.run.summary import Summary, summarise
from andrea_engine.run.summary_text import render

from .helpers import array_text, beat, entry, fake_engine, put_checkpoint, strict

TINY: dict[str, object] = {
    "model": {"d_model": 1, "heads": 1, "layers": 1, "context": 2},
    "tokenizer": {"segments": 1},
}
COUNT = 2 * 258 + 2 + 12


def look(directory: RunDirectory) -> Summary:
    """Summarise, and hold the two ways it is shown to their promises."""
    summary = summarise(directory)
    strict(msgspec.json.encode(summary))
    text = render(summary)
    assert not [c for c in text if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0]
    text.encode()
    return summary


@pytest.fixture
def good(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path / "120m")
    create_run(directory, "demo", TINY, None)
    put_checkpoint(directory.path, 100, COUNT)
    directory.loss.write_bytes(array_text(entry(step) for step in range(1, 101)))
    directory.journal.write_bytes(b"".join(entry(step).to_line() + b"\n" for step in range(101, 106)))
    log = EventLog(directory.events, 1)
    log.append("save_durable", at=1000.0, step=100, bytes=6368, seconds=0.5, reason="operator", pinned=True)
    log.append("sample", step=100, consecutive_low=2)
    scores = StoredScores(bigram=35.0, trigram=30.0, english=20.0, character=5.0, total=90.0)
    write_samples(directory.samples, [Sample(step=100, text="a small\nred boat", scores=scores)])
    write_state(directory.state, {"arms": {"chat": {"pulls": 5, "share": 0.25, "weight": 1.0, "held_by": "floor"}}})
    return directory


def test_a_good_run(good: RunDirectory) -> None:
    s = look(good)
    assert (s.state, s.alive, s.preset, s.n_params) == ("stopped", False, "demo", COUNT)
    assert (s.step, s.entries, s.first_loss, s.loss) == (105, 105, 9.0 - 0.001, 9.0 - 0.105)
    assert (s.samples, s.gate_low_in_row, s.gate_threshold, s.gate_consecutive) == (1, 2, 30.0, 5)
    assert [(c.file, c.pinned, c.problem) for c in s.checkpoints] == [("step_000100.bin", True, None)]
    assert s.last_save == LastSave(step=100, bytes=6368, seconds=0.5, time=1000.0, reason="operator")
    assert (s.power_w, s.energy_kwh, s.telemetry) == (None, None, None)
    assert s.arms[0]["name"] == "chat"
    assert s.problems == []
    text = render(s)
    assert "step        105 of 5,000" in text
    assert "power       unknown, energy unknown" in text
    assert "sample      step 100: 90.0 of 100 (bigram 35.0, trigram 30.0, English 20.0, characters 5.0)" in text
    assert "gate 2 of 5 below 30" in text
    assert "            a small red boat" in text
    assert "checkpoints 1 valid" in text
    assert "saved       step 100 (6.37 kB, 0.5 s)" in text


def test_after_a_pivot_it_says_since_when_there_is_no_sample(good: RunDirectory) -> None:
    archive = good.archive / "pivot-0001-step-000100"
    archive.mkdir(parents=True)
    (archive / "receipt.json").write_text("{}")
    good.samples.rename(archive / good.samples.name)
    assert "sample      none since the last pivot" in render(look(good))
    EventLog(good.events, 2).append("pivot", step=1100)
    assert "sample      none since the pivot at step 1,100" in render(look(good))


def test_a_living_engine(good: RunDirectory) -> None:
    with fake_engine(good) as process:
        live = beat(
            process.pid,
            step=107,
            step_seconds=0.5,
            tokens_per_second=1000.0,
            eta_seconds=12_000.0,
            telemetry=Telemetry(gpu_problem="no NVIDIA GPU"),
        )
        write_heartbeat(good.heartbeat, live)
        s = look(good)
        assert (s.state, s.alive, s.pid, s.step) == ("stalled", True, process.pid, 107)  # its times are of 1970
        assert s.steps_per_minute == 120.0
        assert "120.0 steps/min, 1,000 tokens/s, ETA 3 h 20 min" in render(s)
        assert "power       unknown (no NVIDIA GPU)" in render(s)
    assert look(good).steps_per_minute is None  # what an ended engine said about its speed is past


def test_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for name in ("missing", "file", "empty"):
        s = look(RunDirectory(tmp_path / name))
        assert (s.state, s.step, s.entries, s.loss, s.sample) == ("missing", 0, 0, None, None)


def test_a_run_of_the_original(run: RunDirectory) -> None:
    (run.path / "andrea.loss.json").write_text(json.dumps([[1, 9.04], [2, 8.5]]))
    (run.path / "andrea.samples.json").write_text(json.dumps([{"step": 2, "text": "region region"}]))
    put_checkpoint(run.path, 2)
    s = look(run)
    assert (s.state, s.step, s.entries, s.first_loss, s.loss, s.samples) == ("recorded", 2, 2, 9.04, 8.5, 1)
    assert "step 2: not scored" in render(s)


def test_losses_that_are_not_finite_are_counted(good: RunDirectory) -> None:
    good.loss.write_text('[\n{"step": 1, "loss": NaN},\n{"step": 2, "loss": 3.5},\n{"step": 3, "loss": 1e999}\n]\n')
    good.journal.unlink()
    s = look(good)
    assert (s.nonfinite_steps, s.first_loss, s.loss, s.step) == (2, 3.5, None, 3)
    assert "not finite  2 step(s)" in render(s)
    assert "loss        unknown" in render(s)


def test_a_missing_power_reading_is_unknown_and_never_zero(good: RunDirectory) -> None:
    good.loss.write_text('[\n{"step": 1, "loss": 3.5, "power_w": 0.0, "energy_j": 7200000.0}\n]\n')
    good.journal.unlink()
    assert "power       0 W, 2.000 kWh so far" in render(look(good))
    good.loss.write_text('[\n{"step": 1, "loss": 3.5, "power_w": null, "energy_j": null}\n]\n')
    assert "power       unknown, energy unknown" in render(look(good))


def test_energy_with_its_quality_and_its_price(good: RunDirectory) -> None:
    """2 kWh over the ten steps between the first reading and the last, in a run of so many tokens a step."""
    entries = [{"step": step, "loss": 3.5, "energy_j": joules} for step, joules in ((1, 0), (11, 7_200_000))]
    good.loss.write_text(json.dumps(entries))
    good.journal.unlink()
    good.config.write_text(good.config.read_text() + '\n[power]\nprice_per_kwh = 0.25\ncurrency = "EUR"\n')
    tokens = 10 * load_config(good).tokens_per_step
    s = look(good)
    assert (s.energy_kwh, s.cost, s.currency) == (2.0, 0.5, "EUR")
    assert s.joules_per_token == pytest.approx(7_200_000 / tokens)
    assert (s.energy_complete, s.energy_estimated) == (None, None)
    assert "2.000 kWh so far, " in render(s)
    assert "J/token, 0.50 EUR" in render(s)
    for complete, estimated, words in (
        (True, False, "unknown, 2.000 kWh so far,"),
        (False, False, "unknown, at least 2.000 kWh so far,"),
        (True, True, "unknown, 2.000 kWh so far (estimated),"),
    ):
        EventLog(good.events, 1).append("energy", complete=complete, estimated=estimated)
        s = look(good)
        assert (s.energy_complete, s.energy_estimated) == (complete, estimated)
        assert words in render(s)


def test_a_run_without_a_price_has_no_cost(good: RunDirectory) -> None:
    good.loss.write_text('[\n{"step": 1, "loss": 3.5, "energy_j": 7200000.0}\n]\n')
    good.journal.unlink()
    s = look(good)
    assert (s.cost, s.currency, s.joules_per_token) == (None, "", None)


NAMES = [
    "run.toml",
    ".loss.json",
    ".loss.journal.jsonl",
    ".samples.json",
    ".state.json",
    "events.jsonl",
    "engine.json",
    "engine.lock",
    "step_000100.bin",
    "pivot.json",
    "run.lock.json",
]
HOSTILE = "\\u001b[2J\\u009b31m\\ud800\\u202e[/INST]"
CONTENTS: dict[str, bytes | Callable[[Path], object]] = {
    "empty": b"",
    "garbage": b"garbage \x1b[2J\x9b",
    "zeros": b"\x00" * 4096,
    "not-utf8": b"\xff\xfe\xfd",
    "null": b"null",
    "number": b"9" * 5000,
    "array": b"[]",
    "object": b"{}",
    "deep": b"[" * 100_000,
    "deep-object": b'[{"step": 1, "text": "a", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]\n",
    "huge-numbers": b'{"step": ' + b"9" * 400 + b', "time": 1e999, "kind": "save_durable", "bytes": 1e300}\n',
    "hostile": (
        f'{{"step": 7, "loss": 1, "source": "{HOSTILE}", "text": "{HOSTILE}", "time": 1, "kind": "sample {HOSTILE}",'
        f' "arms": {{"{HOSTILE}": {{"held_by": "{HOSTILE}", "pulls": {"9" * 300}, "reason": "{HOSTILE}"}}}},'
        f' "focus": {{"arms": [1], "until": 1e400}}}}\n'
    ).encode(),
    "hostile-array": f'[{{"step": 7, "loss": "{HOSTILE}", "text": "{HOSTILE}", "source": "{HOSTILE}"}}]'.encode(),
    "folder": lambda path: path.mkdir(),
    "fifo": os.mkfifo,
    "loop": lambda path: path.symlink_to(path.name),
    "device": lambda path: path.symlink_to("/dev/zero"),
}


def put(path: Path, content: bytes | Callable[[Path], object]) -> None:
    path.unlink(missing_ok=True)
    if callable(content):
        content(path)
    else:
        path.write_bytes(content)


@pytest.mark.parametrize("content", CONTENTS)
def test_no_content_of_any_file_raises_or_reaches_the_terminal(good: RunDirectory, content: str) -> None:
    for name in NAMES:
        before = (good.path / name).read_bytes() if (good.path / name).exists() else b""
        put(good.path / name, CONTENTS[content])
        look(good)
        check(good)
        if (good.path / name).is_dir() and not (good.path / name).is_symlink():
            (good.path / name).rmdir()
        put(good.path / name, before)
    for name in NAMES:
        put(good.path / name, CONTENTS[content])
    look(good)
    check(good)


def test_hostile_words_of_a_heartbeat(good: RunDirectory) -> None:
    word = "\x1b[2J\x9b31m\u202e"
    telemetry = Telemetry(gpu_problem=word, gpus=[Gpu(uuid=word, name=word)])
    curriculum = {"arms": {word: {"held_by": word, "available": True}}}
    write_heartbeat(
        good.heartbeat, beat(host=word, phase=word, note=word, device=word, telemetry=telemetry, curriculum=curriculum)
    )
    look(good)
    with fake_engine(good) as process:
        write_heartbeat(
            good.heartbeat,
            beat(process.pid, phase=word, phase_since=1e300, device=word, telemetry=telemetry, curriculum=curriculum),
        )
        assert look(good).state == word


def test_a_foreign_name_that_is_not_utf8(run: RunDirectory) -> None:
    (run.path / os.fsdecode(b"\xff.loss.json")).write_bytes(b"not json")
    (run.path / os.fsdecode(b"\xff.samples.json")).write_bytes(b"not json")
    assert len(look(run).problems) == 2
