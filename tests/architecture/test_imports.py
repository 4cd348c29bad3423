"""The tree's promises about imports: who may load what, seen in fresh processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.conftest import TrainedRun
from tests.support.tiny import make_run

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "numpy", "textual", "rich", "psutil", "pynvml", "wordfreq", "datasets"}
REST_OF_ENGINE = {f"andrea_engine.{name}" for name in ("data", "model", "train", "telemetry", "commands")}

REPORT = """
import json, sys
before = set(sys.modules)
try:
    {code}
finally:
    print("\\n" + json.dumps(sorted(set(sys.modules) - before)))
"""


def _modules(*packages: str) -> list[str]:
    """Names of every module below the packages, from the files and not by importing them."""
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    assert files
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files]
    return sorted(name.removesuffix(".__init__") for name in names)


def _loaded(code: str) -> set[str]:
    """Names of the modules that a fresh process has loaded after `code`, with those of their packages."""
    result = subprocess.run(
        [sys.executable, "-c", REPORT.format(code=code)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return {name for module in json.loads(result.stdout.splitlines()[-1]) for name in _with_parents(module)}


def _with_parents(module: str) -> Iterable[str]:
    parts = module.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _import(*modules: str) -> str:
    return f"import {', '.join(modules)}"


def _command(*arguments: object) -> str:
    words = [str(argument) for argument in arguments]
    return (
        f"from andrea_engine.cli import run; from andrea_engine.latch import SignalLatch; run({words!r}, SignalLatch())"
    )


def test_the_shared_packages_need_msgspec_and_nothing_else() -> None:
    loaded = _loaded(_import(*_modules("andrea_engine/run", "andrea_engine/curriculum", "andrea_engine/coherence")))
    foreign = {name for name in loaded if "." not in name and name not in sys.stdlib_module_names}
    assert foreign - {"andrea_engine", "msgspec", "typing_extensions", "tomli_w"} == set(), (
        "msgspec takes the third along"
    )
    assert loaded & REST_OF_ENGINE == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["train", "--help"],
        ["status", "RUN", "--json"],
        ["check", "RUN"],
        ["repair", "RUN"],
        ["score", str(ROOT / "pyproject.toml")],
        ["backtest", "RUN/.samples.json"],
        ["train", "nowhere"],
    ],
)
def test_the_light_commands_load_neither_torch_nor_numpy(trained: TrainedRun, arguments: list[str]) -> None:
    words = [word.replace("RUN", str(trained.directory.path)) for word in arguments]
    assert _loaded(_command(*words)) & {"torch", "numpy", "textual", "rich", "andrea_tui"} == set()


def test_arming_comes_before_everything_heavy() -> None:
    """What `python -m andrea_engine` has loaded when the handlers are in place."""
    loaded = _loaded("from andrea_engine import latch")
    assert {name for name in loaded if name.startswith("andrea_engine")} == {"andrea_engine", "andrea_engine.latch"}
    assert loaded & (HEAVY | {"msgspec", "argparse"}) == set()


def test_training_never_loads_the_slow_part_of_torch(tmp_path: Path) -> None:
    """The compiler's front end, which the first use of `torch.optim` pulls in: it doubles the time of a start."""
    directory = make_run(tmp_path / "run")
    loaded = _loaded(_command("train", directory.path, "--steps", 1))
    assert "torch" in loaded
    assert (directory.path / "step_000001.bin").exists()
    assert loaded & {"torch._dynamo", "torch._inductor", "textual", "rich", "andrea_tui"} == set()


def test_the_console_loads_neither_torch_nor_numpy_nor_the_rest_of_the_engine() -> None:
    loaded = _loaded(_import(*_modules("andrea_tui")))
    assert {"andrea_tui.app", "textual"} <= loaded
    assert loaded & ({"torch", "numpy"} | REST_OF_ENGINE) == set()


def test_the_console_answers_once_without_textual(trained: TrainedRun) -> None:
    for option in ("--once", "--json"):
        words = [str(trained.directory.path), option]
        loaded = _loaded(f"from andrea_tui.cli import run; assert run({words!r}) == 0")
        assert loaded & ({"textual", "rich", "torch", "numpy"} | REST_OF_ENGINE) == set()


def test_plotting_is_pure() -> None:
    loaded = _loaded(_import(*_modules("andrea_tui/plotting")))
    foreign = {name for name in loaded if "." not in name and name not in sys.stdlib_module_names}
    assert foreign <= {"andrea_tui", "msgspec", "typing_extensions"}, "its values are structs, as everywhere"
    assert {name for name in loaded if name.startswith("andrea_tui.") and name.count(".") == 1} == {
        "andrea_tui.plotting"
    }


def test_the_feed_never_draws() -> None:
    loaded = _loaded(_import(*_modules("andrea_tui/feed")))
    assert loaded & (
        {"textual", "rich", "torch", "numpy", "andrea_tui.widgets", "andrea_tui.screens"} | REST_OF_ENGINE
    ) == (set())
