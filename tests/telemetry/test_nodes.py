"""Power and energy of a run on several machines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from andrea_engine.run.energy_facts import EnergyQuality
from andrea_engine.run.heartbeat import Gpu, Telemetry
from andrea_engine.telemetry.energy import EnergyMeter
from andrea_engine.telemetry.nodes import NodeReading, Nodes


def gpu(uuid: str, watts: float) -> Gpu:
    return Gpu(uuid=uuid, name="GPU", index=0, used=True, power_w=watts)


def monitor(joules: float | None, watts: float | None, telemetry: Telemetry | None = None, **quality: bool) -> Any:
    return SimpleNamespace(
        energy=EnergyMeter(joules, **quality), power_w=watts, telemetry=telemetry or Telemetry(gpus=[gpu("a", 100.0)])
    )


def reading(joules: float | None, watts: float | None, **more: Any) -> NodeReading:
    return NodeReading(host="south", telemetry=Telemetry(gpus=[gpu("b", 50.0)]), joules=joules, power_w=watts, **more)


def test_one_machine_is_what_its_monitor_says() -> None:
    for joules, watts in ((None, None), (5.0, 100.0)):
        own = monitor(joules, watts)
        nodes = Nodes(own)
        assert (nodes.joules, nodes.power_w, nodes.telemetry) == (joules, watts, own.telemetry)
        assert nodes.quality == EnergyQuality(True, False)


def test_several_machines_add_up() -> None:
    nodes = Nodes(monitor(5.0, 100.0))
    nodes.others = [reading(2.0, 50.0), reading(1.0, 25.0)]
    assert (nodes.joules, nodes.power_w) == (8.0, 175.0)
    assert nodes.quality == EnergyQuality(True, False)
    assert [(one.uuid, one.host) for one in nodes.telemetry.gpus] == [("a", ""), ("b", "south"), ("b", "south")]


def test_what_one_machine_does_not_know_is_not_in_the_sum_and_the_sum_says_so() -> None:
    nodes = Nodes(monitor(5.0, 100.0))
    nodes.others = [reading(None, None)]
    assert (nodes.joules, nodes.power_w) == (5.0, None)
    assert nodes.quality == EnergyQuality(False, False)
    nodes.others = [reading(1.0, 1.0, complete=False, estimated=True)]
    assert nodes.quality == EnergyQuality(False, True)
    nodes = Nodes(monitor(None, None))
    nodes.others = [reading(3.0, 9.0)]
    assert (nodes.joules, nodes.power_w) == (3.0, None)


def test_a_run_on_processors_has_the_power_of_all_packages() -> None:
    nodes = Nodes(monitor(1.0, 60.0, Telemetry(counts_cpu=True, cpu_power_w=60.0)))
    nodes.others = [NodeReading(host="south", telemetry=Telemetry(counts_cpu=True), joules=1.0, power_w=40.0)]
    assert nodes.telemetry.cpu_power_w == 100.0
