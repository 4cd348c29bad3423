"""A console that runs: with every screen opened once, neither PyTorch nor NumPy has been loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.conftest import TrainedRun

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from andrea_engine.run.directory import RunDirectory
from andrea_tui.app import AndreaApp
from andrea_tui.commands import COMMANDS

async def main():
    app = AndreaApp(RunDirectory(Path(sys.argv[1])), watch=True)
    screens = set()
    async with app.run_test(size=(120, 40)) as pilot:
        while not app.store.version:
            await asyncio.sleep(0.01)
        for command in sorted(COMMANDS, key=lambda command: command.id == "runs"):  # that one leaves the run
            if command.group == "Control" or not command.keys:
                continue
            app.simulate_key(command.keys[0])
            await pilot.pause(0)
            screens.add(type(app.screen).__name__)
            while len(app.screen_stack) > 1:
                app.simulate_key("escape")
                await pilot.pause(0)
    return sorted(screens), app.store.step

screens, step = asyncio.run(main())
print(json.dumps({"screens": screens, "step": step, "modules": sorted({name.split(".")[0] for name in sys.modules})}))
"""


def test_a_running_console_loads_neither_torch_nor_numpy(trained: TrainedRun) -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(trained.directory.path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["step"] == trained.steps, "it had read the run"
    opened = {"DashboardScreen", "HelpScreen", "CommandPalette", "CheckpointsScreen", "RunsScreen"}
    assert opened <= set(found["screens"])
    assert {"textual", "msgspec"} <= set(found["modules"])
    assert {"torch", "numpy", "wordfreq"} & set(found["modules"]) == set()
