"""How the energy of a run was measured is written down once, and carried from session to session."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from andrea_engine.run.energy_facts import EnergyQuality, last_quality
from andrea_engine.run.events import EventLog, read_events
from andrea_engine.run.loss_entry import make_entry
from andrea_engine.telemetry.energy import EnergyMeter
from andrea_engine.telemetry.monitor import Monitor
from andrea_engine.telemetry.nodes import Nodes
from andrea_engine.train.resume import _monitor
from andrea_engine.train.trainer import Trainer

CPU: Any = SimpleNamespace(is_cuda=False, device=torch.device("cpu"))


def test_each_change_is_an_event(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl", 1)
    meter = EnergyMeter()
    trainer = cast(
        Trainer,
        SimpleNamespace(
            nodes=Nodes(cast(Monitor, SimpleNamespace(energy=meter))),
            context=SimpleNamespace(events=log),
            _energy_quality=EnergyQuality(),
        ),
    )

    def at(second: float, watts: float | None, counter: float | None = None) -> None:
        meter.add(second, watts, None if counter is None else {"a": counter})
        Trainer._note_energy(trainer)

    at(0.0, 100.0, 0.0)  # no difference yet: nothing is known
    at(1.0, 100.0, 100.0)
    at(2.0, 100.0, 200.0)
    at(3.0, None)
    at(4.0, 100.0, 400.0)  # the counter knew all the time
    at(5.0, 100.0)
    at(6.0, 100.0)
    facts = [(event.facts["complete"], event.facts["estimated"]) for event in read_events(log.path)]
    assert facts == [(True, False), (False, False), (True, False), (True, True)]


@pytest.mark.parametrize(
    ("written", "complete", "estimated"),
    [
        (None, True, True),  # a record from before there were such events
        ((True, False), True, False),
        ((False, True), False, True),
    ],
)
def test_the_next_session_goes_on_with_it(
    written: tuple[bool, bool] | None, complete: bool, estimated: bool, tmp_path: Path
) -> None:
    log = EventLog(tmp_path / "events.jsonl", 1)
    if written is not None:
        log.append("energy", complete=written[0], estimated=written[1])
    entries = [make_entry(step=1, loss=3.0, ema=3.0, energy_j=500.0), make_entry(step=2, loss=3.0, ema=3.0)]
    monitor = _monitor(read_events(log.path), entries, CPU)
    energy = monitor.energy
    assert (energy.joules, energy.complete, energy.estimated) == (500.0, complete, estimated)
    assert monitor.counts_cpu
    assert monitor.counted_uuids == frozenset()


def test_a_run_that_measured_nothing_yet_begins_clean() -> None:
    energy = _monitor([], [], CPU).energy
    assert (energy.joules, energy.complete, energy.estimated) == (None, True, False)
    assert last_quality([]) == EnergyQuality(None, None)
