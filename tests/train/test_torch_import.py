"""What the engine leaves out of PyTorch's import: nothing of its own misses it, and compilers get it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.tiny import make_run

LEFT_OUT = ("torch._meta_registrations", "torch._prims", "torch._refs", "torch._dynamo")


def _python(code: str, *arguments: object) -> list[str]:
    """The lines that a fresh interpreter prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_training_sampling_and_saving_need_nothing_of_it(tmp_path: Path) -> None:
    directory = make_run(
        tmp_path / "run", {"schedule": {"steps": 4}, "checkpoint": {"every": 2}, "sample": {"every": 2}}
    )
    code = f"""
import sys
from andrea_engine.cli import run
from andrea_engine.latch import LATCH
LATCH.arm()
code = run(["train", sys.argv[1]], LATCH)
from importlib.metadata import version
from andrea_engine.train.torch_import import KNOWN
whole = version("torch") not in KNOWN
print(code, [name for name in {LEFT_OUT} if name in sys.modules and not whole])
"""
    assert _python(code, directory.path)[-1] == "0 []"
    assert directory.sample_record().exists()


def test_a_compiled_function_and_the_shapes_without_data_work_after_it() -> None:
    code = """
from andrea_engine.train.torch_import import complete_torch, import_torch
import_torch()
complete_torch()
import torch
print(tuple((torch.empty(2, 3, device="meta") @ torch.empty(3, 5, device="meta")).shape))
double = torch.compile(lambda x: (x * 2).sum(), backend="aot_eager")
x = torch.ones(3, requires_grad=True)
double(x).backward()
print(x.grad.tolist(), torch.Generator().manual_seed(7).initial_seed())
"""
    assert _python(code) == ["(2, 5)", "[2.0, 2.0, 2.0] 7"]


def test_a_deterministic_engine_has_all_of_it(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", {"schedule": {"steps": 2}})
    command = [sys.executable, "-m", "andrea_engine", "train", str(directory.path), "--deterministic"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_random_numbers_are_those_of_a_whole_import() -> None:
    draw = "import torch; print(torch.rand(5, generator=torch.Generator().manual_seed(3)).tolist())"
    lean = "from andrea_engine.train.torch_import import import_torch; import_torch()"
    assert _python(f"{lean}; {draw}") == _python(draw)


def test_an_unknown_build_is_imported_whole() -> None:
    code = f"""
import sys
from andrea_engine.train import torch_import
torch_import.KNOWN = frozenset()
torch_import.import_torch()
print([name for name in {LEFT_OUT[:3]} if name not in sys.modules])
"""
    assert _python(code) == ["[]"]
