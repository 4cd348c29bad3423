"""The ids of all tests, read from the sources: `tests/run/test_io.py::test_a_file_is_replaced_whole`."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def node_ids() -> frozenset[str]:
    """Every test function there is, those of `make soak` among them; without the values of parameters."""
    return frozenset(
        f"{path.relative_to(ROOT)}::{node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
    )
