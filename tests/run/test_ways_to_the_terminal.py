"""Whatever is printed without a screen: each line of the status, and the errors of both programs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from andrea_engine.run.heartbeat import Telemetry
from andrea_engine.run.samples import Sample
from andrea_engine.run.summary import CheckpointFact, summarise
from andrea_engine.run.summary_text import render
from andrea_tui.cli import run as andrea_tui
from tests.run import pivot_support as support
from tests.support.inprocess import andrea_engine
from tests.widgets.test_rows import harmless

EVIL = "\x1b]0;x\x07\x9b2J\u202e\x7f"
SHOWN = "␛]0;x␇<U+009B>2J<U+202E>␡"


def test_every_line_of_the_status(tmp_path: Path) -> None:
    """`andrea-engine status` and `andrea-tui --once`, with every word in it hostile."""
    arm = {"name": EVIL, "held_by": EVIL, "available": True, "share": None, "weight": None, "pulls": None}
    facts = {
        **dict.fromkeys(("run", "state", "sentence", "advice", "device", "currency"), EVIL),
        "n_params": 1,
        "power_w": None,
        "energy_kwh": 1.0,
        "cost": 1.0,
        "telemetry": Telemetry(gpu_problem=EVIL),
        "sample": Sample(step=40, text=EVIL),
        "alarms": [EVIL],
        "arms": [arm, {**arm, "available": False, "reason": EVIL}],
        "checkpoints": [CheckpointFact(file=EVIL, step=40, bytes=1, pinned=False, problem=EVIL)],
        "problems": [EVIL],
    }
    text = render(msgspec.structs.replace(summarise(support.build(tmp_path / "run")), **facts))
    assert [line for line in text.split("\n") if not harmless(line)] == []
    assert text.count(SHOWN) == 6 + len(("gpu", "sample", "alarms", "problems")) + 2 * len(("arm", "arm", "checkpoint"))


@pytest.mark.parametrize("program", ["andrea-engine", "andrea-tui"])
def test_errors_of_commands(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / EVIL.replace("/", "")
    if program == "andrea-engine":
        result = andrea_engine("status", path)
        code, said = result.code, result.err
    else:
        path.write_text("a file and no run")
        code, said = andrea_tui([str(path), "--once"]), capsys.readouterr().err
    assert code == 2
    assert said.startswith(f"{program}: ")
    assert SHOWN in said
    assert said.count("\n") == 1
    assert harmless(said.removesuffix("\n"))
