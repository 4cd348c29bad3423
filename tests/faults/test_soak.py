"""The long loops, a few trials of each: they run here, report what they found, and a broken promise is found again."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from andrea_engine.run import checkpoint
from andrea_engine.run.config import parse_config
from andrea_engine.run.errors import ConfigError
from andrea_engine.run.policy import parse_policy
from andrea_engine.run.summary import summarise
from andrea_engine.run.summary_text import as_json
from tests.faults.soak import consoles, shared, single_fault
from tests.faults.soak.__main__ import main
from tests.faults.soak.kinds import KINDS, Kind
from tests.faults.soak.mutation import mutate
from tests.faults.soak.runner import run, run_seeds
from tests.support.records import refuse
from tests.support.tiny import make_run

FEW = {"record_kill": 3, "power_cut": 1, "malformed_checkpoint": 60, "malformed_json": 60, "hostile_sample": 5}


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    """Nursery and engine of the trials end with the tests."""
    yield
    shared.close()


@pytest.mark.parametrize("name", KINDS)
def test_a_few_trials_of_each_kind(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consoles, "ADOPTION_SECONDS", 60.0)  # `make soak` measures it; here the machine is shared
    report = tmp_path / "report.json"
    code = main(["--only", name, "--trials", str(FEW.get(name, 1)), "--workers", "1", "--report", str(report)])
    found = json.loads(report.read_text())
    kind = found["kinds"][name]
    assert set(kind) == {"trials", "failures", "seconds", "date", "failed_seeds", "skipped"}
    assert (code, kind["failures"], kind["failed_seeds"], found["failures"]) == (0, 0, [], 0)
    assert kind["trials"] == (FEW.get(name, 1) if kind["skipped"] is None else 0)


def test_every_count_follows_the_scale() -> None:
    assert KINDS["single_fault"].count == len(single_fault.ENUMERATIONS)
    report = run([KINDS["malformed_json"], KINDS["single_fault"]], scale=0.0005)
    assert [kind["trials"] for kind in _kinds(report).values()] == [10, 1]
    assert (report["format"], report["scale"], report["failures"]) == (1, 0.0005, 0)
    machine = report["machine"]
    assert isinstance(machine, dict)
    assert not any(isinstance(fact, str) and "/" in fact for fact in machine.values()), "no paths"


def test_a_broken_promise_is_reported_with_its_seed_and_found_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stand-in that believes every checkpoint of the right size, whatever its digest."""
    name, report = "malformed_checkpoint", tmp_path / "report.json"
    with monkeypatch.context() as broken:
        broken.setattr(checkpoint, "digest_problem", lambda path, known: None)
        assert main(["--only", name, "--trials", "40", "--seed", "5", "--workers", "1", "--report", str(report)]) == 1
        found = json.loads(report.read_text())
        seeds = found["kinds"][name]["failed_seeds"]
        assert 0 < len(seeds) == found["failures"] < 40
        assert set(seeds) <= set(range(5, 45))
        capsys.readouterr()
        assert main(["--only", name, "--seed", str(seeds[0]), "--trials", "1", "--report", str(report)]) == 1
        assert json.loads(report.read_text())["kinds"][name]["failed_seeds"] == seeds[:1]
        told = capsys.readouterr().err
        assert f"--only {name} --seed {seeds[0]} --trials 1" in told
        assert "was chosen instead of" in told
    assert [sentence for _, sentence in run_seeds(KINDS[name], seeds)] == [None] * len(seeds)


def test_what_cannot_be_tried_here_is_skipped_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kind, "reason", lambda kind: "there is no disk here")
    report = run([KINDS["power_cut"]])
    facts = _kinds(report)["power_cut"]
    assert facts.pop("date")
    assert facts == {
        "trials": 0,
        "failures": 0,
        "seconds": 0.0,
        "failed_seeds": [],
        "skipped": "there is no disk here",
    }


def test_a_report_grows_kind_by_kind_and_keeps_what_is_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    for name, trials in (("malformed_json", 6), ("hostile_sample", 3), ("malformed_json", 4)):
        assert main(["--only", name, "--trials", str(trials), "--workers", "1", "--report", str(path)]) == 0
    found = json.loads(path.read_text())
    assert {name: kind["trials"] for name, kind in found["kinds"].items()} == {"malformed_json": 4, "hostile_sample": 3}
    told: list[list[str]] = []
    run([KINDS["hostile_sample"], KINDS["malformed_json"]], trials=1, tell=lambda r: told.append(list(_kinds(r))))
    assert told == [["hostile_sample"], ["malformed_json", "hostile_sample"]]


def test_failures_of_kinds_that_are_kept_still_count() -> None:
    earlier = {"hang_up": {"trials": 9, "failures": 2}}
    assert run([KINDS["malformed_json"]], trials=1, earlier=earlier)["failures"] == 2


def test_trials_in_processes_of_their_own() -> None:
    report = run([KINDS["malformed_json"]], trials=9, workers=2)
    assert _kinds(report)["malformed_json"]["trials"] == 9
    assert report["failures"] == 0


def test_damage_follows_from_its_seed_and_does_not_repeat() -> None:
    text = b'{"step": 1, "loss": 2.5, "source": "chat", "list": [1, 2, 3]}\n' * 3
    once = [mutate(text, random.Random(seed)) for seed in range(200)]
    assert once == [mutate(text, random.Random(seed)) for seed in range(200)]
    assert len(set(once)) > 150


def test_a_number_of_thousands_of_digits_is_no_valid_toml() -> None:
    """Found by malformed_json."""
    for parse in (parse_config, parse_policy):
        with pytest.raises(ConfigError, match=r"run\.toml.* not valid TOML"):
            parse(f"seed = {'9' * 5000}", "run.toml")


def test_an_event_with_an_infinite_number_can_be_printed(tmp_path: Path) -> None:
    """Found by malformed_json."""
    directory = make_run(tmp_path / "run")
    directory.events.write_text('{"time": 1.0, "kind": "sample", "session": 1, "step": 10, "total": -1e999}\n')
    (event,) = json.loads(as_json(summarise(directory)), parse_constant=refuse)["events"]
    assert (event["step"], event["total"]) == (10, None)


def _kinds(report: dict[str, object]) -> dict[str, dict[str, object]]:
    kinds = report["kinds"]
    assert isinstance(kinds, dict)
    return kinds
