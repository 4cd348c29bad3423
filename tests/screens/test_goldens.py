"""The dashboard at each size and in each look is, cell by cell and style by style, what was last looked at and found
good. After a change that was meant: `python -m tests.screens.goldens`, and look at the difference."""

from __future__ import annotations

import pytest

from tests.screens.goldens import FOLDER, LOOKS, SIZES, name_of, screen


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("size", SIZES, ids=[f"{columns}x{rows}" for columns, rows in SIZES])
def test_the_dashboard_looks_as_it_did(size: tuple[int, int], look: str) -> None:
    golden = (FOLDER / name_of(size, look)).read_text(encoding="utf-8")
    assert screen(size, look).splitlines() == golden.splitlines()


@pytest.mark.parametrize("size", SIZES, ids=[f"{columns}x{rows}" for columns, rows in SIZES])
def test_goldens_without_colour_have_none_and_those_in_ascii_nothing_else(size: tuple[int, int]) -> None:
    plain = (FOLDER / name_of(size, "no-color")).read_text(encoding="utf-8")
    assert "#" not in plain.split("\n\n")[-1], "only bold, dim, reverse and underline"
    assert (FOLDER / name_of(size, "ascii")).read_text(encoding="utf-8").isascii()


def test_there_is_a_golden_for_each_and_no_other() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {name_of(size, look) for size in SIZES for look in LOOKS}
