"""`n`: the processes of a run, and what is said of a run that has one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from andrea_engine.run.heartbeat import Gpu, Telemetry, write_heartbeat
from andrea_engine.run.rank_facts import Rank
from tests.screens.conftest import Acts, Console, console
from tests.screens.situations import beat, situation
from tests.widgets.stores import HOSTILE
from tests.widgets.test_rows import harmless

SIZES = [(60, 20), (80, 24), (120, 40)]


def ranks(count: int, *, slow: int | None = None, host: str = "north", device: str = "CPU") -> list[Rank]:
    return [
        Rank(
            rank=n,
            host=f"{host}{n // 8}",
            pid=4000 + n,
            device=device,
            step_seconds=3.9 if n == slow else 2.6,
            tokens_per_second=100.0,
        )
        for n in range(count)
    ]


async def shows(running: Console, *texts: str) -> None:
    await running.until(lambda: all(text in running.text for text in texts), f"{texts} are there")


@pytest.mark.parametrize("size", SIZES)
async def test_each_rank_has_a_row_and_the_slow_one_is_named(size: tuple[int, int], tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        write_heartbeat(directory.heartbeat, beat("training", ranks=ranks(3, slow=1)))
        async with console(directory, size) as running:
            await shows(running, "rank 1 is slow: 1.5 x the time of the others")
            await running.press("n")
            await shows(
                running, "rank 1 on north0 needs 1.5 x the time of the others", "4000", "4001", "4002", "3.900 s"
            )
            write_heartbeat(directory.heartbeat, beat("training", ranks=ranks(3)))
            await shows(running, "all are about as fast", "2.600 s     86 %")
            await running.press("escape")
            await running.until(lambda: running.open == "DashboardScreen", "back")
    assert acts.none


async def test_more_ranks_than_rows_are_scrolled(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        write_heartbeat(directory.heartbeat, beat("training", ranks=ranks(64)))
        async with console(directory, (80, 24)) as running:
            await running.press("n")
            await shows(running, "ranks  64 on 8 machines", "4000")
            assert "4063" not in running.text
            await running.press("end")
            await shows(running, "4063", "north7")


async def test_one_process_has_no_table_and_says_what_gives_it_more(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        async with console(directory, (120, 40)) as running:
            await running.press("n")
            assert any("one process trains this run; nproc in run.toml gives" in said for said in running.notices)
            assert running.open == "DashboardScreen"


async def test_what_a_heartbeat_claims_is_shown_and_not_obeyed(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        telemetry = Telemetry(gpus=[Gpu(uuid="a", name=HOSTILE, host=HOSTILE, index=0, power_w=5.0)])
        claimed = beat("training", ranks=ranks(2, slow=0, host=HOSTILE, device=HOSTILE), telemetry=telemetry)
        write_heartbeat(directory.heartbeat, msgspec.structs.replace(claimed, agent=2**62))
        async with console(directory, (80, 24)) as running:
            await running.press("n")
            await shows(running, "ranks  2")
            assert all(harmless(line) for line in running.lines)


async def test_the_powers_of_all_machines_stand_in_one_panel(tmp_path: Path, acts: Acts) -> None:
    with situation("training", tmp_path / "run") as directory:
        gpus = [
            Gpu(uuid=f"{host}{n}", name="H200", host=host, index=n, used=True, power_w=100.0 + n, limit_w=700.0)
            for host in ("", "south.example.org")
            for n in (0, 1)
        ]
        write_heartbeat(directory.heartbeat, beat("training", telemetry=Telemetry(time=1.0, gpus=gpus)))
        async with console(directory, (200, 50)) as running:
            await shows(running, "402 W of 2800 W  4 GPUs", "south GPU 0", "south GPU 1")
