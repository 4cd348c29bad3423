"""A small stopped run, made without an engine, and what a finished pivot of it has to look like."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path

from andrea_engine.run.check import check
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog, read_events
from andrea_engine.run.intent import PivotIntent, write_intent
from andrea_engine.run.io import remove_stale_temporaries
from andrea_engine.run.policy import parse_policy
from andrea_engine.run.receipt import read_receipt
from tests.run import helpers

STEP = 40
N_PARAMS = 2 * 258 * 2 + 2 * 2 + 12 * 2**2  # of the model below
CONFIG = """\
# The run of the pivot tests.
seed = 3

[model]
d_model = 2
layers = 1
heads = 1
context = 2

[tokenizer]
segments = 1

[checkpoint]
every = 10   # the cadence

[sample]
every = 10

[policy.floors]
chat = 0.5  # an old floor

[policy.warmup]
steps = 20
sources = ["chat"]

# What is read.
[[sources]]
name = "chat"
kind = "text"
path = "chat.txt"

[[sources]]
name = "irc"
kind = "text"
path = "irc.txt"
"""
NEW_POLICY = """\
[floors]
irc = 0.9
[caps]
chat = 0.25
[bandit]
c = 50.0
"""
SAMPLES = b'[\n{"step":30,"text":"so it was"},\n{"step":40,"text":"and so it is"}\n]\n'
STATE = b'{"version":1,"step":40,"generation":0,"arms":{"chat":{"pulls":40,"weight":1.546}}}\n'


def build(path: Path) -> RunDirectory:
    """A run that was stopped at step 40."""
    path.mkdir(parents=True)
    directory = RunDirectory(path)
    directory.config.write_text(CONFIG)
    directory.loss.write_bytes(helpers.array_text(helpers.entry(step) for step in range(1, STEP + 1)))
    directory.journal.write_bytes(b"")
    directory.samples.write_bytes(SAMPLES)
    directory.state.write_bytes(STATE)
    events = EventLog(directory.events, 1)
    events.append("start", pid=1)
    for step in (30, STEP):
        file = helpers.put_checkpoint(path, step, N_PARAMS, seed=step / 100)
        events.append("save_durable", step=step, sha256=sha256(file.read_bytes()), pinned=False)
    return directory


def pending(directory: RunDirectory, step: int = STEP, **fields: object) -> PivotIntent:
    """An intent as the engine leaves it behind when it has saved `step`."""
    values: dict[str, object] = {
        "id": "0123456789abcdef",
        "generation": 1,
        "at": "boundary",
        "step": step,
        "archive": f"archive/pivot-0001-step-{step:06d}",
        "policy": NEW_POLICY,
        "asked": 1000.0,
        "asked_by": "somebody@somewhere (a test)",
        "restart": True,
        "phase": "reached",
        "reached": 1001.0,
    }
    intent = PivotIntent(**(values | fields))  # type: ignore[arg-type]
    write_intent(directory, intent)
    return intent


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def regions(path: Path) -> list[str]:
    """SHA-256 of weights, m and v of a checkpoint file."""
    body = path.read_bytes()[8:]
    size = len(body) // 3
    return [sha256(body[at : at + size]) for at in range(0, len(body), size)]


def untouched(directory: RunDirectory, before: dict[str, bytes]) -> None:
    """Nothing that a pivot would change has changed, and no pivot is under way."""
    assert {name: (directory.path / name).read_bytes() for name in before} == before
    assert not directory.pivot_intent.exists()
    assert directory.archives() == []


def contents(directory: RunDirectory) -> dict[str, bytes]:
    """What counts in a run directory, by name."""
    names = (".loss.json", ".samples.json", ".state.json", "run.toml", "step_000030.bin", "step_000040.bin")
    return {name: (directory.path / name).read_bytes() for name in names}


def safe(directory: RunDirectory, before: dict[str, bytes], archive: str = "pivot-0001-step-000040") -> None:
    """At any moment: record and checkpoints untouched, samples and state where they were or in the archive."""
    for name in (".loss.json", "step_000030.bin", "step_000040.bin"):
        assert (directory.path / name).read_bytes() == before[name], name
    for name in (".samples.json", ".state.json"):
        places = [directory.path / name, directory.archive / archive / name]
        assert before[name] in [place.read_bytes() for place in places if place.exists()], name
    tomllib.loads(directory.config.read_text())


def carried_out(directory: RunDirectory, before: dict[str, bytes], archive: str = "pivot-0001-step-000040") -> None:
    """The pivot is complete in every part, and nothing is left of its making."""
    safe(directory, before, archive)
    remove_stale_temporaries(directory.path, lambda pid: False)  # as every start of the engine does
    assert sorted(path.name for path in directory.path.rglob("*.tmp")) == []
    assert not directory.pivot_intent.exists()
    place = directory.archive / archive
    assert sorted(path.name for path in place.iterdir()) == [
        ".samples.json",
        ".state.json",
        "policy.toml",
        "receipt.json",
    ]
    assert (place / ".samples.json").read_bytes() == before[".samples.json"]
    assert (place / ".state.json").read_bytes() == before[".state.json"]
    old = tomllib.loads(before["run.toml"].decode())
    new = tomllib.loads(directory.config.read_text())
    assert parse_policy((place / "policy.toml").read_text(), "") == parse_policy(_policy(old), "")
    assert parse_policy(_policy(new), "") == parse_policy(NEW_POLICY, "")
    assert {**new, "policy": None} == {**old, "policy": None}
    assert json.loads(directory.samples.read_bytes()) == []
    receipt = read_receipt(place / "receipt.json")
    state = json.loads(directory.state.read_bytes())
    assert (state["arms"], state["step"], state["generation"], state["pivot"]) == ({}, STEP, 1, receipt.id)
    assert (receipt.problem, receipt.step, receipt.first_step) == (None, STEP, STEP + 1)
    assert directory.policy_generation() == 1
    report = check(directory)
    assert report.ok, [finding for finding in report.findings if finding.severity == "problem"]


def pivot_events(directory: RunDirectory) -> int:
    return sum(1 for event in read_events(directory.events) if event.kind == "pivot")


def _policy(config: dict[str, object]) -> str:
    import tomli_w

    policy = config["policy"]
    assert isinstance(policy, dict)
    return tomli_w.dumps(policy)
