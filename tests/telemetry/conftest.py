from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .standin import StandIn

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the stand-in library, compiled once."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("building the NVML stand-in needs a C compiler (gcc)")
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).with_name("nvml_standin.c")
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(folder / "libnvidia-ml.so.1"), str(source)]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def child_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Helpers are started as modules: they have to find the package wherever the tests run from."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))


@pytest.fixture
def nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child_environment: None) -> StandIn:
    """Helpers that are started from now on see the stand-in, at first in the scenario `ok`."""
    control = StandIn(tmp_path / "scenario")
    control.say("ok")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_library))
    monkeypatch.setenv("NVML_STANDIN", str(control.path))
    return control


@pytest.fixture
def no_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child_environment: None) -> None:
    """No library, also on a machine that has one: the first that is found cannot be loaded."""
    folder = tmp_path / "no-nvml"
    folder.mkdir()
    (folder / "libnvidia-ml.so.1").write_text("not a library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
